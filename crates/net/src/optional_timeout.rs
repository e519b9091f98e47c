//! A timeout that can be off.

use std::pin::pin;
use std::time::Duration;

/// Returns the output of `work`, or `None` after `limit`: then `work` is dropped. A limit of zero means no limit, and sets no timer.
pub async fn optional_timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    if limit.is_zero() {
        return Some(work.await);
    }
    tokio::time::timeout(limit, work.as_mut()).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn only_a_limit_above_zero_ends_the_work() {
        let work = || sleep(Duration::from_secs(60));
        assert_eq!(
            optional_timeout(Duration::from_secs(59), work()).await,
            None
        );
        assert_eq!(
            optional_timeout(Duration::from_secs(61), work()).await,
            Some(())
        );
        assert_eq!(optional_timeout(Duration::ZERO, work()).await, Some(()));
    }
}
