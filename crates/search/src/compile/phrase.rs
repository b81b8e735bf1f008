//! Phrase query: documents with some words at given distances.
//!
//! Tantivy's scorer reads one postings list for each place of a phrase and combines the positions without
//! interruption: a document of 300,000 words against a phrase of 20,000 equal words takes half a minute, in which
//! no other work runs. Here, equal words share one list whose positions are read once per document, and the work
//! checks inside a document whether to stop. Matches and counts are the same, except for phrases with slop: Tantivy
//! adds up the moves from one word to the next, and ignores them without scores.

mod exact_phrase;
mod sloppy_phrase;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::resume_unwind;
use std::sync::Arc;

use firn_model::Result;
use firn_segment::columns::column::into_tantivy;
use firn_segment::splits::dry_run::{ReadFailed, is_collecting};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{Bm25Weight, EmptyScorer, Explanation, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED, Term};

use self::exact_phrase::Exact;
use self::sloppy_phrase::{Near, PLACE_BYTES};
use super::statistics::Norms;
use super::weight::no_explanation;
use crate::compile::limits::{OwnedPace, Stop};
use crate::run::preemption::LOOKUP_STEPS;

/// Bytes of an open postings list with its blocks of documents, counts and positions.
const POSTINGS_BYTES: usize = 2048;
/// Occurrences of words that are read in one step of a [`OwnedPace`].
const OCCURRENCES_PER_STEP: usize = 16;
/// Documents without some word that are skipped between two steps of the pace.
const MISSES_AT_ONCE: usize = 1024;
/// Occurrences that are not counted as memory: buffers of a few kilobytes.
const OCCURRENCES_UNCOUNTED: usize = 1024;
/// Most bytes of an occurrence: as it is read, after it is moved, and as a start found so far, in buffers that may
/// be twice as large; or bits instead of the starts.
const OCCURRENCE_BYTES: usize = 24;
/// Cost of reading a document's positions, relative to reading its id, as in Tantivy.
const POSITIONS_COST: u32 = 10;

/// A phrase of two or more words.
pub(crate) struct Phrase {
    /// The distinct words, each with its places, ascending.
    words: Vec<(Term, Vec<u32>)>,
    /// All places in the order of the phrase, each with the number of its word.
    places: Vec<(u32, usize)>,
    slop: u32,
    stop: Stop,
    /// `None`: the query only selects documents.
    scores: Option<Scores>,
}

/// The inputs of a phrase's score.
pub(crate) struct Scores {
    pub(crate) bm25: Bm25Weight,
    /// `None`: all values have the same length.
    pub(crate) norms: Option<Arc<Norms>>,
}

impl Phrase {
    /// Creates a phrase of words at these places, which ascend from 0; `slop` moves are allowed.
    pub(crate) fn new(terms: impl Iterator<Item = (u32, Term)>, slop: u32, stop: &Stop) -> Self {
        let mut words: Vec<(Term, Vec<u32>)> = Vec::new();
        let mut places = Vec::new();
        let mut numbers: HashMap<Term, usize> = HashMap::new();
        for (place, term) in terms {
            let number = match numbers.entry(term) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    words.push((new.key().clone(), Vec::new()));
                    *new.insert(words.len() - 1)
                }
            };
            words[number].1.push(place);
            places.push((place, number));
        }
        Self {
            words,
            places,
            slop,
            stop: stop.clone(),
            scores: None,
        }
    }

    /// Returns the distinct words.
    pub(crate) fn terms(&self) -> impl ExactSizeIterator<Item = &Term> {
        self.words.iter().map(|(term, _)| term)
    }

    /// Returns the phrase with scores.
    pub(crate) fn scored(self, scores: Scores) -> Self {
        Self {
            scores: Some(scores),
            ..self
        }
    }

    /// Opens the postings of the words on a segment, the rarest first; `None`: some word is not in the segment.
    fn open(&self, reader: &SegmentReader, pace: &mut OwnedPace) -> tantivy::Result<Option<Vec<Word>>> {
        // In a dry-run prefetch, all postings are requested here; otherwise each list of a split would need its own
        // round of reads.
        for (term, _) in self.words.iter().filter(|_| is_collecting()) {
            let index = reader.inverted_index(term.field())?;
            if let Ok(Some(info)) = index.get_term_info(term) {
                // A failed read is repeated below.
                let _ = index.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqsAndPositions);
            }
        }
        pace.take(self.words.len() * POSTINGS_BYTES).map_err(into_tantivy)?;
        let mut words = Vec::with_capacity(self.words.len());
        for (number, (term, places)) in self.words.iter().enumerate() {
            pace.step(LOOKUP_STEPS).map_err(into_tantivy)?;
            let index = reader.inverted_index(term.field())?;
            let Some(postings) = index.read_postings(term, IndexRecordOption::WithFreqsAndPositions)? else {
                return Ok(None);
            };
            words.push(Word {
                number,
                places: places.clone(),
                postings,
            });
        }
        words.sort_by_key(|word| word.postings.doc_freq());
        Ok(Some(words))
    }
}

impl Weight for Phrase {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let scores = match &self.scores {
            None => None,
            Some(Scores { bm25, norms }) => {
                let norms = match norms {
                    Some(norms) => norms.get(&reader.segment_id()).cloned(),
                    None => Some(FieldNormReader::constant(reader.max_doc(), 1)),
                };
                let Some(norms) = norms else {
                    return Ok(Box::new(EmptyScorer));
                };
                Some((bm25.boost_by(boost), norms))
            }
        };
        let mut pace = self.stop.lasting_pace();
        let Some(words) = self.open(reader, &mut pace)? else {
            return Ok(Box::new(EmptyScorer));
        };
        let docs_max = estimate(&words, reader.max_doc());
        let times = POSITIONS_COST.saturating_mul(self.places.len() as u32);
        let search = match self.slop {
            0 => Search::Exact(Exact::new(&self.places)),
            slop => {
                pace.take(self.places.len() * PLACE_BYTES).map_err(into_tantivy)?;
                Search::Near(Near::new(&self.places, &words, slop))
            }
        };
        let mut docs = PhraseDocs {
            doc: 0,
            count: 0.0,
            occurrences: OCCURRENCES_UNCOUNTED,
            size: docs_max / times,
            cost: u64::from(docs_max) * u64::from(times),
            words,
            search,
            scores,
            pace,
        };
        docs.find().map_err(into_tantivy)?;
        Ok(Box::new(docs))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// Estimates, like Tantivy, how many documents have all of some words; the rarest word comes first.
fn estimate(words: &[Word], max_doc: u32) -> u32 {
    let sizes = || words.iter().map(|word| f64::from(word.postings.doc_freq()));
    let mut docs = sizes().next().unwrap_or_default();
    let mut together = 1.3;
    for size in sizes().skip(1) {
        together = f64::max(together - 0.1, 1.0);
        docs *= size / f64::from(max_doc.max(1)) * together;
    }
    docs.round().min(sizes().next().unwrap_or_default()) as u32
}

/// A word of a phrase on one segment.
struct Word {
    /// Its number in the phrase.
    number: usize,
    /// Its places in the phrase, ascending.
    places: Vec<u32>,
    postings: SegmentPostings,
}

/// The algorithm that combines the positions of one document.
enum Search {
    Exact(Exact),
    Near(Near),
}

struct PhraseDocs {
    doc: DocId,
    /// How often the phrase occurs in the document, if scores are needed. With slop, a match may count less than
    /// one.
    count: f32,
    /// The most occurrences in one document so far, for which memory is reserved.
    occurrences: usize,
    /// Approximate number of documents.
    size: u32,
    cost: u64,
    /// The rarest word first.
    words: Vec<Word>,
    search: Search,
    scores: Option<(Bm25Weight, FieldNormReader)>,
    pace: OwnedPace,
}

impl PhraseDocs {
    /// Moves to the first document with the phrase, from the current document of the first word on.
    fn find(&mut self) -> Result<DocId> {
        self.doc = loop {
            let doc = self.align()?;
            if doc == TERMINATED || self.is_match()? {
                break doc;
            }
            self.words[0].postings.advance();
        };
        Ok(self.doc)
    }

    /// Moves to the first document with all words, from the current document of the first word on.
    fn align(&mut self) -> Result<DocId> {
        let Some((first, others)) = self.words.split_first_mut() else {
            return Ok(TERMINATED);
        };
        let mut doc = first.postings.doc();
        let mut misses = 0;
        'candidates: while doc != TERMINATED {
            for other in &mut *others {
                let mut at = other.postings.doc();
                if at < doc {
                    at = other.postings.seek(doc);
                }
                if at > doc {
                    misses += 1;
                    if misses == MISSES_AT_ONCE {
                        self.pace.step(misses)?;
                        misses = 0;
                    }
                    doc = first.postings.seek(at);
                    continue 'candidates;
                }
            }
            break;
        }
        self.pace.step(misses)?;
        Ok(doc)
    }

    /// Returns whether the current document of all words has the phrase.
    fn is_match(&mut self) -> Result<bool> {
        let occurrences: usize = self.words.iter().map(|word| word.postings.term_freq() as usize).sum();
        self.pace.step(1 + occurrences / OCCURRENCES_PER_STEP)?;
        if occurrences > self.occurrences {
            self.pace.take((occurrences - self.occurrences) * OCCURRENCE_BYTES)?;
            self.occurrences = occurrences;
        }
        let counting = self.scores.is_some();
        self.count = match &mut self.search {
            Search::Exact(exact) => exact.count(&mut self.words, counting, &mut self.pace)? as f32,
            Search::Near(near) => near.count(&mut self.words, counting, &mut self.pace)?,
        };
        Ok(self.count > 0.0)
    }

    /// Tests whether a document has the phrase; if not, returns a lower bound of the next match.
    fn test(&mut self, doc: DocId) -> Result<SeekDangerResult> {
        if doc >= TERMINATED {
            return Ok(SeekDangerResult::SeekLowerBound(TERMINATED));
        }
        for word in &mut self.words {
            let mut at = word.postings.doc();
            if at < doc {
                at = word.postings.seek(doc);
            }
            if at > doc {
                self.pace.step(1)?;
                return Ok(SeekDangerResult::SeekLowerBound(at));
            }
        }
        Ok(match self.is_match()? {
            true => SeekDangerResult::Found,
            false => SeekDangerResult::SeekLowerBound(doc + 1),
        })
    }
}

/// Returns the result; a search that must stop unwinds, because [`DocSet`] has no errors.
fn found<T>(outcome: Result<T>) -> T {
    match outcome {
        Ok(found) => found,
        Err(error) => resume_unwind(Box::new(ReadFailed(error))),
    }
}

impl DocSet for PhraseDocs {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.words[0].postings.advance();
        found(self.find())
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target <= self.doc {
            return self.doc;
        }
        let first = &mut self.words[0].postings;
        if first.doc() < target {
            first.seek(target);
        }
        found(self.find())
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target == self.doc && target < TERMINATED {
            return SeekDangerResult::Found;
        }
        let outcome = found(self.test(target));
        if outcome == SeekDangerResult::Found {
            self.doc = target;
        }
        outcome
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.size
    }

    fn cost(&self) -> u64 {
        self.cost
    }
}

impl Scorer for PhraseDocs {
    fn score(&mut self) -> Score {
        match &self.scores {
            Some((bm25, norms)) => score(bm25, norms.fieldnorm_id(self.doc), self.count),
            None => 1.0,
        }
    }
}

/// Returns the score of a count that may be fractional, which Tantivy does not support. The inverse of the score is
/// linear in the inverse of the count, so this interpolates between a count of one and the largest count.
fn score(bm25: &Bm25Weight, norm_id: u8, count: f32) -> Score {
    let once = bm25.score(norm_id, 1);
    if count.fract() == 0.0 || once <= 0.0 {
        return bm25.score(norm_id, count as u32);
    }
    let least = 1.0 / f64::from(u32::MAX);
    let (once, most) = (1.0 / f64::from(once), 1.0 / f64::from(bm25.score(norm_id, u32::MAX)));
    let share = (1.0 / f64::from(count) - least) / (1.0 - least);
    (1.0 / (most + (once - most) * share)) as Score
}
