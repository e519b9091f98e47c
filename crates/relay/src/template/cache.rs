//! A bounded map from texts. When it is full, it drops the entries that have not been used for the longest time.

use foldhash::{HashMap, HashMapExt};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum weight of all entries (see [`weight`]), so that long texts do not use much more memory than short ones.
const TEMPLATES_WEIGHT_MAX: usize = 128 * 1024 * 1024;

/// A bounded map in two generations. When the young generation is full, it becomes the old one, and the old one is dropped.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    pub(super) young: HashMap<K, V>,
    pub(super) old: HashMap<K, V>,
    /// The weight of the young generation.
    weight: usize,
    max: usize,
    /// Number of times that entries were dropped or replaced.
    drops: u64,
}

/// Returns a number that is used once in the process.
pub(super) fn new_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Approximate memory of an entry: the text, its template, and the parser's results.
fn weight(text: &str) -> usize {
    1024 + 16 * text.len()
}

impl<V: Clone> Generations<TextKey, V> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            weight: 0,
            max: max / 2,
            drops: 0,
        }
    }

    pub(super) fn drops(&self) -> u64 {
        self.drops
    }

    pub(super) fn insert(&mut self, key: TextKey, value: V) {
        if self.young.len() >= self.max || self.weight > TEMPLATES_WEIGHT_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
            self.drops += 1;
        }
        self.weight += weight(&key.0);
        if self.young.insert(key, value).is_some() {
            self.drops += 1;
        }
    }

    pub(super) fn get(&mut self, text: &str, types: &[u8]) -> Option<V> {
        let probe: &dyn TextLike = &(text, types);
        if let Some(found) = self.young.get(probe) {
            return Some(found.clone());
        }
        let (key, value) = self.old.remove_entry(probe)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(super) fn remove(&mut self, text: &str, types: &[u8]) {
        let probe: &dyn TextLike = &(text, types);
        self.young.remove(probe);
        self.old.remove(probe);
        self.drops += 1;
    }
}

/// A text and its types as one key. A lookup does not copy them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextKey(pub(super) String, pub(super) Vec<u8>);

trait TextLike {
    fn parts(&self) -> (&str, &[u8]);
}

impl TextLike for TextKey {
    fn parts(&self) -> (&str, &[u8]) {
        (&self.0, &self.1)
    }
}

impl TextLike for (&str, &[u8]) {
    fn parts(&self) -> (&str, &[u8]) {
        (self.0, self.1)
    }
}

impl Hash for dyn TextLike + '_ {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn TextLike + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn TextLike + '_ {}

impl Hash for TextKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl<'a> std::borrow::Borrow<dyn TextLike + 'a> for TextKey {
    fn borrow(&self) -> &(dyn TextLike + 'a) {
        self
    }
}
