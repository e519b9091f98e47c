//! Strategies: how a group of requests becomes messages for one server connection, and how the answer becomes a result for each
//! member of the group.
//!
//! [`Strategy`] is the table of all strategies. There are two kinds:
//! - One statement executes the group: fold, take, merge. A [`GroupPlan`] says which group a request joins, and writes the
//!   statement; a `GroupResult` reads its rows; `StatementBatch` handles all other messages. Take and merge share [`distribute`];
//!   merge has [`upsert`] and [`multi_row`], too.
//! - The statements of the members are sent: chain, pipeline, share. `group_of` says which group a request joins; `build` writes
//!   the messages; a [`Batch`] reads the answers.
//!
//! The documentation of the crate says how to add one.
//!
//! A request that no group takes needs no strategy: [`paceline_relay::relay`] relays it unchanged.

mod array;
mod batch;
mod build;
mod build_context;
pub mod chain;
mod commit_notices;
mod described;
pub mod distribute;
mod explain_lines;
pub mod fold;
mod identical_reads;
mod member_answer;
mod messages;
pub mod multi_row;
mod outcome;
pub mod pipeline;
mod plan;
mod positioned;
mod prelude;
pub mod probe;
mod queue_starts;
mod row_key;
pub mod row_lock;
mod row_spread;
mod shard;
pub mod share;
mod statement_batch;
mod statement_progress;
pub mod upsert;

pub use batch::{Batch, BatchProgress};
pub use build::build;
pub use build_context::BuildContext;
pub use described::FORMATS_MAX;
pub use explain_lines::ExplainLines;
pub use messages::BatchWriter;
pub use outcome::{Invalidation, MemberOutcome, MemberResult, Retry};
use paceline_sql::Statement;
pub use plan::{GroupPlan, PlannedRequest};
pub use prelude::{ChainFacts, Prelude, STATEMENT_MAX};
pub use shard::{ShardPart, ShardTable, TableNames, build_on_shard};

#[cfg(test)]
mod tests;

/// The statements that PostgreSQL executes for the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// The read of each member. A read changes nothing: it may be sent twice, and a member may leave the group at any time.
    /// `rows_written` and `commits_saved` are not counted.
    MemberReads,
    /// The write of each member, all in one transaction with one commit. `commits_saved` counts requests less commits;
    /// `rows_written` is not counted.
    MemberWrites,
    /// One statement in place of those of the members, with one commit. The [`GroupPlan`] of the template writes it.
    /// [`Strategy::rewrites`] is true. `commits_saved` counts requests less commits; `rows_written` counts the row versions that
    /// the strategy's `GroupResult` reports.
    OneStatement,
}

/// Properties of a strategy that do not depend on its requests.
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    /// The name in `SHOW GROUPS`, metrics and `paceline explain`.
    pub name: &'static str,
    /// The treatment of requests that wait, as a clause, for `paceline explain`.
    pub in_words: &'static str,
    /// The statements that PostgreSQL executes for the members.
    pub execution: Execution,
    /// Whether the text of a statement has the form that the strategy executes for a group. The catalog may still forbid it. For
    /// strategies that execute the members' own statements the answer is false: [`TemplateAnalysis`](crate::analysis) decides.
    pub recognizes: fn(&Statement) -> bool,
    /// Whether a member may have to wait for the answers of those in front of it. Then `pipeline_depth_max` limits the group, not
    /// `group_size_max`.
    pub waits_for_predecessors: bool,
    /// Whether all members are the same request. Then a request without a duplicate gains nothing from its group.
    pub only_duplicates: bool,
    /// Whether all members change one table, or none. Then writes to other tables are no barriers to the group.
    pub ignores_other_tables: bool,
    /// Whether the result says of each member that it changed exactly one row (the hint `TARGET_AFFECT_ROW(1)`).
    pub checks_target: bool,
}

const MEMBER_READS: Properties = Properties {
    name: "",
    in_words: "",
    execution: Execution::MemberReads,
    recognizes: |_| false,
    waits_for_predecessors: false,
    only_duplicates: false,
    ignores_other_tables: true,
    checks_target: false,
};

const MEMBER_WRITES: Properties = Properties {
    execution: Execution::MemberWrites,
    ignores_other_tables: false,
    ..MEMBER_READS
};

const ONE_STATEMENT: Properties = Properties {
    execution: Execution::OneStatement,
    ..MEMBER_READS
};

/// Declares [`Strategy`] from one row per strategy: its documentation, its variant, and its [`Properties`], which says how the
/// strategy recognizes statements. The constant for the [`Execution`] has the properties that the row does not name.
macro_rules! strategies {
    ($($(#[$doc:meta])+ $strategy:ident: $properties:expr;)+) => {
        /// The way in which a group is executed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Strategy {
            $($(#[$doc])+ $strategy,)+
        }

        impl Strategy {
            /// All strategies.
            pub const ALL: [Self; [$(stringify!($strategy)),+].len()] = [$(Self::$strategy),+];

            /// The properties of this strategy.
            pub const fn properties(self) -> Properties {
                match self {
                    $(Self::$strategy => $properties,)+
                }
            }
        }
    };
}

strategies! {
    /// Short reads one after the other, each with its own Sync ([`pipeline`]).
    Pipeline: Properties {
        name: "pipeline",
        in_words: "short reads that wait are sent together, in one round trip",
        waits_for_predecessors: true,
        ..MEMBER_READS
    };
    /// Identical reads, of which PostgreSQL executes one ([`share`]).
    Share: Properties {
        name: "share",
        in_words: "of identical reads that wait, one runs, and each client gets its answer",
        only_duplicates: true,
        ..MEMBER_READS
    };
    /// Writes in one implicit transaction ([`chain`]).
    Chain: Properties {
        name: "chain",
        in_words: "short writes that wait run one after the other in one transaction, with one commit",
        ..MEMBER_WRITES
    };
    /// Updates of single rows in one statement ([`fold`]).
    Fold: Properties {
        name: "fold",
        in_words: "updates that wait for a row or a connection run as one statement, with one commit",
        recognizes: |statement| statement.update.is_some(),
        checks_target: true,
        ..ONE_STATEMENT
    };
    /// Statements that take rows from a queue, in one statement ([`distribute`]).
    Take: Properties {
        name: "take",
        in_words: "consumers that wait get their rows from one statement, with one commit",
        recognizes: |statement| statement.take.is_some(),
        ..ONE_STATEMENT
    };
    /// Inserts in one statement ([`distribute`]; with ON CONFLICT [`upsert`], and [`multi_row`] for several rows each).
    Merge: Properties {
        name: "merge",
        in_words: "inserts that wait run as one statement, with one commit",
        recognizes: |statement| statement.insert.is_some(),
        ..ONE_STATEMENT
    };
}

impl Strategy {
    /// The strategy that executes statements of this form for a group, if the catalog permits it.
    pub fn recognize(statement: &Statement) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|strategy| (strategy.properties().recognizes)(statement))
    }

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Whether its requests only read, so that they may be sent again.
    pub fn reads(self) -> bool {
        self.properties().execution == Execution::MemberReads
    }

    /// Whether one statement takes the place of the members' own. Then all members are writes of one template, so that the
    /// duration of the group says how long the template takes.
    pub fn rewrites(self) -> bool {
        self.properties().execution == Execution::OneStatement
    }
}
