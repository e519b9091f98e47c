//! Patroni's view of the hosts: the answer of `GET /cluster` of its REST API.

use crate::host::HostAddress;
use crate::position::Timeline;
use serde_json::Value;
use thiserror::Error;

/// Maximum size of an answer. A cluster has a handful of members.
const BYTES_MAX: usize = 1 << 20;
/// The port of a member that does not name one.
const PORT: u16 = 5432;
/// Patroni's names for a member that takes writes. `master` is the name before version 3.
const LEADERS: [&str; 2] = ["leader", "master"];

/// The hosts as Patroni knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatroniView {
    /// All members.
    pub members: Vec<PatroniMember>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatroniMember {
    /// Its name in Patroni.
    pub name: String,
    /// Its role in Patroni's words: `leader`, `replica`, `sync_standby`, `standby_leader`, …
    pub role: String,
    /// Its state in Patroni's words: `running`, `streaming`, `stopped`, …
    pub state: String,
    /// The address of its PostgreSQL; `None` if the member did not register one.
    pub address: Option<HostAddress>,
    /// Its timeline.
    pub timeline: Option<Timeline>,
}

/// The reason why an answer is not Patroni's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatroniError {
    /// Too long.
    #[error("the answer is longer than {BYTES_MAX} bytes")]
    Size,
    /// Not JSON.
    #[error("the answer is not JSON: {0}")]
    Json(String),
    /// Other JSON.
    #[error("the answer has no list of members; the URL must be that of Patroni's REST API")]
    Members,
    /// Several leaders.
    #[error("the answer names more than one leader")]
    Leaders,
}

impl PatroniView {
    /// Reads the body of the answer.
    ///
    /// # Errors
    /// Any [`PatroniError`].
    pub fn parse(body: &[u8]) -> Result<Self, PatroniError> {
        if body.len() > BYTES_MAX {
            return Err(PatroniError::Size);
        }
        let read = serde_json::from_slice::<Value>(body);
        let body = read.map_err(|error| PatroniError::Json(error.to_string()))?;
        let members = body.get("members").and_then(Value::as_array);
        let members = members.ok_or(PatroniError::Members)?;
        let view = Self {
            members: members.iter().filter_map(member).collect(),
        };
        match view.leaders().count() {
            0 | 1 => Ok(view),
            _ => Err(PatroniError::Leaders),
        }
    }

    /// The member that takes writes.
    #[must_use]
    pub fn leader(&self) -> Option<&PatroniMember> {
        self.leaders().next()
    }

    /// The highest timeline of all members.
    #[must_use]
    pub fn timeline(&self) -> Option<Timeline> {
        self.members
            .iter()
            .filter_map(|member| member.timeline)
            .max()
    }

    fn leaders(&self) -> impl Iterator<Item = &PatroniMember> {
        let leads = |member: &&PatroniMember| LEADERS.contains(&member.role.as_str());
        self.members.iter().filter(leads)
    }
}

fn member(member: &Value) -> Option<PatroniMember> {
    let text = |key| member.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key| member.get(key).and_then(Value::as_u64);
    let port = number("port").and_then(|port| u16::try_from(port).ok());
    let timeline = number("timeline").and_then(|timeline| u32::try_from(timeline).ok());
    Some(PatroniMember {
        name: text("name")?,
        role: text("role").unwrap_or_default(),
        state: text("state").unwrap_or_default(),
        address: text("host").map(|host| HostAddress {
            host,
            port: port.unwrap_or(PORT),
        }),
        timeline: timeline.map(Timeline),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"members": [
        {"name": "pg1", "role": "leader", "state": "running", "api_url": "http://10.0.0.1:8008/patroni",
         "host": "10.0.0.1", "port": 5433, "timeline": 3},
        {"name": "pg2", "role": "sync_standby", "state": "streaming", "host": "10.0.0.2", "port": 5432,
         "timeline": 3, "lag": 0, "tags": {"nofailover": true}},
        {"name": "pg3", "role": "replica", "state": "stopped", "host": "10.0.0.3", "lag": "unknown"}],
        "scope": "demo"}"#;

    #[test]
    fn an_answer_is_read() {
        let view = PatroniView::parse(BODY.as_bytes()).unwrap();
        let leader = view.leader().unwrap();
        assert_eq!(leader.name, "pg1");
        let address = HostAddress {
            host: "10.0.0.1".to_owned(),
            port: 5433,
        };
        assert_eq!(leader.address, Some(address));
        assert_eq!(view.timeline(), Some(Timeline(3)));
        let states: Vec<_> = view
            .members
            .iter()
            .map(|member| member.state.as_str())
            .collect();
        assert_eq!(states, ["running", "streaming", "stopped"]);
        assert_eq!(view.members.last().unwrap().timeline, None);
    }

    #[test]
    fn a_cluster_may_have_no_leader() {
        let view = PatroniView::parse(br#"{"members": []}"#).unwrap();
        assert_eq!(view.leader(), None);
        let view = BODY.replace("leader", "standby_leader");
        assert_eq!(PatroniView::parse(view.as_bytes()).unwrap().leader(), None);
    }

    #[test]
    fn another_answer_is_rejected() {
        let refused = |body: &str| PatroniView::parse(body.as_bytes()).unwrap_err();
        assert!(matches!(refused("<html>"), PatroniError::Json(_)));
        assert_eq!(refused("{}"), PatroniError::Members);
        assert_eq!(
            refused(&BODY.replace("replica", "leader")),
            PatroniError::Leaders
        );
        assert_eq!(refused(&" ".repeat(BYTES_MAX + 1)), PatroniError::Size);
    }
}
