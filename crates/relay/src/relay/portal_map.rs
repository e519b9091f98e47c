//! The portals of a transaction, by name. The server may refuse to replace or to close one, so former portals are kept until the
//! request that replaces or closes them has succeeded, or the transaction ends.
//!
//! Clients bind the unnamed portal very often, and execute it in the same request: if the server refuses or skips that `Bind`, it skips the
//! `Execute`, too. So former unnamed portals are few, and matter only to a request that executes the unnamed portal without a `Bind` of it.

use super::targeted_portal::TargetedPortal;
use crate::server::StatementKey;
use crate::template::Template;
use foldhash::{HashMap, HashMapExt};
use paceline_sql::SessionChange;
use std::collections::{VecDeque, vec_deque};
use std::sync::Arc;

/// Maximum capacity for portals that is kept for the next transaction. To clear a larger one would cost each transaction.
const CAPACITY_KEPT_MAX: usize = 64;

/// Maximum number of portals, and of former ones, that are remembered.
const REMEMBERED_MAX: usize = 1_000;

/// Maximum number of former unnamed portals that are remembered.
const FORMER_UNNAMED_MAX: usize = 8;

/// A statement with the values bound to it.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) template: Arc<Template>,
    /// The name of the statement.
    pub(super) statement: Box<[u8]>,
    /// The statement on the server. `None` for the unnamed one.
    pub(super) key: Option<StatementKey>,
    /// The settings that its values change.
    pub(super) sets: Vec<SessionChange>,
    /// Paceline has executed the portal, without a server. PostgreSQL executes such a portal once.
    pub(super) done: bool,
    /// `None` unless its statement must affect an exact number of rows.
    pub(super) targeted: Option<TargetedPortal>,
}

/// The portals that an execution may also execute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others<'a> {
    /// Those that had this name before.
    pub(super) former_of: Option<&'a [u8]>,
    /// All that have or had a name: PostgreSQL knows portals by the names of cursors.
    pub(super) cursors: bool,
}

impl Others<'_> {
    fn reads_former(self) -> bool {
        self.cursors || self.former_of.is_some_and(|name| !name.is_empty())
    }
}

/// The portals to which the client has bound statements.
#[derive(Debug, Default)]
pub(super) struct Portals {
    bound: HashMap<Box<[u8]>, Portal>,
    /// Named portals that the client has bound anew or closed.
    former: Vec<(Box<[u8]>, Portal)>,
    /// Number of those that the server may have kept, because their request has failed.
    kept: usize,
    /// More portals existed than are remembered.
    are_forgotten: bool,
    unnamed: FormerUnnamed,
}

/// Unnamed portals that the client has replaced. The server may have kept one of them.
#[derive(Debug, Default)]
struct FormerUnnamed {
    portals: VecDeque<Portal>,
    /// Number of those that the server may have kept, because a request has failed.
    kept: usize,
    /// More existed than are remembered.
    are_forgotten: bool,
    /// The request under way binds the unnamed portal.
    are_replaced: bool,
}

impl FormerUnnamed {
    fn keep(&mut self, portal: Portal) {
        if self.portals.len() >= FORMER_UNNAMED_MAX {
            self.portals.pop_front();
            self.kept = self.kept.saturating_sub(1);
            self.are_forgotten = true;
        }
        self.portals.push_back(portal);
    }

    fn answered(&mut self, failed: bool, no_more: bool) {
        match (failed, no_more) {
            (true, _) => self.kept = self.portals.len(),
            (false, true) => self.portals.truncate(self.kept),
            (false, false) => {}
        }
    }

    fn end(&mut self) {
        self.portals.clear();
        self.kept = 0;
        self.are_forgotten = false;
        self.are_replaced = false;
    }
}

impl Portals {
    pub(super) fn get(&self, name: &[u8]) -> Option<&Portal> {
        self.bound.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Portal> {
        self.bound.get_mut(name)
    }

    /// The client has bound a statement to this portal.
    pub(super) fn bind(&mut self, name: &[u8], portal: Portal) {
        if self.bound.len() >= REMEMBERED_MAX {
            self.are_forgotten = true;
            self.bound.clear();
        }
        self.unnamed.are_replaced |= name.is_empty();
        if let Some(before) = self.bound.insert(name.into(), portal) {
            self.keep(name, before);
        }
    }

    /// The client has closed this portal, or bound an unknown statement to it.
    pub(super) fn remove(&mut self, name: &[u8]) {
        self.unnamed.are_replaced |= name.is_empty();
        if let Some(portal) = self.bound.remove(name) {
            self.keep(name, portal);
        }
    }

    /// Removes all portals. Returns their templates.
    pub(super) fn remove_all(&mut self) -> Vec<Arc<Template>> {
        let mut templates = Vec::with_capacity(self.bound.len());
        for (name, portal) in std::mem::take(&mut self.bound) {
            templates.push(Arc::clone(&portal.template));
            self.keep(&name, portal);
        }
        templates
    }

    /// The messages of a request end.
    pub(super) fn request_ends(&mut self) {
        self.unnamed.are_replaced = false;
    }

    /// Whether the request under way binds or closes the unnamed portal.
    pub(super) fn replaces_unnamed(&self) -> bool {
        self.unnamed.are_replaced
    }

    fn keep(&mut self, name: &[u8], portal: Portal) {
        match self.former.len() {
            _ if name.is_empty() => self.unnamed.keep(portal),
            REMEMBERED_MAX.. => self.are_forgotten = true,
            _ => self.former.push((name.into(), portal)),
        }
    }

    /// A request is answered, the last one if there are `no_more`. If it has `failed`, the server may have kept the portals that it was to
    /// replace or close.
    pub(super) fn answered(&mut self, failed: bool, no_more: bool) {
        self.unnamed.answered(failed, no_more);
        match (failed, no_more) {
            // Also those of later requests: which these are is not known.
            (true, _) => self.kept = self.former.len(),
            (false, true) => self.former.truncate(self.kept),
            (false, false) => {}
        }
    }

    /// The transaction has ended, and with it all portals.
    pub(super) fn end(&mut self) {
        match self.bound.capacity() > CAPACITY_KEPT_MAX {
            true => self.bound = HashMap::new(),
            false => self.bound.clear(),
        }
        self.former.clear();
        self.kept = 0;
        self.are_forgotten = false;
        self.unnamed.end();
    }

    /// Whether some of these portals may not be remembered.
    pub(super) fn are_forgotten(&self, others: Others<'_>) -> bool {
        let unnamed = others.former_of == Some(b"") && self.unnamed.are_forgotten;
        unnamed || self.are_forgotten && others.reads_former()
    }

    /// Number of portals that [`Portals::also`] reads.
    pub(super) fn read_by_also(&self, others: Others<'_>) -> usize {
        let former = others.reads_former().then_some(self.former.len());
        let bound = others.cursors.then_some(self.bound.len());
        former.into_iter().chain(bound).sum::<usize>() + self.former_unnamed(others).len()
    }

    /// The remembered ones of these portals.
    pub(super) fn also<'a>(&'a self, others: Others<'a>) -> impl Iterator<Item = &'a Portal> {
        let Others { former_of, cursors } = others;
        let former = match others.reads_former() {
            true => self.former.as_slice(),
            false => &[],
        };
        let former = former.iter();
        let former = former.filter(move |(name, _)| cursors || former_of == Some(&**name));
        let bound = cursors.then_some(&self.bound).into_iter().flatten();
        let bound = bound.filter(|(name, _)| !name.is_empty());
        former
            .map(|(_, portal)| portal)
            .chain(bound.map(|(_, portal)| portal))
            .chain(self.former_unnamed(others))
    }

    fn former_unnamed(&self, others: Others<'_>) -> vec_deque::Iter<'_, Portal> {
        match others.former_of {
            Some(b"") => self.unnamed.portals.iter(),
            _ => vec_deque::Iter::default(),
        }
    }
}
