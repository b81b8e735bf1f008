//! Deletes: bitmap of the deleted documents of a buffer or segment.

use std::sync::Arc;

use tantivy::directory::OwnedBytes;

/// Live documents of a segment, by document id: bit set = live.
pub type AliveBits = tantivy::fastfield::AliveBitSet;

/// Set of document ids. Clones are cheap and share memory until one of them changes.
#[derive(Debug, Clone, Default)]
pub struct DeleteSet {
    words: Arc<Vec<u64>>,
    count: u32,
}

impl DeleteSet {
    /// Returns whether a document is deleted.
    pub fn contains(&self, doc: u32) -> bool {
        self.words
            .get(doc as usize / 64)
            .is_some_and(|word| word & (1 << (doc % 64)) != 0)
    }

    /// Adds a document. False: it was already in the set.
    pub fn insert(&mut self, doc: u32) -> bool {
        if self.contains(doc) {
            return false;
        }
        let words = Arc::make_mut(&mut self.words);
        let word = doc as usize / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (doc % 64);
        self.count += 1;
        true
    }

    /// Returns the number of deleted documents.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the same documents with their new ids after `dropped` was removed from a segment of `max_doc` documents.
    pub fn without(&self, dropped: &DeleteSet, max_doc: u32) -> DeleteSet {
        let ranks = Ranks::new(dropped, max_doc);
        let mut left = DeleteSet::default();
        for doc in self.since(dropped) {
            left.insert(ranks.rank(doc));
        }
        left
    }

    /// Returns the ids in `self` that are not in `older`, ascending.
    pub fn since(&self, older: &DeleteSet) -> Vec<u32> {
        let mut docs = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let mut new = word & !older.words.get(index).copied().unwrap_or(0);
            while new != 0 {
                docs.push(index as u32 * 64 + new.trailing_zeros());
                new &= new - 1;
            }
        }
        docs
    }

    /// Returns the documents as half-open ranges of consecutive ids, ascending: if documents are ordered by tenant, one
    /// tenant has few ranges.
    pub fn runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for doc in self.since(&DeleteSet::default()) {
            match runs.last_mut() {
                Some((_, end)) if *end == doc => *end += 1,
                _ => runs.push((doc, doc + 1)),
            }
        }
        runs
    }

    /// Builds a set from [`Self::runs`].
    pub fn from_runs(runs: &[(u32, u32)]) -> Self {
        let mut set = Self::default();
        for doc in runs.iter().flat_map(|(start, end)| *start..*end) {
            set.insert(doc);
        }
        set
    }

    /// Returns the complement within `0..max_doc`, in Tantivy's format; `None`: nothing is deleted.
    pub fn to_alive(&self, max_doc: u32) -> Option<AliveBits> {
        if self.count == 0 {
            return None;
        }
        let alive = (0..(max_doc as usize).div_ceil(64)).map(|index| {
            let alive = !self.words.get(index).copied().unwrap_or(0);
            match max_doc - index as u32 * 64 {
                in_word @ 0..64 => alive & ((1 << in_word) - 1),
                _ => alive,
            }
        });
        Some(alive_bits(alive, max_doc))
    }

    /// Returns the words of the bitmap, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads [`Self::to_bytes`]; `None`: not a valid set within `max_doc`.
    pub fn from_bytes(bytes: &[u8], max_doc: u32) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let count = words.iter().map(|word| word.count_ones()).sum();
        let highest = words
            .iter()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0)
            .map(|(index, word)| index as u32 * 64 + 63 - word.leading_zeros());
        if !rest.is_empty() || highest.is_some_and(|highest| highest >= max_doc) {
            return None;
        }
        Some(Self {
            words: Arc::new(words),
            count,
        })
    }
}

/// Builds a Tantivy bitset from words of 64 documents; no bit from `max_doc` on may be set.
pub fn alive_bits(words: impl Iterator<Item = u64>, max_doc: u32) -> AliveBits {
    let mut bytes = max_doc.to_le_bytes().to_vec();
    words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    AliveBits::open(OwnedBytes::new(bytes))
}

/// Maps the ids of a segment to those of the merged segment: a document's new id is the number of surviving documents
/// before it.
pub struct Ranks {
    /// Number of survivors before each word of 64 documents.
    before: Vec<u32>,
    alive: Vec<u64>,
}

impl Ranks {
    /// `dropped`: documents that the merge leaves out.
    pub fn new(dropped: &DeleteSet, max_doc: u32) -> Self {
        let mut before = Vec::new();
        let mut alive = Vec::new();
        let mut total = 0;
        for index in 0..(max_doc as usize).div_ceil(64) {
            let word = !dropped.words.get(index).copied().unwrap_or(0);
            before.push(total);
            total += word.count_ones();
            alive.push(word);
        }
        Self { before, alive }
    }

    /// Returns the new id of a surviving document, relative to the first document of its segment.
    pub fn rank(&self, doc: u32) -> u32 {
        let word = doc as usize / 64;
        let below = self.alive[word] & ((1u64 << (doc % 64)) - 1);
        self.before[word] + below.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let mut set = DeleteSet::default();
        assert!(set.to_alive(10).is_none());
        assert!(set.insert(3) && set.insert(130) && !set.insert(3));
        let older = set.clone();
        assert!(set.insert(64));
        assert_eq!(set.since(&older), [64]);
        assert_eq!((set.count(), older.count()), (3, 2));
        let alive = set.to_alive(131).unwrap();
        assert_eq!(alive.num_alive_docs(), 128);
        assert!(alive.is_deleted(130) && alive.is_alive(129));
        let read = DeleteSet::from_bytes(&set.to_bytes(), 131).unwrap();
        assert_eq!(read.since(&DeleteSet::default()), [3, 64, 130]);
        assert!(DeleteSet::from_bytes(&set.to_bytes(), 130).is_none());
        let ranks = Ranks::new(&set, 131);
        assert_eq!(
            (ranks.rank(0), ranks.rank(4), ranks.rank(65), ranks.rank(129)),
            (0, 3, 63, 127)
        );
        set.insert(4);
        assert_eq!(set.runs(), [(3, 5), (64, 65), (130, 131)]);
        let again = DeleteSet::from_runs(&set.runs());
        assert_eq!((again.to_bytes(), again.count()), (set.to_bytes(), 4));
        let set = older.clone();
        let deleted = DeleteSet::from_bytes(&[0b1_1001, 0, 0, 0, 0, 0, 0, 0], 131).unwrap();
        let moved = deleted.without(&set, 131);
        assert_eq!(
            moved.since(&DeleteSet::default()),
            [0, 3],
            "3 is dropped, so 4 moves up"
        );
        assert_eq!(set.without(&set, 131).count(), 0);
    }
}
