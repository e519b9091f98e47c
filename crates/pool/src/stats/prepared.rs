//! Counts a client's messages about named statements, as PgBouncer does. Messages about the unnamed statement are not counted.

use paceline_wire::Frame;
use paceline_wire::frontend::{BindNames, Parse, tag};

/// Messages about named statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreparedCounts {
    /// `Parse`.
    pub parses: u64,
    /// `Bind`.
    pub binds: u64,
}

impl PreparedCounts {
    /// Counts a message of a client.
    pub fn note(&mut self, frame: Frame<'_>) {
        let named = |name: &[u8]| u64::from(!name.is_empty());
        match frame.tag {
            tag::PARSE => {
                self.parses += Parse::read(frame.body()).map_or(0, |parse| named(parse.name));
            }
            tag::BIND => {
                let bind = BindNames::read(frame.body());
                self.binds += bind.map_or(0, |bind| named(bind.statement));
            }
            _ => {}
        }
    }
}
