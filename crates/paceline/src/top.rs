//! `paceline top`: shows a running Paceline in the terminal. Asks the admin console for a snapshot once per second, and draws it.

mod console;
mod keys;
mod screen;
mod view;

use crate::cli::Top;
use anyhow::{Context, bail};
use console::{Console, Update};
use keys::Key;
use rustix::termios::isatty;
use screen::Screen;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Shows the state until the user leaves.
///
/// # Errors
/// Standard output is no terminal, or the console cannot be reached or rejects the login. If the connection is lost later, the screen
/// says so, and `top` connects again.
pub(crate) async fn top(arguments: &Top) -> anyhow::Result<()> {
    if !isatty(std::io::stdout()) {
        bail!("top needs a terminal; the console has the same as a table: SHOW SNAPSHOT");
    }
    let mut console = Console::connect(arguments.console.clone()).await?;
    let mut screen = Screen::default();
    screen.update(console.read(screen.wants_clients()).await?);
    let (asks, asked) = mpsc::unbounded_channel();
    let (sender, updates) = mpsc::unbounded_channel();
    tokio::spawn(answer(console, asked, sender));
    let terminal = ratatui::try_init().context("the terminal cannot be used");
    let shown = match terminal {
        Ok(mut terminal) => show(arguments, (asks, updates), &mut screen, &mut terminal).await,
        Err(error) => Err(error),
    };
    ratatui::restore();
    shown
}

/// Asks the console whenever a state is wanted: the screen does not wait for the answer.
async fn answer(
    mut console: Console,
    mut asked: mpsc::UnboundedReceiver<bool>,
    updates: mpsc::UnboundedSender<anyhow::Result<Update>>,
) {
    while let Some(with_clients) = asked.recv().await {
        if updates.send(console.read(with_clients).await).is_err() {
            return;
        }
    }
}

async fn show(
    arguments: &Top,
    (asks, mut updates): (
        mpsc::UnboundedSender<bool>,
        mpsc::UnboundedReceiver<anyhow::Result<Update>>,
    ),
    screen: &mut Screen,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    let mut keys = keys::read();
    let mut ends = signal(SignalKind::terminate())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut hangs_up = signal(SignalKind::hangup())?;
    let mut due = Instant::now() + arguments.interval;
    // At most one question is on its way.
    let mut is_asking = false;
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let wants = tokio::select! {
            key = keys.recv() => match key.context("the keyboard cannot be read")? {
                Key::Quit => return Ok(()),
                key => screen.press(key),
            },
            update = updates.recv() => {
                is_asking = false;
                due = Instant::now() + arguments.interval;
                match update.context("the console cannot be asked")? {
                    // It was on its way when the user stopped the screen.
                    Ok(_) if screen.is_paused() => {}
                    Ok(update) => screen.update(update),
                    Err(error) => screen.lost(&error),
                }
                screen.lacks_clients()
            }
            () = sleep_until(due), if !is_asking => {
                due = Instant::now() + arguments.interval;
                true
            }
            _ = ends.recv() => return Ok(()),
            _ = interrupts.recv() => return Ok(()),
            _ = hangs_up.recv() => return Ok(()),
        };
        if wants && !is_asking && !screen.is_paused() {
            asks.send(screen.wants_clients())?;
            is_asking = true;
        }
    }
}
