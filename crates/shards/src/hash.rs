//! The hash of a partition key, as PostgreSQL computes it for partitions by hash.
//!
//! The bytes of a value are hashed by Bob Jenkins' lookup3 (2006, public domain) with a seed, as in PostgreSQL's
//! `src/common/hashfn.c`. `src/backend/access/hash/hashfunc.c` determines the bytes for each type, and `compute_partition_hash_value`
//! in `src/backend/partitioning/partbounds.c` how the columns of a key are combined. A server on a machine with another order of bytes
//! computes other hashes: [`HASH_PROBE`] shows it.

use crate::key::KeyValue;

#[cfg(test)]
mod tests;

/// `HASH_PARTITION_SEED`
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Query for the hashes of some values, with a seed; [`hashes_alike`] compares the answer.
pub const HASH_PROBE: &str = "SELECT pg_catalog.concat_ws(' ', pg_catalog.hashtextextended('lookup3 takes 12 bytes at once' COLLATE \"C\", 5), \
     pg_catalog.hashint4extended(-7, 5), pg_catalog.hashint8extended(-7, 5))";

/// The answer to [`HASH_PROBE`] of a server that computes the same hashes as this crate.
#[must_use]
pub fn own_hashes() -> String {
    const PROBE_SEED: u64 = 5;
    let hashes = [
        hash_bytes(b"lookup3 takes 12 bytes at once", PROBE_SEED),
        hash_int4(-7, PROBE_SEED),
        hash_int8(-7, PROBE_SEED),
    ];
    let own = hashes.map(|hash| hash.cast_signed().to_string());
    own.join(" ")
}

/// Whether a server with this answer to [`HASH_PROBE`] computes the same hashes as this crate.
#[must_use]
pub fn hashes_alike(answer: &str) -> bool {
    answer == own_hashes()
}

/// The hash of a key with these columns, in the order of the key.
pub(crate) fn partition_hash<'a>(key: impl IntoIterator<Item = &'a KeyValue<'a>>) -> u64 {
    let hashes = key.into_iter().filter_map(hash_value);
    hashes.fold(0, combine)
}

/// `hash_combine64`
fn combine(one: u64, other: u64) -> u64 {
    let mixed = other
        .wrapping_add(0x49A0_F4DD_15E5_A8E3)
        .wrapping_add(one << 54)
        .wrapping_add(one >> 7);
    one ^ mixed
}

/// `None` for NULL, which has no part in the hash of a key.
fn hash_value(value: &KeyValue<'_>) -> Option<u64> {
    Some(match value {
        KeyValue::Null => return None,
        // `hashint8` gives the values of the smaller types the hashes of `hashint4` and `hashint2`.
        KeyValue::Int(value) | KeyValue::Timestamp(value) => hash_int8(*value, SEED),
        KeyValue::Date(value) => hash_int4(*value, SEED),
        KeyValue::Bool(value) => hash_int4(i32::from(*value), SEED),
        KeyValue::Uuid(bytes) => hash_bytes(bytes, SEED),
        KeyValue::Text(text) => hash_bytes(text.as_bytes(), SEED),
    })
}

/// `hashint8extended`: the upper half changes the hash only if the value does not fit into the lower one.
fn hash_int8(value: i64, seed: u64) -> u64 {
    let [a, b, c, d, high @ ..] = value.to_le_bytes();
    let (low, high) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(high));
    let high = if value >= 0 { high } else { !high };
    hash_word(low ^ high, seed)
}

/// `hashint4extended`
fn hash_int4(value: i32, seed: u64) -> u64 {
    hash_word(value.cast_unsigned(), seed)
}

/// `hash_bytes_uint32_extended`
fn hash_word(word: u32, seed: u64) -> u64 {
    let mut state = State::new(size_of::<u32>(), seed);
    state.a = state.a.wrapping_add(word);
    state.finish()
}

/// `hash_bytes_extended`
fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len(), seed);
    let (blocks, rest) = bytes.as_chunks::<12>();
    for block in blocks {
        state.add(block);
        state.mix();
    }
    // The lowest byte of `c` belongs to the length.
    let mut last = [0; 12];
    for (place, byte) in rest.iter().enumerate() {
        let place = if place < 8 { place } else { place + 1 };
        if let Some(free) = last.get_mut(place) {
            *free = *byte;
        }
    }
    state.add(&last);
    state.finish()
}

/// The three words of lookup3.
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "lookup3 adds the lower half of a length, and both halves of a seed"
    )]
    fn new(length: usize, seed: u64) -> Self {
        let start = 0x9E37_79B9_u32
            .wrapping_add(length as u32)
            .wrapping_add(3_923_095);
        let mut state = Self {
            a: start,
            b: start,
            c: start,
        };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn add(&mut self, block: &[u8; 12]) {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = *block;
        self.a = self.a.wrapping_add(u32::from_le_bytes([a0, a1, a2, a3]));
        self.b = self.b.wrapping_add(u32::from_le_bytes([b0, b1, b2, b3]));
        self.c = self.c.wrapping_add(u32::from_le_bytes([c0, c1, c2, c3]));
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits| {
            *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
            *z = z.wrapping_add(*y);
        };
        step(a, b, c, 4);
        step(b, c, a, 6);
        step(c, a, b, 8);
        step(a, b, c, 16);
        step(b, c, a, 19);
        step(c, a, b, 4);
    }

    /// `final`, and the two words of the result.
    fn finish(self) -> u64 {
        let Self {
            mut a,
            mut b,
            mut c,
        } = self;
        let step = |x: &mut u32, y: &u32, bits| *x = (*x ^ *y).wrapping_sub(y.rotate_left(bits));
        step(&mut c, &b, 14);
        step(&mut a, &c, 11);
        step(&mut b, &a, 25);
        step(&mut c, &b, 16);
        step(&mut a, &c, 4);
        step(&mut b, &a, 14);
        step(&mut c, &b, 24);
        u64::from(b) << 32 | u64::from(c)
    }
}
