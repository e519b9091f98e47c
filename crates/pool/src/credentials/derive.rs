//! Derives SCRAM keys from passwords, the slow step of a login. It runs on separate threads, a few at a time. Keys are cached by
//! a keyed hash of the password, salt and iterations; passwords are not kept, and a changed password finds no old keys.

use super::process_key::{HASH_LEN, ProcessKey};
use paceline_wire::scram::{Keys, Stretch};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Maximum number of cached keys; the oldest are dropped.
const CACHED_MAX: usize = 4_096;

type CacheKey = [u8; HASH_LEN];

/// Derives keys from passwords.
pub struct Deriver {
    /// Without this key, a cache key reveals nothing.
    key: ProcessKey,
    /// Permits for known passwords.
    permits: Arc<Semaphore>,
    /// Permits for passwords that clients send: however many they try, known passwords have permits of their own.
    guesses: Arc<Semaphore>,
    cache: Mutex<KeyCache>,
}

#[derive(Default)]
struct KeyCache {
    keys: HashMap<CacheKey, Keys>,
    oldest_first: VecDeque<CacheKey>,
}

impl KeyCache {
    fn insert(&mut self, cache_key: CacheKey, keys: Keys) {
        if self.keys.insert(cache_key, keys).is_some() {
            return;
        }
        self.oldest_first.push_back(cache_key);
        if self.oldest_first.len() > CACHED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

impl Default for Deriver {
    fn default() -> Self {
        // Some processors stay free for the threads that serve sockets.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            key: ProcessKey::default(),
            permits: Arc::new(Semaphore::new((processors / 2).max(1))),
            guesses: Arc::new(Semaphore::new((processors / 4).max(1))),
            cache: Mutex::default(),
        }
    }
}

impl Deriver {
    /// The keys of a stored password. They are cached, as they will be needed again.
    ///
    /// # Errors
    /// The operating system gives no random numbers, or the thread that derives keys has failed.
    pub async fn keys(&self, password: &[u8], stretch: &Stretch) -> io::Result<Keys> {
        let keys = self.derive(password, stretch, &self.permits).await?;
        self.cache(password, stretch, &keys)?;
        Ok(keys)
    }

    /// The keys of a password that a client has sent and that may be wrong. They are not cached: clients could fill the memory.
    ///
    /// # Errors
    /// As for [`Deriver::keys`].
    pub async fn keys_of_guess(&self, guess: &[u8], stretch: &Stretch) -> io::Result<Keys> {
        self.derive(guess, stretch, &self.guesses).await
    }

    async fn derive(
        &self,
        password: &[u8],
        stretch: &Stretch,
        permits: &Arc<Semaphore>,
    ) -> io::Result<Keys> {
        let cache_key = self.cache_key(password, stretch)?;
        if let Some(keys) = self.cached(&cache_key) {
            return Ok(keys);
        }
        let permit = Arc::clone(permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        // Another login may have derived the same keys meanwhile.
        if let Some(keys) = self.cached(&cache_key) {
            return Ok(keys);
        }
        let (password, stretch) = (password.to_owned(), stretch.clone());
        let derived = tokio::task::spawn_blocking(move || {
            // The permit is held to the end even if the caller has gone, so that no more derivations run than there are permits.
            let _permit = permit;
            Keys::derive(&password, &stretch)
        });
        Ok(derived.await?)
    }

    /// Caches keys that have proved to be those of a password.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn cache(&self, password: &[u8], stretch: &Stretch, keys: &Keys) -> io::Result<()> {
        let cache_key = self.cache_key(password, stretch)?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(cache_key, keys.clone());
        Ok(())
    }

    fn cached(&self, cache_key: &CacheKey) -> Option<Keys> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keys.get(cache_key).cloned()
    }

    fn cache_key(&self, password: &[u8], stretch: &Stretch) -> io::Result<CacheKey> {
        let iterations = stretch.iterations.get().to_be_bytes();
        self.key.hash(&[&iterations, &stretch.salt, password])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_wire::scram::ITERATIONS;

    fn stretch(salt: u8) -> Stretch {
        Stretch {
            salt: vec![salt],
            iterations: ITERATIONS,
        }
    }

    fn count(deriver: &Deriver) -> usize {
        deriver.cache.lock().unwrap().keys.len()
    }

    #[tokio::test]
    async fn keys_are_cached_by_password_and_salt() {
        let deriver = Deriver::default();
        let keys = deriver.keys(b"p", &stretch(1)).await.unwrap();
        assert_eq!(keys, Keys::derive(b"p", &stretch(1)));
        assert_eq!(
            deriver.cached(&deriver.cache_key(b"p", &stretch(1)).unwrap()),
            Some(keys)
        );
        for (password, salt) in [(&b"q"[..], 1), (b"p", 2)] {
            let other = deriver.cache_key(password, &stretch(salt)).unwrap();
            assert_eq!(deriver.cached(&other), None);
        }
        deriver.keys(b"p", &stretch(1)).await.unwrap();
        assert_eq!(count(&deriver), 1);
    }

    #[tokio::test]
    async fn keys_of_guesses_are_not_cached() {
        let deriver = Deriver::default();
        deriver.keys_of_guess(b"guess", &stretch(1)).await.unwrap();
        assert_eq!(count(&deriver), 0);
    }

    #[tokio::test]
    async fn guesses_do_not_block_known_passwords() {
        let deriver = Deriver::default();
        let all = u32::try_from(deriver.guesses.available_permits()).unwrap();
        let _guessing = deriver.guesses.acquire_many(all).await.unwrap();
        let first = stretch(1);
        assert!(is_pending(&mut Box::pin(deriver.keys_of_guess(b"guess", &first))).await);
        // Only reached if the test fails.
        let limit = std::time::Duration::from_secs(30);
        let made = tokio::time::timeout(limit, deriver.keys(b"p", &first)).await;
        made.expect("a permit is free").unwrap();
    }

    #[test]
    fn the_oldest_keys_are_dropped() {
        let keys = Keys::derive(b"p", &stretch(1));
        let mut cache = KeyCache::default();
        let number = |n: usize| {
            let mut cache_key = CacheKey::default();
            cache_key[..8].copy_from_slice(&n.to_be_bytes());
            cache_key
        };
        for n in 0..CACHED_MAX + 10 {
            cache.insert(number(n), keys.clone());
            cache.insert(number(n), keys.clone());
        }
        assert_eq!(
            (cache.keys.len(), cache.oldest_first.len()),
            (CACHED_MAX, CACHED_MAX)
        );
        assert!(!cache.keys.contains_key(&number(9)));
        assert!(cache.keys.contains_key(&number(10)));
    }

    /// Logins that wait for the same keys find them in the cache; abandoned ones return their permits.
    #[tokio::test]
    async fn concurrent_logins_derive_each_key_once() {
        let deriver = Arc::new(Deriver::default());
        let mut logins = tokio::task::JoinSet::new();
        for n in 0..200_u8 {
            let deriver = Arc::clone(&deriver);
            logins.spawn(async move { deriver.keys(b"p", &stretch(n % 4)).await.unwrap() });
        }
        let other = stretch(9);
        let mut abandoned = Box::pin(deriver.keys(b"p", &other));
        assert!(is_pending(&mut abandoned).await);
        drop(abandoned);
        assert_eq!(logins.join_all().await.len(), 200);
        assert_eq!(count(&deriver), 4);
    }

    /// Polls once; repermits whether the future is pending.
    async fn is_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        let once = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        });
        once.await
    }
}
