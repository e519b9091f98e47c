//! The end of what an exchange has transferred so far: the dictionary of its next block. Writer and reader compute the same bytes,
//! however the exchange was divided into blocks.

/// Maximum bytes of a dictionary.
const HISTORY_BYTES: usize = 32 * 1024;

/// Maximum size of a block's dictionary, as a multiple of the block's size.
const DICTIONARY_RATIO: usize = 8;

/// The first bytes of a dictionary in zstd's own format. zstd takes all others for plain content.
const DICTIONARY_MAGIC: &[u8] = &[0x37, 0xa4, 0x30, 0xec];

/// The last bytes of an exchange. It is empty, and owns no memory, between exchanges.
#[derive(Debug, Default)]
pub(super) struct History(Vec<u8>);

impl History {
    /// Appends what a block has transferred.
    pub(super) fn push(&mut self, plain: &[u8]) {
        let skipped = plain.len().saturating_sub(HISTORY_BYTES);
        let plain = plain.get(skipped..).unwrap_or_default();
        // The buffer may become twice as long, so that small blocks do not move all of it each time.
        if self.0.len() + plain.len() > 2 * HISTORY_BYTES {
            let kept = HISTORY_BYTES - plain.len();
            self.0.drain(..self.0.len().saturating_sub(kept));
        }
        self.0.extend_from_slice(plain);
    }

    /// Forgets everything: the exchange has ended.
    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The dictionary of a block of this length. zstd indexes it for each block, so that of a short block is short.
    pub(super) fn dictionary_of(&self, block_len: usize) -> &[u8] {
        let len = HISTORY_BYTES.min(DICTIONARY_RATIO * block_len);
        let skipped = self.0.len().saturating_sub(len);
        let last = self.0.get(skipped..).unwrap_or_default();
        match last.starts_with(DICTIONARY_MAGIC) {
            true => last.get(1..).unwrap_or_default(),
            false => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::BLOCK_BYTES_MAX;
    use super::*;

    /// The last bytes of everything that was pushed.
    fn dictionary_of(blocks: &[&[u8]]) -> Vec<u8> {
        let mut history = History::default();
        blocks.iter().for_each(|block| history.push(block));
        history.dictionary_of(BLOCK_BYTES_MAX).to_vec()
    }

    #[test]
    fn the_division_into_blocks_makes_no_difference() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        for len in [1, 1_000, HISTORY_BYTES - 1, HISTORY_BYTES, 50_000, 200_000] {
            for step in [700, 9_999, HISTORY_BYTES, 65_535] {
                let bytes = &bytes[..len];
                let blocks: Vec<&[u8]> = bytes.chunks(step).collect();
                let expected = &bytes[len.saturating_sub(HISTORY_BYTES)..];
                assert_eq!(dictionary_of(&blocks), expected, "{len} by {step}");
            }
        }
    }

    #[test]
    fn no_content_is_taken_for_a_dictionary_of_zstd() {
        let mut magic = DICTIONARY_MAGIC.to_vec();
        magic.extend_from_slice(&[0; 16]);
        assert_eq!(dictionary_of(&[&magic]), magic[1..]);
    }

    #[test]
    fn a_short_block_has_a_short_dictionary() {
        let mut history = History::default();
        history.push(&[7; HISTORY_BYTES]);
        assert_eq!(history.dictionary_of(200).len(), 1_600);
    }

    #[test]
    fn an_ended_exchange_owns_no_memory() {
        let mut history = History::default();
        history.push(&[7; 100]);
        history.clear();
        assert_eq!(history.0.capacity(), 0);
    }
}
