//! Names of templates in metrics: each is a set of time series somewhere else, so their number has a limit for the whole
//! process. Who gets no name is counted with the others of its pool. A name is kept as long as the template is counted by
//! itself: what was counted under it never moves back and forth, so no sum ever falls.

use super::table::shortened;
use super::{OTHER, Tally};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Templates that have names, all pools together.
pub const NAMES_MAX: usize = 1_000;

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

impl Tally {
    /// What metrics call it: an id that is the same in every process, and the beginning of the text.
    pub fn name(&self) -> String {
        match self.template() {
            Some(template) => {
                let text = shortened(&template.text, NAME_CHARS_MAX);
                format!("{:08x} {text}", text_id(&template.text))
            }
            None => OTHER.to_owned(),
        }
    }
}

/// FNV-1a, 32 bits: the standard library's hash may be another one in the next release.
pub(super) fn text_id(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}
