//! Scores for the few aggregations that read them.
//!
//! Collectors take only documents and bucket numbers, so that collectors without scores (nearly all) do not carry
//! them. If a plan has one that reads scores, the run over a segment puts the scores of each block here before it
//! passes the block to the tree.

use parking_lot::{RwLock, RwLockReadGuard};
use tantivy::{DocId, Score};

/// The scores of the current block. One thread writes and reads it; the lock exists because collectors may move to
/// another thread between two blocks.
#[derive(Default)]
pub(super) struct ScoreBoard(RwLock<Block>);

#[derive(Default)]
struct Block {
    /// Ascending.
    docs: Vec<DocId>,
    /// One per document; empty if all documents score the same.
    scores: Vec<Score>,
    same: Score,
}

impl ScoreBoard {
    /// Provides the scores of a block. Without `scores`, all documents score `same`. A collector that passes
    /// documents on later (`sampler`) puts their scores here again, and must not hold [`Scores`] meanwhile.
    pub(super) fn put(&self, docs: &[DocId], scores: &[Score], same: Score) {
        let mut block = self.0.write();
        block.docs.clear();
        block.scores.clear();
        block.same = same;
        if !scores.is_empty() {
            block.docs.extend_from_slice(docs);
            block.scores.extend_from_slice(scores);
        }
    }

    /// Returns the scores of the block.
    pub(super) fn read(&self) -> Scores<'_> {
        Scores {
            block: self.0.read(),
            next: 0,
        }
    }
}

/// The scores of the current block, for lookups in ascending order of documents. Repeated lookups are fast; lookups
/// backwards are correct but slower.
pub(super) struct Scores<'a> {
    block: RwLockReadGuard<'a, Block>,
    next: usize,
}

impl Scores<'_> {
    /// Returns the score of a document of the block.
    pub(super) fn of(&mut self, doc: DocId) -> Score {
        let block = &*self.block;
        if block.scores.is_empty() {
            return block.same;
        }
        while block.docs.get(self.next).is_some_and(|&at| at < doc) {
            self.next += 1;
        }
        if block.docs.get(self.next) != Some(&doc) {
            self.next = block.docs.partition_point(|&at| at < doc);
        }
        block.scores.get(self.next).copied().unwrap_or(block.same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_found_forwards_and_backwards() {
        let board = ScoreBoard::default();
        board.put(&[3, 5, 9], &[0.5, 1.5, 2.5], 0.0);
        let mut scores = board.read();
        assert_eq!([3, 3, 9, 5, 3].map(|doc| scores.of(doc)), [0.5, 0.5, 2.5, 1.5, 0.5]);
        drop(scores);
        board.put(&[11, 12], &[], 7.0);
        assert_eq!(board.read().of(12), 7.0);
    }
}
