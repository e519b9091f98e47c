//! `paceline top`: shows a running Paceline in the terminal. Asks the admin console for a snapshot once per second, and draws it.

mod console;
mod keys;
mod screen;
mod view;

use crate::cli::Top;
use anyhow::{Context, bail};
use console::Console;
use keys::Key;
use rustix::termios::isatty;
use screen::Screen;
use tokio::sync::mpsc::UnboundedReceiver;
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
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let shown = show(arguments, &mut console, &mut screen, &mut terminal).await;
    ratatui::restore();
    shown
}

async fn show(
    arguments: &Top,
    console: &mut Console,
    screen: &mut Screen,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    let mut keys: UnboundedReceiver<Key> = keys::read();
    let mut due = Instant::now() + arguments.interval;
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let pressed = tokio::select! {
            key = keys.recv() => Some(key.context("the keyboard cannot be read")?),
            () = sleep_until(due) => None,
        };
        let looks_elsewhere = match pressed {
            Some(Key::Quit) => return Ok(()),
            Some(key) => screen.press(key),
            None => true,
        };
        if looks_elsewhere && !screen.is_paused() {
            match console.read(screen.wants_clients()).await {
                Ok(update) => screen.update(update),
                Err(error) => screen.lost(&error),
            }
            due = Instant::now() + arguments.interval;
        } else if pressed.is_none() {
            due = Instant::now() + arguments.interval;
        }
    }
}
