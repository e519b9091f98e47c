//! Carries out advice that is safe, one at a time, after a question each, and observes again.

use super::observe::Observer;
use crate::cli::Advise;
use crate::server_address::connect;
use anyhow::{anyhow, bail};
use paceline_advise::{Advice, Apply, Finding, evaluate};
use std::io::{IsTerminal, Write as _};

/// Limits the wait of a statement for a lock: other sessions that use the table wait behind it.
const LOCK_TIMEOUT: &str =
    "SET application_name = 'paceline advise'; SET lock_timeout = '2s'; SET statement_timeout = 0";

/// For commands that do not block other sessions while they wait.
const NO_LOCK_TIMEOUT: &str =
    "SET application_name = 'paceline advise'; SET lock_timeout = 0; SET statement_timeout = 0";

/// Asks about each advice that may be applied, carries out those that are confirmed, and prints what has changed.
pub(super) async fn apply(
    observer: &mut Observer,
    arguments: &Advise,
    findings: &[Finding],
) -> anyhow::Result<()> {
    let wanted: Vec<&Advice> = findings
        .iter()
        .flat_map(|finding| &finding.advice)
        .filter(|advice| may_apply(advice, arguments))
        .collect();
    if wanted.is_empty() {
        eprintln!("nothing of this can be applied here");
        return Ok(());
    }
    if !arguments.yes && !std::io::stdin().is_terminal() {
        bail!(
            "--apply asks before each change, but standard input is no terminal; add --yes to confirm all"
        );
    }
    let mut applied = 0;
    for advice in wanted {
        let Some(sql) = &advice.sql else { continue };
        eprintln!(
            "\n{}\n  {sql};\n  risk: {}\n  undo: {}",
            advice.what, advice.risk, advice.undo
        );
        if arguments.yes || confirmed()? {
            run(arguments, advice, sql).await?;
            applied += 1;
            eprintln!("done");
        }
    }
    if applied > 0 {
        compare(observer, arguments, findings).await?;
    }
    Ok(())
}

fn may_apply(advice: &Advice, arguments: &Advise) -> bool {
    match advice.apply {
        Apply::No => false,
        Apply::Safe => true,
        Apply::Cluster => arguments.allow_cluster,
    }
}

fn confirmed() -> anyhow::Result<bool> {
    eprint!("apply? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Runs a statement on a connection of its own: that of the observer only reads.
async fn run(arguments: &Advise, advice: &Advice, sql: &str) -> anyhow::Result<()> {
    let mut conn = connect(&arguments.upstream).await?;
    // CREATE INDEX CONCURRENTLY does not block writes while it waits for older transactions. If it is cancelled, it leaves an invalid index.
    let is_concurrent = sql.contains("CONCURRENTLY");
    let settings = if is_concurrent {
        NO_LOCK_TIMEOUT
    } else {
        LOCK_TIMEOUT
    };
    let mut ran = conn.query(settings).await;
    if ran.is_ok() {
        ran = conn.query(sql).await;
    }
    let left = match is_concurrent {
        true => format!("; it may have left an invalid index: {}", advice.undo),
        false => String::new(),
    };
    ran.map_err(|error| anyhow!("{sql}: {error}{left}"))?;
    conn.terminate();
    Ok(())
}

/// Observes again, and prints the share of each finding before and after, with what was seen.
async fn compare(
    observer: &mut Observer,
    arguments: &Advise,
    before: &[Finding],
) -> anyhow::Result<()> {
    eprintln!("\nobserving again");
    let observation = observer.observe(arguments.interval).await?;
    let (after, _) = evaluate(&observation);
    for finding in before {
        let same =
            |other: &&Finding| (other.pattern, &other.table) == (finding.pattern, &finding.table);
        let share = |finding: &Finding| finding.share * 100.0;
        match after.iter().find(same) {
            Some(now) => eprintln!(
                "{}: {:.0} % before, {:.0} % now; now {}",
                finding.pattern,
                share(finding),
                share(now),
                now.summary
            ),
            None => eprintln!(
                "{}: {:.0} % before, not found now",
                finding.pattern,
                share(finding)
            ),
        }
    }
    Ok(())
}
