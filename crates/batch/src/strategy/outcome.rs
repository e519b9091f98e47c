//! Results of a group: for each member, and for the analysis of their template.

use crate::template_stats::Fallback;
use bytes::Bytes;

/// The result of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberResult {
    /// Number of the member in its group, from 0.
    pub member: usize,
    /// Its outcome.
    pub outcome: MemberOutcome,
}

impl MemberResult {
    /// The result of a member whose answer does not count because its run has stalled.
    pub fn stalled(self) -> Self {
        Self {
            outcome: match self.outcome {
                MemberOutcome::Answer(_) => MemberOutcome::Retry(Retry::Alone, Fallback::Stalled),
                again @ MemberOutcome::Retry(..) => again,
            },
            ..self
        }
    }
}

/// The outcome of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOutcome {
    /// The complete answer.
    Answer(Bytes),
    /// No effect of the member is committed: it returns to the line, for this reason.
    Retry(Retry, Fallback),
}

/// The way in which a member leaves the line again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Alone.
    Alone,
    /// With other members on its own row.
    Row,
    /// With other members on its own row, whose lock was not granted in time.
    Blocked,
    /// As if it had not left.
    Line,
    /// With the first half of its group.
    FirstHalf,
    /// With the second half of its group.
    SecondHalf,
    /// On the coordinator: the shard has done nothing.
    Elsewhere,
}

/// The reason why the analysis of a template no longer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalidation {
    /// The catalog has changed.
    Changed,
    /// The server rejects the group's statement, for this reason.
    Refused(String),
}

/// The same retry for these members.
pub(super) fn retry(
    members: impl IntoIterator<Item = usize>,
    how: Retry,
    reason: Fallback,
) -> impl Iterator<Item = MemberResult> {
    members.into_iter().map(move |member| MemberResult {
        member,
        outcome: MemberOutcome::Retry(how, reason),
    })
}

/// The two halves of a failed group. Each leaves by itself, in order, until the member that causes the error is alone.
pub(super) fn retry_halves(members: usize, reason: Fallback) -> impl Iterator<Item = MemberResult> {
    let middle = members.div_ceil(2);
    let first = retry(0..middle, Retry::FirstHalf, reason);
    first.chain(retry(middle..members, Retry::SecondHalf, reason))
}

/// SQLSTATE class 42: syntax error or access rule violation.
pub(super) fn is_refusal(sqlstate: &str) -> bool {
    sqlstate.starts_with("42")
}

/// Whether a lock was not granted in time. SQLSTATE 57014 does not count: it may report a time-out, a cancel request or
/// autovacuum, and only the message, which is translated, says which.
pub(super) fn is_lock_timeout(sqlstate: &str) -> bool {
    sqlstate == "55P03"
}

/// The reason that is counted for members of a group that this error has undone.
pub(super) fn fallback_reason(sqlstate: &str) -> Fallback {
    match sqlstate {
        _ if is_refusal(sqlstate) => Fallback::Refused,
        _ if is_lock_timeout(sqlstate) => Fallback::Timeout,
        _ => Fallback::Error,
    }
}
