//! Collection of the hits with the best scores of a union of terms, without the documents that cannot be among them.
//!
//! MAXSCORE (Turtle and Flood, "Query evaluation: strategies and optimizations", 1995) over windows of documents: terms whose largest scores
//! together do not reach the worst retained hit are looked up only for documents of the other terms. A frequent word of a query then costs
//! next to nothing once there are enough hits. Hits are counted in a pass of their own, without scores.

use std::ops::Range;

use firn_model::Result;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::catch;
use tantivy::{DocId, DocSet, Score};

use super::matching_docs::DocRange;
use super::segment_hits::Hits;
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;
use crate::compile::scored_term::TermDocs;

/// Documents of a window.
const WINDOW: u32 = 4096;
/// Most terms: each has the scores of a window.
const TERMS_MAX: usize = 16;
/// Scores are summed in another order than the bounds, so that the last bits may differ.
const ROUNDING: Score = 1.000_01;

/// Collects the best hits of a segment, and counts all of them as far as the search wants. The caller has checked that hits are wanted by score
/// and nothing else needs all documents. Returns false if the query is no union of terms; then nothing was collected.
pub(crate) fn collect(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    reach: &DocRange,
    hits: &mut Hits,
) -> Result<bool> {
    let rows = match reach {
        DocRange::All { by_terms: false } => 0..segment.max_doc,
        DocRange::Rows(span) => span.rows.clone(),
        _ => return Ok(false),
    };
    // The terms of a split are prefetched for a whole pass.
    if segment.derived.split().is_some() {
        return Ok(false);
    }
    let open = || catch(|| plan.selection.open_terms(segment));
    let (Some(counted), Some(scored)) = (open()?, open()?) else {
        return Ok(false);
    };
    if scored.len() < 2 || scored.len() > TERMS_MAX {
        return Ok(false);
    }
    count(shared, segment, counted, &rows)?;
    let mut best = Best::new(scored);
    let mut next = rows.start;
    while next < rows.end && !shared.should_stop()? {
        let read = catch(|| best.read_window(next..rows.end, segment, hits));
        let Some(read) = shared.in_time(read)? else {
            break;
        };
        let Some(end) = read else {
            break;
        };
        if let Some(times) = &plan.times {
            times.block(best.docs.len());
        }
        hits.collect(&best.docs, &best.scores)?;
        next = end;
    }
    Ok(true)
}

/// Counts the documents of terms among some rows.
fn count(shared: &Shared, segment: &Segment, mut terms: Vec<TermDocs>, rows: &Range<DocId>) -> Result<()> {
    let mut next = rows.start;
    while next < rows.end {
        if shared.counted_enough() {
            shared.total_cut.store(true, std::sync::atomic::Ordering::Relaxed);
            return Ok(());
        }
        if shared.should_stop()? {
            return Ok(());
        }
        let window = next..next.saturating_add(WINDOW).min(rows.end);
        let counted = catch(|| {
            let mut marks = Marks::default();
            for term in &mut terms {
                each_within(term, &window, |term| marks.set(term.doc() - window.start));
            }
            Ok(match segment.deleted_count > 0 || segment.alive.is_some() {
                true => marks.ones().filter(|at| segment.is_alive(window.start + at)).count(),
                false => marks.ones().count(),
            })
        });
        let Some(counted) = shared.in_time(counted)? else {
            return Ok(());
        };
        shared.count(counted as u64);
        next = window.end;
    }
    Ok(())
}

/// Calls `visit` for each document of a term within a window.
fn each_within(term: &mut TermDocs, window: &Range<DocId>, mut visit: impl FnMut(&mut TermDocs)) {
    if term.doc() < window.start {
        term.seek(window.start);
    }
    while term.doc() < window.end {
        visit(term);
        term.advance();
    }
}

/// Documents of a window, one bit each.
struct Marks([u64; WINDOW as usize / 64]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; WINDOW as usize / 64])
    }
}

impl Marks {
    fn set(&mut self, at: u32) {
        self.0[(at / 64) as usize] |= 1 << (at % 64);
    }

    /// Returns the distances of the documents from the start of the window, ascending.
    fn ones(&self) -> impl Iterator<Item = u32> {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(word as u32 * 64 + bit)
            })
        })
    }
}

/// The terms of a query, and the documents of a window that may be among the best.
struct Best {
    /// In the order in which scores are summed.
    terms: Vec<TermDocs>,
    /// Numbers of the terms, the one with the smallest largest score first.
    order: Vec<usize>,
    /// By position in `order`: the largest sum of the scores of this term and of those before it.
    sums: Vec<Score>,
    /// Scores of a window by term; those of terms that are looked up are not set.
    by_term: Vec<Vec<Score>>,
    docs: Vec<DocId>,
    scores: Vec<Score>,
}

impl Best {
    fn new(terms: Vec<TermDocs>) -> Self {
        let mut order: Vec<usize> = (0..terms.len()).collect();
        order.sort_by(|one, other| terms[*one].max_score().total_cmp(&terms[*other].max_score()));
        let mut sum = 0.0;
        let sums = order.iter().map(|number| {
            sum += terms[*number].max_score();
            sum
        });
        Self {
            sums: sums.collect(),
            order,
            by_term: vec![vec![0.0; WINDOW as usize]; terms.len()],
            terms,
            docs: Vec::new(),
            scores: Vec::new(),
        }
    }

    /// Reads the next window with documents among `rows`: those that may be among the first hits. Returns its end; `None`: no further
    /// document may.
    fn read_window(&mut self, rows: Range<DocId>, segment: &Segment, hits: &Hits) -> Result<Option<DocId>> {
        self.docs.clear();
        self.scores.clear();
        let bound = hits.bound();
        let is_out = |sum: Score| hits.first_key().read(0, sum * ROUNDING) > bound;
        let looked_up = self.sums.iter().take_while(|sum| is_out(**sum)).count();
        let (looked_up, leading) = self.order.split_at(looked_up);
        let later = looked_up.len().checked_sub(1).map_or(0.0, |last| self.sums[last]);
        let mut start = rows.end;
        for number in leading {
            let term = &mut self.terms[*number];
            let doc = if term.doc() < rows.start {
                term.seek(rows.start)
            } else {
                term.doc()
            };
            start = start.min(doc);
        }
        if start >= rows.end {
            return Ok(None);
        }
        let window = start..start.saturating_add(WINDOW).min(rows.end);
        let mut marks = Marks::default();
        for number in leading {
            let scores = &mut self.by_term[*number];
            scores.fill(0.0);
            each_within(&mut self.terms[*number], &window, |term| {
                let at = term.doc() - start;
                marks.set(at);
                scores[at as usize] = term.score_here();
            });
        }
        // The largest sum that is known not to be enough.
        let mut floor = Score::NEG_INFINITY;
        for at in marks.ones() {
            let doc = start + at;
            let led: Score = leading.iter().map(|number| self.by_term[*number][at as usize]).sum();
            let most = led + later;
            if most <= floor {
                continue;
            }
            if is_out(most) {
                floor = most;
                continue;
            }
            if !segment.is_alive(doc) {
                continue;
            }
            for number in looked_up {
                let term = &mut self.terms[*number];
                let found = if term.doc() < doc { term.seek(doc) } else { term.doc() };
                self.by_term[*number][at as usize] = match found == doc {
                    true => term.score_here(),
                    false => 0.0,
                };
            }
            self.docs.push(doc);
            self.scores
                .push(self.by_term.iter().map(|scores| scores[at as usize]).sum());
        }
        Ok(Some(window.end))
    }
}
