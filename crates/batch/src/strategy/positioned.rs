//! The statements of a take whose groups start at a position in the order of the queue, and the passes that they make.

use super::build_context::BuildContext;
use super::messages::InjectedStatement;
use super::queue_starts::{Position, QueuePass, QueueStarts, QueueValues};
use paceline_relay::template::Templates;
use paceline_sql::distribution::{PositionedTexts, QueueTexts};
use std::sync::{Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// The part of a take's plan that is in use with `queue_reorder_time`.
#[derive(Debug)]
pub(super) struct PositionedPlan {
    whole: QueueStatements,
    from_position: QueueStatements,
    /// Number of values of a position.
    columns: usize,
    starts: Mutex<QueueStarts>,
}

#[derive(Debug)]
struct QueueStatements {
    id: u64,
    few_id: u64,
    texts: QueueTexts,
}

/// The pass of a group in flight.
#[derive(Debug)]
pub(super) struct PassUnderway {
    queue: QueueValues,
    pub(super) pass: QueuePass,
    /// The first row that was found.
    first: Option<Position>,
}

impl PositionedPlan {
    pub(super) fn new(texts: Option<&PositionedTexts>, templates: &Templates) -> Option<Self> {
        let statements = |texts: &QueueTexts| QueueStatements {
            id: templates.new_id(),
            few_id: templates.new_id(),
            texts: texts.clone(),
        };
        texts.map(|texts| Self {
            whole: statements(&texts.whole),
            from_position: statements(&texts.from_position),
            columns: texts.columns,
            starts: Mutex::default(),
        })
    }

    /// The statement of a group that asks for few rows, or for any number.
    pub(super) fn statement(&self, pass: &QueuePass, few: bool) -> InjectedStatement<'_> {
        let statements = match pass {
            QueuePass::Whole(_) => &self.whole,
            QueuePass::From { .. } => &self.from_position,
        };
        let (id, text) = match &statements.texts.text_of_few {
            Some(text) if few => (statements.few_id, text),
            _ => (statements.id, &statements.texts.text),
        };
        InjectedStatement { id, text }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The pass of a group on this queue.
    pub(super) fn begin(&self, queue: QueueValues, context: &BuildContext<'_>) -> PassUnderway {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = starts.next_pass(context.now, context.queue_reorder_time, &queue);
        PassUnderway {
            queue,
            pass,
            first: None,
        }
    }

    /// The group of a pass is committed.
    pub(super) fn committed(&self, pass: PassUnderway) {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.committed(pass.queue, &pass.pass, pass.first);
    }
}

impl PassUnderway {
    /// The values of the position at which the pass starts.
    pub(super) fn position(&self) -> impl Iterator<Item = &[u8]> {
        let position = match &self.pass {
            QueuePass::Whole(_) => None,
            QueuePass::From { position, .. } => Some(position),
        };
        position.into_iter().flatten().map(Vec::as_slice)
    }

    /// Takes the position of the first row of the group from a row of the result.
    pub(super) fn found(&mut self, position: &[Option<&[u8]>]) {
        if self.first.is_none() {
            let values = position.iter().map(|value| value.map(<[u8]>::to_vec));
            self.first = values.collect();
        }
    }
}
