//! What Paceline makes of a key of PgBouncer, and how PgBouncer writes its value.

/// How a value is written in PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A whole number as C writes it: `020` is sixteen.
    Number,
    /// A number of which zero is off.
    Switch,
    /// Seconds, perhaps with a fraction.
    Seconds,
    /// Permissions of a file, a number.
    Mode,
    /// A file or folder, relative to where the process was started.
    Path,
    /// Anything else.
    Text,
}

/// What Paceline makes of a key of PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Paceline has this key for it.
    Key(&'static str),
    /// It is part of another key.
    PartOf(&'static str),
    /// It is accepted, and this is remarked.
    Ignored(&'static str),
    /// An operator may rely on it: any value but these is an error.
    Refused {
        /// The values that describe what Paceline does anyway.
        unless: &'static [&'static str],
        /// Why, and what to do.
        why: &'static str,
    },
}
