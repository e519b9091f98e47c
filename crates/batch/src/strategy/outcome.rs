//! What becomes of a group's members, and of what is known of their template.

use crate::template_stats::Fallback;
use bytes::Bytes;

/// What becomes of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOutcome {
    /// Its answer, complete.
    Answer(Bytes),
    /// It was not served and nothing of it has happened: it goes again, for this reason.
    Retry(Retry, Fallback),
}

/// How a member goes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// By itself.
    Alone,
    /// With others on its own row.
    Row,
    /// The same, but the lock of the row could not be had.
    Blocked,
    /// As if it had not left.
    Line,
    /// With the first half of its group.
    FirstHalf,
    /// With the second half of its group.
    SecondHalf,
}

/// A member's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberResult {
    /// Number of the member in its group, from 0.
    pub member: usize,
    /// What becomes of it.
    pub outcome: MemberOutcome,
}

/// What a group has shown of its members' template: what was known of it no longer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalidation {
    /// The catalog has changed: it must be asked again.
    Changed,
    /// The server refuses the group's statement, for this reason.
    Refused(String),
}

/// The same outcome for many.
pub(super) fn retry(
    members: impl IntoIterator<Item = usize>,
    how: Retry,
    why: Fallback,
) -> impl Iterator<Item = MemberResult> {
    members.into_iter().map(move |member| MemberResult {
        member,
        outcome: MemberOutcome::Retry(how, why),
    })
}

/// The two halves of a group that failed: each travels again by itself, in order, until who is at fault is alone.
pub(super) fn retry_halves(members: usize, why: Fallback) -> impl Iterator<Item = MemberResult> {
    let middle = members.div_ceil(2);
    let first = retry(0..middle, Retry::FirstHalf, why);
    first.chain(retry(middle..members, Retry::SecondHalf, why))
}

/// SQLSTATE class 42: syntax error or access rule violation.
pub(super) fn is_refusal(sqlstate: &str) -> bool {
    sqlstate.starts_with("42")
}

/// A lock was not granted in time. (What 57014 means, a time-out, a cancel request or autovacuum's, no field tells in every
/// language: it is an error like others.)
pub(super) fn is_lock_timeout(sqlstate: &str) -> bool {
    sqlstate == "55P03"
}

/// Why the members of a group go again that this has undone.
pub(super) fn fallback_reason(sqlstate: &str) -> Fallback {
    match sqlstate {
        _ if is_refusal(sqlstate) => Fallback::Refused,
        _ if is_lock_timeout(sqlstate) => Fallback::Timeout,
        _ => Fallback::Error,
    }
}
