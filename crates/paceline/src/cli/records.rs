//! The arguments of `bench report` and `bench compare`, which read the records of `bench --json`.

use super::lab_command::{Compare, LabCommand, Report};
use clap::Subcommand;
use std::path::PathBuf;

/// The subcommands of `bench` that read records.
#[derive(Debug, Subcommand)]
pub(super) enum RecordsArguments {
    /// Write a report of records that --json has written; measures nothing
    Report {
        /// The records, one JSON object per line
        #[arg(value_name = "RESULTS.JSONL")]
        records: PathBuf,

        /// The report, an HTML page; an existing file is replaced
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
    },
    /// Print what became faster or slower beyond noise; measures nothing
    ///
    /// A result has changed if the ranges of its rounds do not overlap and the medians differ by more than
    /// 5 %. If machines, servers, settings or conditions differ, warnings are printed first.
    #[command(verbatim_doc_comment)]
    Compare {
        /// The older records
        #[arg(value_name = "BEFORE.JSONL")]
        before: PathBuf,

        /// The newer records
        #[arg(value_name = "AFTER.JSONL")]
        after: PathBuf,

        /// Exit with 1 if something became slower beyond noise, does not run any more, or fails its check
        #[arg(long)]
        fail_on_slower: bool,
    },
}

impl RecordsArguments {
    pub(super) fn resolve(self) -> LabCommand {
        match self {
            Self::Report { records, html } => LabCommand::Report(Report { records, html }),
            Self::Compare {
                before,
                after,
                fail_on_slower,
            } => LabCommand::Compare(Compare {
                before,
                after,
                fail_on_slower,
            }),
        }
    }
}
