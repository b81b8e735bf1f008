//! Terms and phrases scored by BM25 with the lengths of one text.

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{Bm25Weight, EmptyScorer, Explanation, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader, Term};

use super::statistics::Norms;
use super::weight::no_explanation;
use crate::splits::reads::is_collecting;

/// One term.
pub(super) struct ScoredTerm {
    pub(super) term: Term,
    pub(super) bm25: Bm25Weight,
    pub(super) norms: Arc<Norms>,
}

impl Weight for ScoredTerm {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = reader.inverted_index(self.term.field())?;
        let norms = self.norms.get(&reader.segment_id());
        let (Some(info), Some(norms)) = (index.get_term_info(&self.term)?, norms) else {
            return Ok(Box::new(EmptyScorer));
        };
        Ok(Box::new(TermDocs {
            postings: index.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?,
            norms: norms.clone(),
            bm25: self.bm25.boost_by(boost),
        }))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

struct TermDocs {
    postings: SegmentPostings,
    norms: FieldNormReader,
    bm25: Bm25Weight,
}

impl DocSet for TermDocs {
    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.postings.seek(target)
    }

    fn doc(&self) -> DocId {
        self.postings.doc()
    }

    fn size_hint(&self) -> u32 {
        self.postings.size_hint()
    }
}

impl Scorer for TermDocs {
    fn score(&mut self) -> Score {
        let norm = self.norms.fieldnorm_id(self.postings.doc());
        self.bm25.score(norm, self.postings.term_freq())
    }
}

/// A phrase. Tantivy's own scorer finds it and tells how often it occurs only by its score, which
/// knows of no lengths; from that the count is read back.
pub(super) struct ScoredPhrase {
    /// Scores with `flat`.
    pub(super) inner: Box<dyn Weight>,
    /// As if every text were of length 1, and 1 the average.
    pub(super) flat: Bm25Weight,
    pub(super) bm25: Bm25Weight,
    pub(super) norms: Arc<Norms>,
}

impl Weight for ScoredPhrase {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let Some(norms) = self.norms.get(&reader.segment_id()) else {
            return Ok(Box::new(EmptyScorer));
        };
        let once = self.flat.score(FLAT_NORM, 1);
        Ok(Box::new(PhraseDocs {
            inner: self.inner.scorer(reader, 1.0)?,
            once,
            all: self.flat.score(FLAT_NORM, u32::MAX),
            norms: norms.clone(),
            bm25: self.bm25.boost_by(boost),
        }))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// A phrase whose terms are read together: Tantivy reads one after the other, and each would be waited for by itself
/// where the segment lies in a split.
pub(super) struct Together {
    pub(super) phrase: Box<dyn Weight>,
    pub(super) terms: Vec<Term>,
}

impl Weight for Together {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        for term in self.terms.iter().filter(|_| is_collecting()) {
            let index = reader.inverted_index(term.field())?;
            if let Ok(Some(info)) = index.get_term_info(term) {
                // What fails here is asked for again below.
                let _ = index.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqsAndPositions);
            }
        }
        self.phrase.scorer(reader, boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.phrase.explain(reader, doc)
    }
}

/// The length that Tantivy takes texts without lengths for.
const FLAT_NORM: u8 = 1;

struct PhraseDocs {
    inner: Box<dyn Scorer>,
    /// The inner score of a phrase that occurs once.
    once: Score,
    /// What the inner score comes close to where it occurs very often.
    all: Score,
    norms: FieldNormReader,
    bm25: Bm25Weight,
}

impl PhraseDocs {
    /// `score = all * count / (count + k)`, solved for the count; `k` is told by the score of one.
    fn count(&mut self) -> u32 {
        let score = self.inner.score();
        if self.once <= 0.0 {
            return 1;
        }
        let k = self.all / self.once - 1.0;
        let count = k * score / (self.all - score);
        // Not a number where scores are too near each other to tell.
        if count.is_finite() {
            count.round().max(1.0) as u32
        } else {
            u32::MAX
        }
    }
}

impl DocSet for PhraseDocs {
    fn advance(&mut self) -> DocId {
        self.inner.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.inner.seek(target)
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.inner.seek_danger(target)
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

impl Scorer for PhraseDocs {
    fn score(&mut self) -> Score {
        let norm = self.norms.fieldnorm_id(self.inner.doc());
        let count = self.count();
        self.bm25.score(norm, count)
    }
}
