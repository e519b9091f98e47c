//! The one step of a login that takes long: a password is stretched into keys. Never on a thread that serves sockets, a few at
//! a time, and each only once: what was made is kept, by a fingerprint of what it was made of. So a secret that is replaced
//! finds none of its predecessor's keys, and no password is kept.

use super::process_key::{HASH_LEN, ProcessKey};
use paceline_wire::scram::{Keys, Stretch};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Keys that are kept; then the oldest go.
const KEPT_MAX: usize = 4_096;

type Fingerprint = [u8; HASH_LEN];

/// Makes keys of passwords.
pub struct Deriver {
    /// Without it a fingerprint tells nothing.
    key: ProcessKey,
    /// For passwords that are known.
    turns: Arc<Semaphore>,
    /// For what peers say: however much they guess, the others have their turns.
    guesses: Arc<Semaphore>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    keys: HashMap<Fingerprint, Keys>,
    oldest_first: VecDeque<Fingerprint>,
}

impl Kept {
    fn insert(&mut self, fingerprint: Fingerprint, keys: Keys) {
        if self.keys.insert(fingerprint, keys).is_some() {
            return;
        }
        self.oldest_first.push_back(fingerprint);
        if self.oldest_first.len() > KEPT_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

impl Default for Deriver {
    fn default() -> Self {
        // Not all of the processors: the others serve sockets.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            key: ProcessKey::default(),
            turns: Arc::new(Semaphore::new((processors / 2).max(1))),
            guesses: Arc::new(Semaphore::new((processors / 4).max(1))),
            kept: Mutex::default(),
        }
    }
}

impl Deriver {
    /// The keys of a password that is stored, so that they will be wanted again.
    pub async fn keys(&self, password: &[u8], stretch: &Stretch) -> io::Result<Keys> {
        let keys = self.derive(password, stretch, &self.turns).await?;
        self.keep(password, stretch, &keys)?;
        Ok(keys)
    }

    /// The keys of what may be no password at all: a peer could fill the memory with its guesses, so they are not kept.
    pub async fn keys_of_guess(&self, guess: &[u8], stretch: &Stretch) -> io::Result<Keys> {
        self.derive(guess, stretch, &self.guesses).await
    }

    async fn derive(
        &self,
        password: &[u8],
        stretch: &Stretch,
        turns: &Arc<Semaphore>,
    ) -> io::Result<Keys> {
        let fingerprint = self.fingerprint(password, stretch)?;
        if let Some(keys) = self.kept(&fingerprint) {
            return Ok(keys);
        }
        let turn = Arc::clone(turns).acquire_owned().await;
        let turn = turn.map_err(io::Error::other)?;
        // Others may have waited for the same.
        if let Some(keys) = self.kept(&fingerprint) {
            return Ok(keys);
        }
        let (password, stretch) = (password.to_owned(), stretch.clone());
        let derived = tokio::task::spawn_blocking(move || {
            // To its end, also when nobody waits any longer: so no more run than there are turns.
            let _turn = turn;
            Keys::derive(&password, &stretch)
        });
        Ok(derived.await?)
    }

    /// Keeps keys that have proved to be those of a password.
    pub fn keep(&self, password: &[u8], stretch: &Stretch, keys: &Keys) -> io::Result<()> {
        let fingerprint = self.fingerprint(password, stretch)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(fingerprint, keys.clone());
        Ok(())
    }

    fn kept(&self, fingerprint: &Fingerprint) -> Option<Keys> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keys.get(fingerprint).cloned()
    }

    fn fingerprint(&self, password: &[u8], stretch: &Stretch) -> io::Result<Fingerprint> {
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
        deriver.kept.lock().unwrap().keys.len()
    }

    #[tokio::test]
    async fn keys_are_kept_by_what_they_are_made_of() {
        let deriver = Deriver::default();
        let keys = deriver.keys(b"p", &stretch(1)).await.unwrap();
        assert_eq!(keys, Keys::derive(b"p", &stretch(1)));
        assert_eq!(
            deriver.kept(&deriver.fingerprint(b"p", &stretch(1)).unwrap()),
            Some(keys)
        );
        for (password, salt) in [(&b"q"[..], 1), (b"p", 2)] {
            let other = deriver.fingerprint(password, &stretch(salt)).unwrap();
            assert_eq!(deriver.kept(&other), None);
        }
        deriver.keys(b"p", &stretch(1)).await.unwrap();
        assert_eq!(count(&deriver), 1);
    }

    #[tokio::test]
    async fn guesses_are_not_kept() {
        let deriver = Deriver::default();
        deriver.keys_of_guess(b"guess", &stretch(1)).await.unwrap();
        assert_eq!(count(&deriver), 0);
    }

    #[tokio::test]
    async fn guesses_do_not_hold_up_those_who_know() {
        let deriver = Deriver::default();
        let all = u32::try_from(deriver.guesses.available_permits()).unwrap();
        let _guessing = deriver.guesses.acquire_many(all).await.unwrap();
        let first = stretch(1);
        assert!(is_pending(&mut Box::pin(deriver.keys_of_guess(b"guess", &first))).await);
        // For failures only.
        let limit = std::time::Duration::from_secs(30);
        let made = tokio::time::timeout(limit, deriver.keys(b"p", &first)).await;
        made.expect("it has its turn").unwrap();
    }

    #[test]
    fn the_oldest_keys_go() {
        let keys = Keys::derive(b"p", &stretch(1));
        let mut kept = Kept::default();
        let number = |n: usize| {
            let mut fingerprint = Fingerprint::default();
            fingerprint[..8].copy_from_slice(&n.to_be_bytes());
            fingerprint
        };
        for n in 0..KEPT_MAX + 10 {
            kept.insert(number(n), keys.clone());
            kept.insert(number(n), keys.clone());
        }
        assert_eq!(
            (kept.keys.len(), kept.oldest_first.len()),
            (KEPT_MAX, KEPT_MAX)
        );
        assert!(!kept.keys.contains_key(&number(9)));
        assert!(kept.keys.contains_key(&number(10)));
    }

    /// Who waited behind another for the same keys finds them made; who gave up leaves its turn to others.
    #[tokio::test]
    async fn a_storm_of_logins_ends() {
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

    /// Polls once; true: it is still under way.
    async fn is_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        let once = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        });
        once.await
    }
}
