//! The matching documents of a segment, block by block.

use std::ops::Range;

use firn_model::Result;
use tantivy::query::{Scorer, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, TERMINATED};

use super::column::{NumRange, failed};
use super::time_window::{Runs, SegmentWindow};
use super::weight::Compiled;
use crate::segment::Segment;

/// Documents handed on at once: enough to spread the cost of a call, few enough to stay in the
/// first-level cache. The client's going away and time are looked at between blocks.
pub(super) const BLOCK: usize = 1024;

/// Which documents of a shard match.
pub(super) struct Selection {
    matches: Matches,
    /// The instants that they have to be within, besides.
    window: Option<NumRange>,
}

enum Matches {
    All,
    None,
    Some(Box<dyn Weight>),
}

impl Selection {
    pub(super) fn new(compiled: Compiled, window: Option<NumRange>) -> Self {
        Self {
            matches: match compiled {
                Compiled::All => Matches::All,
                Compiled::None => Matches::None,
                Compiled::Some(weight) => Matches::Some(weight),
            },
            window,
        }
    }

    /// Whether no document can match.
    pub(super) fn is_none(&self) -> bool {
        matches!(self.matches, Matches::None)
    }

    /// Begins to read a part of a segment, without scores.
    pub(super) fn open_within(&self, segment: &Segment, docs: Range<DocId>) -> Result<Docs> {
        let mut opened = self.open(segment, false)?;
        match &mut opened.runs {
            Some(runs) => runs.clip(&docs),
            None => opened.runs = Some(Runs::of(docs)),
        }
        Ok(opened)
    }

    /// Begins to read a segment.
    pub(super) fn open(&self, segment: &Segment, scoring: bool) -> Result<Docs> {
        let mut none = self.is_none();
        let mut runs = None;
        if let Some(window) = self.window.as_ref().filter(|_| !none) {
            match SegmentWindow::open(window, segment)? {
                SegmentWindow::All => {}
                SegmentWindow::Nothing => none = true,
                SegmentWindow::Runs(own) => runs = Some(own),
            }
        }
        let source = match &self.matches {
            Matches::Some(weight) if !none => Source::Scorer(weight.scorer(&segment.reader, 1.0).map_err(failed)?),
            _ => Source::All {
                next: 0,
                max_doc: if none { 0 } else { segment.max_doc },
            },
        };
        Ok(Docs {
            source,
            runs,
            docs: Vec::with_capacity(BLOCK),
            scores: Vec::new(),
            scoring,
            seen: 0,
            finished: false,
        })
    }
}

/// See the module.
pub(super) struct Docs {
    source: Source,
    /// The runs of documents to be read; `None`: all.
    runs: Option<Runs>,
    /// The block: alive documents, ascending.
    pub(super) docs: Vec<DocId>,
    /// Their scores, if those are wanted.
    pub(super) scores: Vec<Score>,
    scoring: bool,
    /// Alive documents handed out.
    seen: u64,
    /// There was no further block.
    pub(super) finished: bool,
}

enum Source {
    All { next: DocId, max_doc: DocId },
    Scorer(Box<dyn Scorer>),
}

impl Docs {
    /// Passes over the documents before `doc`. To be called before the first block.
    pub(super) fn skip_to(&mut self, doc: DocId) {
        if let Some(runs) = &mut self.runs {
            runs.advance_to(doc);
        }
        match &mut self.source {
            Source::All { next, max_doc } => *next = doc.min(*max_doc),
            Source::Scorer(scorer) => {
                if scorer.doc() < doc {
                    scorer.seek(doc);
                }
            }
        }
    }

    /// Reads the next block, which may be empty; `finished` says that there was none.
    pub(super) fn next(&mut self, segment: &Segment) {
        self.docs.clear();
        self.scores.clear();
        let before = self.position();
        match &mut self.runs {
            None => self.source.fill(self.scoring, &mut self.docs, &mut self.scores),
            Some(runs) => self
                .source
                .fill_within(runs, self.scoring, &mut self.docs, &mut self.scores),
        }
        self.finished = self.docs.is_empty() && self.position() == before;
        if segment.deleted_count > 0 || segment.alive.is_some() {
            self.keep(|doc, _| segment.is_alive(doc));
        }
        self.seen += self.docs.len() as u64;
    }

    /// Whether they are all documents of the segment.
    pub(super) fn are_all_of(&self, segment: &Segment) -> bool {
        let all = matches!(self.source, Source::All { max_doc, .. } if max_doc == segment.max_doc);
        all && self.runs.is_none() && segment.deleted_count == 0 && segment.alive.is_none()
    }

    /// How far it has come: stays the same only at the end.
    fn position(&self) -> (Option<DocId>, Option<DocId>) {
        let source = match &self.source {
            Source::All { next, .. } => *next,
            Source::Scorer(scorer) => scorer.doc(),
        };
        let runs = self.runs.as_ref();
        (Some(source), runs.and_then(|runs| Some(runs.current()?.start)))
    }

    /// How many alive documents are to come, where that is known without reading them.
    pub(super) fn rest_count(&self, segment: &Segment) -> Option<u64> {
        let Source::All { max_doc, .. } = self.source else {
            return None;
        };
        match &self.runs {
            None if max_doc == 0 => Some(0),
            None => Some(u64::from(segment.max_doc - segment.deleted_count) - self.seen),
            Some(runs) if segment.deleted_count == 0 && segment.alive.is_none() => runs.count(),
            Some(_) => None,
        }
    }

    /// Keeps the wanted ones of the block.
    pub(super) fn keep(&mut self, mut wanted: impl FnMut(DocId, Score) -> bool) {
        let mut kept = 0;
        for position in 0..self.docs.len() {
            let doc = self.docs[position];
            let score = self.scores.get(position).copied().unwrap_or_default();
            if wanted(doc, score) {
                self.docs[kept] = doc;
                if !self.scores.is_empty() {
                    self.scores[kept] = score;
                }
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Keeps those that score enough.
    pub(super) fn keep_scores(&mut self, min_score: f32, constant: Option<Score>) {
        match constant {
            Some(score) if score < min_score => self.truncate(0),
            Some(_) => {}
            None => self.keep(|_, score| score >= min_score),
        }
    }

    /// Cuts the block.
    pub(super) fn truncate(&mut self, count: usize) {
        self.docs.truncate(count);
        self.scores.truncate(count);
    }
}

impl Source {
    /// Fills a block.
    fn fill(&mut self, scoring: bool, docs: &mut Vec<DocId>, scores: &mut Vec<Score>) {
        match self {
            Self::All { next, max_doc } => {
                let end = next.saturating_add(BLOCK as u32).min(*max_doc);
                docs.extend(*next..end);
                *next = end.max(*next);
            }
            Self::Scorer(scorer) if scoring => {
                let mut doc = scorer.doc();
                while doc != TERMINATED && docs.len() < BLOCK {
                    docs.push(doc);
                    scores.push(scorer.score());
                    doc = scorer.advance();
                }
            }
            Self::Scorer(scorer) => {
                let mut buffer = [0; COLLECT_BLOCK_BUFFER_LEN];
                while docs.len() + buffer.len() <= BLOCK {
                    let count = scorer.fill_buffer(&mut buffer);
                    docs.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() {
                        break;
                    }
                }
            }
        }
    }

    /// Fills a block from runs; it may be empty although there is more.
    fn fill_within(&mut self, runs: &mut Runs, scoring: bool, docs: &mut Vec<DocId>, scores: &mut Vec<Score>) {
        match self {
            Self::All { max_doc, .. } => {
                let Some(run) = runs.current().filter(|_| *max_doc > 0) else {
                    return;
                };
                let end = run.start.saturating_add(BLOCK as u32).min(run.end);
                docs.extend(run.start..end);
                if run.is_partial {
                    runs.keep_inside(docs, 0);
                }
                runs.advance_to(end);
            }
            Self::Scorer(scorer) if scoring => {
                let mut doc = scorer.doc();
                while doc != TERMINATED && docs.len() < BLOCK {
                    runs.advance_to(doc);
                    let Some(run) = runs.current() else {
                        return;
                    };
                    if doc < run.start {
                        doc = scorer.seek(run.start);
                        continue;
                    }
                    if !run.is_partial || runs.contains(doc) {
                        docs.push(doc);
                        scores.push(scorer.score());
                    }
                    doc = scorer.advance();
                }
            }
            Self::Scorer(scorer) => {
                let mut buffer = [0; COLLECT_BLOCK_BUFFER_LEN];
                while docs.len() + buffer.len() <= BLOCK {
                    let Some(run) = runs.current() else {
                        return;
                    };
                    if scorer.doc() < run.start {
                        scorer.seek(run.start);
                    }
                    let count = scorer.fill_buffer(&mut buffer);
                    if count == 0 {
                        return;
                    }
                    take_inside(runs, &buffer[..count], docs);
                }
            }
        }
    }
}

/// Adds those of ascending documents that are in the window, and moves the runs along.
fn take_inside(runs: &mut Runs, mut found: &[DocId], docs: &mut Vec<DocId>) {
    while let Some(&first) = found.first() {
        runs.advance_to(first);
        let Some(run) = runs.current() else {
            return;
        };
        found = &found[found.partition_point(|doc| *doc < run.start)..];
        let (inside, after) = found.split_at(found.partition_point(|doc| *doc < run.end));
        let from = docs.len();
        docs.extend_from_slice(inside);
        if run.is_partial {
            runs.keep_inside(docs, from);
        }
        found = after;
    }
}
