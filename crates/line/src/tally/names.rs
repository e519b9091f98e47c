//! Names of templates in metrics: each is a set of time series somewhere else, so their number has a limit for the whole
//! process, and only who is used often gets one. Who has none is counted with the others of its pool. What was counted
//! under a name stays there until nobody has the name any more, so no sum ever falls. No value that a text holds is in
//! its name.

use crate::template::Template;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Templates that have names, all pools together.
pub const NAMES_MAX: usize = 1_000;

/// A template that travels alone has a name after this many units; one that travels with others, after the first group.
pub const NAMED_AFTER_UNITS: u64 = 100;

/// What metrics call the templates that have no name.
pub const OTHER: &str = "other";

/// Most characters of a template's text in its name.
pub(super) const NAME_CHARS_MAX: usize = 120;

/// The names that are left.
#[derive(Debug)]
pub struct Names(AtomicUsize);

impl Default for Names {
    fn default() -> Self {
        Self(AtomicUsize::new(NAMES_MAX))
    }
}

impl Names {
    /// One of them; `None`: there is none left.
    pub(super) fn take(self: &Arc<Self>) -> Option<Name> {
        let one_less = |left: usize| left.checked_sub(1);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.ok().map(|_| Name(Arc::clone(self)))
    }
}

/// The right to a name; given back when it goes.
#[derive(Debug)]
pub(super) struct Name(Arc<Names>);

impl Drop for Name {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Template {
    /// What metrics call it: an id that is the same in every process, and the beginning of the text, both without the
    /// values in it. Texts that differ in these only are called the same. It is made when it is asked for first.
    pub fn name(&self) -> &str {
        self.name
            .get_or_init(|| match paceline_sql::masked(&self.text) {
                Some(text) => format!(
                    "{:08x} {}",
                    text_id(&text),
                    shortened(&text, NAME_CHARS_MAX)
                ),
                None => format!("{:08x}", text_id(&self.text)),
            })
    }
}

/// FNV-1a, 32 bits: the standard library's hash may be another one in the next release.
pub(super) fn text_id(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

/// A text on one line, not too long.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
