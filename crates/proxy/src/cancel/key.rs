//! The keys that clients are given for cancel requests (BackendKeyData): eight random bytes, in which PgBouncer's places tell
//! peers whose client it is (`peer_id`), and how often a request may be passed on.
//!
//! Byte 0 has no sign bit, as clients take bytes 0 to 3 for a process id. With peers, bytes 1 and 2 are the peer id, the low byte
//! first, and the two lowest bits of byte 7 count down from 3 with each process that passes the request on.

/// How often a request may be passed on, and its place in the secret.
const PASSES_MASK: u32 = 0b11;

/// A key as clients send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CancelKey {
    /// What the client takes for a process id.
    pub process: u32,
    /// The other half.
    pub secret: u32,
}

impl CancelKey {
    /// A key of this process alone. `None`: the system has no random numbers.
    pub fn random() -> Option<Self> {
        Some(Self {
            process: getrandom::u32().ok()? >> 1,
            secret: getrandom::u32().ok()?,
        })
    }

    /// A key by which peers know that the client is this one's.
    pub fn of_peer(peer_id: u16) -> Option<Self> {
        let Self { process, secret } = Self::random()?;
        let [first, _, _, last] = process.to_be_bytes();
        let [low, high] = peer_id.to_le_bytes();
        let key = Self {
            process: u32::from_be_bytes([first, low, high, last]),
            secret,
        };
        Some(key.as_given())
    }

    /// The peer whose client it is, if it is a key of peers.
    pub fn peer_id(self) -> u16 {
        let [_, low, high, _] = self.process.to_be_bytes();
        u16::from_le_bytes([low, high])
    }

    /// As the client was given it: not passed on yet.
    pub fn as_given(self) -> Self {
        Self {
            secret: self.secret | PASSES_MASK,
            ..self
        }
    }

    /// As the next peer gets it. `None`: it has been passed on often enough.
    pub fn passed_on(self) -> Option<Self> {
        let may_pass = self.secret & PASSES_MASK > 0;
        may_pass.then(|| Self {
            secret: self.secret - 1,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_find_their_id_where_pgbouncer_has_it() {
        for peer_id in [1, 255, 256, 16_383] {
            let key = CancelKey::of_peer(peer_id).expect("random numbers");
            let [first, low, high, _] = key.process.to_be_bytes();
            assert_eq!(u16::from(low) + (u16::from(high) << 8), peer_id);
            assert_eq!(key.peer_id(), peer_id);
            assert!(first < 0x80);
            assert_eq!(key.secret.to_be_bytes()[3] & 3, 3);
        }
    }

    #[test]
    fn a_key_is_passed_on_three_times() {
        let given = CancelKey::of_peer(7).expect("random numbers");
        let mut key = given;
        for _ in 0..3 {
            key = key.passed_on().expect("a further time");
            assert_eq!((key.peer_id(), key.as_given()), (7, given));
        }
        assert_eq!(key.passed_on(), None);
    }
}
