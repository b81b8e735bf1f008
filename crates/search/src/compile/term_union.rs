//! Union of queries whose scores are summed. Where all of them are terms, a search for the best hits may read the terms one by one.

use std::sync::Arc;

use tantivy::query::{BooleanWeight, EmptyScorer, Explanation, Occur, Scorer, SumCombiner, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, SeekDangerResult, SegmentReader};

use super::scored_term::TermDocs;
use super::weight::no_explanation;

/// The documents of any of some weights.
pub(crate) struct UnionWeight {
    parts: Arc<[Arc<dyn Weight>]>,
    union: Box<dyn Weight>,
}

impl UnionWeight {
    pub(crate) fn new(parts: Vec<Box<dyn Weight>>) -> Self {
        let parts: Arc<[Arc<dyn Weight>]> = parts.into_iter().map(Arc::from).collect();
        let clauses = parts.iter().map(|part| {
            let part: Box<dyn Weight> = Box::new(SharedWeight(Arc::clone(part)));
            (Occur::Should, part)
        });
        let clauses = clauses.collect();
        let union = BooleanWeight::with_minimum_number_should_match(clauses, 1, true, Box::new(SumCombiner::default));
        Self {
            parts,
            union: Box::new(union),
        }
    }
}

impl Weight for UnionWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(UnionDocs {
            inner: self.union.scorer(reader, boost)?,
            parts: Arc::clone(&self.parts),
            boost,
        }))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// A weight with several owners.
pub(crate) struct SharedWeight(pub(crate) Arc<dyn Weight>);

impl Weight for SharedWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        self.0.scorer(reader, boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(reader, doc)
    }
}

/// The documents of a union in one segment.
pub(crate) struct UnionDocs {
    inner: Box<dyn Scorer>,
    parts: Arc<[Arc<dyn Weight>]>,
    boost: Score,
}

impl UnionDocs {
    /// Opens the terms of the union from their beginning, in the order in which their scores are summed; `None`: not all parts are terms.
    pub(crate) fn open_terms(&self, reader: &SegmentReader) -> tantivy::Result<Option<Vec<TermDocs>>> {
        let mut terms = Vec::with_capacity(self.parts.len());
        for part in &*self.parts {
            let scorer = part.scorer(reader, self.boost)?;
            if scorer.is::<EmptyScorer>() {
                continue;
            }
            match scorer.downcast::<TermDocs>() {
                Ok(term) => terms.push(*term),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(terms))
    }
}

impl DocSet for UnionDocs {
    fn advance(&mut self) -> DocId {
        self.inner.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.inner.seek(target)
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.inner.seek_danger(target)
    }

    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        self.inner.fill_buffer(buffer)
    }

    fn doc(&self) -> DocId {
        self.inner.doc()
    }

    fn size_hint(&self) -> u32 {
        self.inner.size_hint()
    }

    fn cost(&self) -> u64 {
        self.inner.cost()
    }
}

impl Scorer for UnionDocs {
    fn score(&mut self) -> Score {
        self.inner.score()
    }
}
