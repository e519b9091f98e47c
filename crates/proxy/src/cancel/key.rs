//! Cancel keys of clients (BackendKeyData): eight random bytes. With peers, some of their bits hold the `peer_id` and the number
//! of times that a request may be forwarded, at PgBouncer's positions.
//!
//! Byte 0 has no sign bit, as clients take bytes 0 to 3 for a process id. With peers, bytes 1 and 2 are the peer id, low byte
//! first. The two lowest bits of byte 7 count down from 3 with each process that forwards the request.

/// The bits of the secret that count how often a request may be forwarded.
const PASSES_MASK: u32 = 0b11;

/// A cancel key in BackendKeyData or CancelRequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CancelKey {
    /// The process id, as clients see it.
    pub process: u32,
    /// The secret.
    pub secret: u32,
}

impl CancelKey {
    /// A random key without a peer id. `None`: the operating system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        Some(Self {
            process: getrandom::u32().ok()? >> 1,
            secret: getrandom::u32().ok()?,
        })
    }

    /// A random key that names this process for its peers.
    pub(crate) fn of_peer(peer_id: u16) -> Option<Self> {
        let Self { process, secret } = Self::random()?;
        let [first, _, _, last] = process.to_be_bytes();
        let [low, high] = peer_id.to_le_bytes();
        let key = Self {
            process: u32::from_be_bytes([first, low, high, last]),
            secret,
        };
        Some(key.as_issued())
    }

    /// The peer id in the key, if the key has one.
    pub(crate) fn peer_id(self) -> u16 {
        let [_, low, high, _] = self.process.to_be_bytes();
        u16::from_le_bytes([low, high])
    }

    /// The key as the client got it, before any forwarding.
    pub(crate) fn as_issued(self) -> Self {
        Self {
            secret: self.secret | PASSES_MASK,
            ..self
        }
    }

    /// The key for the next peer. `None`: the request has been forwarded too often.
    pub(crate) fn forwarded(self) -> Option<Self> {
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
    fn the_peer_id_has_the_position_of_pgbouncer() {
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
    fn a_request_is_forwarded_three_times() {
        let given = CancelKey::of_peer(7).expect("random numbers");
        let mut key = given;
        for _ in 0..3 {
            key = key.forwarded().expect("a further time");
            assert_eq!((key.peer_id(), key.as_issued()), (7, given));
        }
        assert_eq!(key.forwarded(), None);
    }
}
