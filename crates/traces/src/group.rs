//! The data that a traced request and the groups that execute it share.

use crate::context::SpanContext;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Maximum number of groups that a member remembers, and of members to which the span of a group is linked.
pub const GROUPS_MAX: usize = 128;

/// A database on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName {
    /// The host, or the folder of the Unix socket.
    pub address: String,
    /// `None` for a Unix socket.
    pub port: Option<u16>,
    /// The database there.
    pub database: String,
}

/// A traced request while groups may execute it.
#[derive(Debug)]
pub struct MemberTrace {
    /// The span of the request.
    pub context: SpanContext,
    groups: Mutex<Vec<Arc<GroupTrace>>>,
}

/// A group that has left the line.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupTrace {
    /// Its span, if it has several members.
    pub context: Option<SpanContext>,
    /// The time at which its members left the line.
    pub left: Instant,
    /// The strategy as users know it.
    pub strategy: &'static str,
    /// The number of its members.
    pub members: usize,
    /// The server that executes it.
    pub server: ServerName,
}

impl MemberTrace {
    /// Of a request that is in no group yet.
    pub fn new(context: SpanContext) -> Self {
        Self {
            context,
            groups: Mutex::default(),
        }
    }

    /// The request has left the line with a group. Beyond [`GROUPS_MAX`] groups, the last one takes the place of its predecessor.
    pub fn joined(&self, group: &Arc<GroupTrace>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.truncate(GROUPS_MAX - 1);
        groups.push(Arc::clone(group));
    }

    /// The groups with which the request has left the line, in their order.
    pub fn groups(&self) -> Vec<Arc<GroupTrace>> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.clone()
    }
}
