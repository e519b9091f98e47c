//! The keyboard.

use super::view::View;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// Leaves `top`.
    Quit,
    /// Shows the next view, or the one before.
    Next,
    Previous,
    /// Shows this view.
    Show(View),
    /// Moves the rows of the view by this number.
    Scroll(i32),
    /// Shows the first rows.
    First,
    /// Takes no snapshots, or takes them again.
    Pause,
    /// The window has another size.
    Redraw,
}

/// Number of rows by which Page Up and Page Down move.
const PAGE: i32 = 10;

/// Reads keys on a thread of their own, until the process ends.
pub(super) fn read() -> UnboundedReceiver<Key> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = match event {
                Event::Key(pressed) if pressed.kind != KeyEventKind::Release => key(pressed),
                Event::Resize(..) => Some(Key::Redraw),
                _ => None,
            };
            if key.is_some_and(|key| sender.send(key).is_err()) {
                return;
            }
        }
    });
    receiver
}

fn key(pressed: KeyEvent) -> Option<Key> {
    let is_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    Some(match pressed.code {
        KeyCode::Char('c') if is_control => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char(' ') => Key::Pause,
        KeyCode::Char(digit) => Key::Show(View::numbered(digit)?),
        KeyCode::Tab | KeyCode::Right => Key::Next,
        KeyCode::BackTab | KeyCode::Left => Key::Previous,
        KeyCode::Down => Key::Scroll(1),
        KeyCode::Up => Key::Scroll(-1),
        KeyCode::PageDown => Key::Scroll(PAGE),
        KeyCode::PageUp => Key::Scroll(-PAGE),
        KeyCode::Home => Key::First,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        let meaning = |code| key(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(meaning(KeyCode::Char('q')), Some(Key::Quit));
        assert_eq!(meaning(KeyCode::Char('4')), Some(Key::Show(View::Pools)));
        assert_eq!(meaning(KeyCode::Char('9')), None);
        assert_eq!(meaning(KeyCode::PageUp), Some(Key::Scroll(-10)));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(key(control_c), Some(Key::Quit));
        assert_eq!(meaning(KeyCode::Char('c')), None);
    }
}
