//! Work with a limit of time.

use std::pin::pin;
use std::time::Duration;

/// The outcome of `work`; `None`: it has taken longer than `limit` and is dropped. Zero is no limit, and needs no timer.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    match limit.is_zero() {
        true => Some(work.await),
        false => tokio::time::timeout(limit, work.as_mut()).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn only_a_limit_that_is_one_ends_the_work() {
        let work = || sleep(Duration::from_secs(60));
        assert_eq!(within(Duration::from_secs(59), work()).await, None);
        assert_eq!(within(Duration::from_secs(61), work()).await, Some(()));
        assert_eq!(within(Duration::ZERO, work()).await, Some(()));
    }
}
