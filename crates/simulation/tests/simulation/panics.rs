//! A panic of a task, which the runtime would only report to those that wait for the task, fails its history.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs a history; an error if any of its tasks panics.
pub(crate) fn none_in<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            SEEN.with_borrow_mut(|seen| {
                seen.get_or_insert_with(|| info.to_string());
            });
            before(info);
        }));
    });
    SEEN.take();
    let done = run();
    match SEEN.take() {
        Some(seen) => Err(seen),
        None => done,
    }
}
