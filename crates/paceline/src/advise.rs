//! `paceline advise`: observes a server, prints the findings of crate `advise`, and carries out what the user confirms.

mod apply;
mod front_end;
mod observe;

use crate::cli::{Advise, AdviseFormat};
use anyhow::bail;
use front_end::FrontEnd;
use observe::Observer;
use paceline_advise::{Finding, evaluate, format};
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

/// The exit code if there are findings.
const FOUND: u8 = 3;

/// Observes and prints, once or again and again until it is interrupted.
///
/// # Errors
/// The server cannot be reached or asked, or an advice cannot be carried out.
pub(crate) async fn advise(arguments: &Advise) -> anyhow::Result<ExitCode> {
    let mut observer = match FrontEnd::connect(arguments).await? {
        Some(console) => Observed::FrontEnd(console),
        None => Observed::Server(Observer::connect(arguments).await?),
    };
    let mut found = Vec::new();
    loop {
        tokio::select! {
            looked = look(&mut observer, arguments) => found = looked?,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                if !arguments.watch {
                    bail!("interrupted");
                }
                break;
            }
        }
        if !arguments.watch {
            break;
        }
    }
    if arguments.apply {
        match &mut observer {
            Observed::Server(observer) => apply::apply(observer, arguments, &found).await?,
            Observed::FrontEnd(_) => eprintln!("nothing of this can be applied here"),
        }
    }
    Ok(match found.as_slice() {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(FOUND),
    })
}

/// The observed system.
enum Observed {
    /// A PostgreSQL server.
    Server(Observer),
    /// A running Paceline, by its own counts.
    FrontEnd(FrontEnd),
}

/// One observation, printed.
async fn look(observed: &mut Observed, arguments: &Advise) -> anyhow::Result<Vec<Finding>> {
    let (findings, notes) = match observed {
        Observed::Server(observer) => evaluate(&observer.observe(arguments.interval).await?),
        Observed::FrontEnd(console) => (console.observe(arguments).await?, Vec::new()),
    };
    for note in notes {
        eprintln!("paceline: {note}");
    }
    print(&match arguments.format {
        AdviseFormat::Text if arguments.watch => format::lines(&findings),
        AdviseFormat::Text => format::text(&findings),
        AdviseFormat::Json => format::json(&findings) + "\n",
        AdviseFormat::Html => format::html(&findings),
        AdviseFormat::Sql => format::sql(&findings),
    })?;
    Ok(findings)
}

/// Prints a text; that the reader stops reading is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}
