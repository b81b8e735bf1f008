//! Iterator over the matching documents of a segment, block by block.

use std::ops::Range;
use std::sync::Arc;

use firn_model::Result;
use firn_segment::columns::column::failed;
use firn_segment::distinct::StoredZones;
use firn_segment::segment::Segment;
use tantivy::query::{Scorer, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, TERMINATED};

use crate::compile::scored_term::TermDocs;
use crate::compile::term_union::{SharedWeight, UnionDocs};
use crate::compile::weight::{ColumnDocs, Compiled};
use crate::pruning::time_window::{Runs, SegmentWindow, Window};
use crate::result_cache::Coverage;
use crate::tenancy::tenant_rows;
use crate::tenancy::tenant_rows::{TenantPart, TenantSpan};

/// Documents in one block: enough to spread the cost of a call, few enough to stay in the
/// first-level cache. The search checks for cancellation and timeout between blocks.
pub(crate) const BLOCK: usize = 1024;

/// The documents of a shard that a search selects.
pub(crate) struct Selection {
    /// The query that they must match in addition to the window and the tenant.
    matches: Matches,
    /// The time range that they must be in.
    window: Option<Window>,
    tenant: Option<OneTenant>,
}

/// The tenant whose documents are selected.
struct OneTenant {
    name: Arc<str>,
    /// The query and the tenant together, without the window: for segments whose row order does not
    /// identify the tenant.
    matches: Matches,
}

enum Matches {
    All,
    None,
    Some(Arc<dyn Weight>),
}

impl From<Compiled> for Matches {
    fn from(compiled: Compiled) -> Self {
        match compiled {
            Compiled::All => Self::All,
            Compiled::None => Self::None,
            Compiled::Some(weight) => Self::Some(Arc::from(weight)),
        }
    }
}

/// The part of a segment that a search must read.
pub(crate) enum DocRange {
    Nothing,
    /// All documents.
    All {
        /// The tenant of a document must be found by its terms.
        by_terms: bool,
    },
    /// These rows, which all belong to the tenant.
    Rows(TenantSpan),
    /// The runs of documents inside a time window.
    Runs {
        runs: Runs,
        by_terms: bool,
    },
}

impl DocRange {
    /// Returns a cache key for this part of its segment; `None`: there is none, or the part is
    /// empty.
    pub(crate) fn coverage(&self) -> Option<Coverage> {
        match self {
            Self::Nothing => None,
            Self::All { .. } => Some(Coverage::All),
            Self::Rows(span) => Some(Coverage::Rows(span.rows.start, span.rows.end)),
            Self::Runs { runs, .. } => runs.instants().map(|(first, last)| Coverage::Instants(first, last)),
        }
    }

    /// Returns the documents to read; `None`: all.
    pub(crate) fn docs(&self) -> Option<Vec<Range<DocId>>> {
        match self {
            Self::Nothing => Some(Vec::new()),
            Self::All { .. } => None,
            Self::Rows(span) => Some(vec![span.rows.clone()]),
            Self::Runs { runs, .. } => Some(runs.docs().collect()),
        }
    }

    /// Returns the documents whose timestamps must be tested one by one.
    pub(crate) fn tested(&self) -> Vec<Range<DocId>> {
        match self {
            Self::Runs { runs, .. } => runs.tested().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the most rows that have to be read.
    pub(crate) fn row_count(&self, segment: &Segment) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::All { .. } => segment.max_doc.into(),
            Self::Rows(span) => (span.rows.end - span.rows.start).into(),
            Self::Runs { runs, .. } => runs.row_count(),
        }
    }
}

impl Selection {
    pub(crate) fn new(compiled: Compiled, window: Option<Window>) -> Self {
        Self {
            matches: compiled.into(),
            window,
            tenant: None,
        }
    }

    /// Restricts the selection to the documents of one tenant, which `term` matches.
    pub(crate) fn of_tenant(mut self, name: Arc<str>, term: Compiled, scoring: bool) -> Self {
        let rest = match &self.matches {
            Matches::All => Compiled::All,
            Matches::None => Compiled::None,
            Matches::Some(weight) => Compiled::Some(Box::new(SharedWeight(Arc::clone(weight)))),
        };
        self.tenant = Some(OneTenant {
            name,
            matches: Compiled::all(vec![rest, term.constant(0.0, scoring)], scoring).into(),
        });
        self
    }

    /// Returns whether no document can match.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.matches, Matches::None)
    }

    /// Returns the tenant of the selection.
    pub(crate) fn tenant(&self) -> Option<&Arc<str>> {
        self.tenant.as_ref().map(|tenant| &tenant.name)
    }

    /// Returns the part of a segment that must be read.
    pub(crate) fn reach(&self, segment: &Segment) -> Result<DocRange> {
        if self.is_none() {
            return Ok(DocRange::Nothing);
        }
        let Some(tenant) = &self.tenant else {
            return self.reach_of_all(segment, 0..segment.max_doc, false);
        };
        match tenant_rows::rows_of(segment, &tenant.name) {
            TenantPart::Nothing => Ok(DocRange::Nothing),
            TenantPart::Among(rows) => self.reach_of_all(segment, rows, true),
            TenantPart::Rows(span) => {
                let Some(window) = &self.window else {
                    return Ok(DocRange::Rows(span));
                };
                if tenant_rows::are_within(segment, &tenant.name, window) {
                    return Ok(DocRange::Rows(span));
                }
                match tenant_rows::rows_within(segment, &span, &window.range)? {
                    Some(rows) if rows.is_empty() => Ok(DocRange::Nothing),
                    Some(rows) => Ok(DocRange::Rows(TenantSpan { rows, ..span })),
                    None => match self.reach_of_all(segment, span.rows.clone(), false)? {
                        DocRange::All { .. } => Ok(DocRange::Rows(span)),
                        other => Ok(other),
                    },
                }
            }
        }
    }

    /// Returns the part of a segment that must be read, by the window alone.
    fn reach_of_all(&self, segment: &Segment, rows: Range<DocId>, by_terms: bool) -> Result<DocRange> {
        let whole = rows == (0..segment.max_doc);
        let mut runs = match &self.window {
            None if whole || by_terms => return Ok(DocRange::All { by_terms }),
            None => Runs::of(rows.clone()),
            // Decided without the column: if the segment is in a split, the column would have to be
            // fetched.
            Some(window) if window.covers_all_of(segment) => match whole || by_terms {
                true => return Ok(DocRange::All { by_terms }),
                false => Runs::of(rows.clone()),
            },
            Some(window) => match SegmentWindow::open(&window.range, segment)? {
                SegmentWindow::All if whole || by_terms => return Ok(DocRange::All { by_terms }),
                SegmentWindow::All => Runs::of(rows.clone()),
                SegmentWindow::Nothing => return Ok(DocRange::Nothing),
                SegmentWindow::Runs(runs) => runs,
            },
        };
        if !whole {
            runs.clip(&rows);
        }
        Ok(DocRange::Runs { runs, by_terms })
    }

    /// Opens a part of a segment, without scores.
    pub(crate) fn open_within(&self, segment: &Segment, docs: Range<DocId>) -> Result<Docs> {
        let mut opened = self.open(segment, false)?;
        match &mut opened.runs {
            Some(runs) => runs.clip(&docs),
            None => opened.runs = Some(Runs::of(docs)),
        }
        Ok(opened)
    }

    /// Opens a segment.
    pub(crate) fn open(&self, segment: &Segment, scoring: bool) -> Result<Docs> {
        self.open_reach(segment, self.reach(segment)?, scoring)
    }

    /// Opens the given part of a segment.
    pub(crate) fn open_reach(&self, segment: &Segment, reach: DocRange, scoring: bool) -> Result<Docs> {
        let mut newest_first = false;
        let (none, runs, by_terms) = match reach {
            DocRange::Nothing => (true, None, false),
            DocRange::All { by_terms } => (false, None, by_terms),
            DocRange::Runs { runs, by_terms } => (false, Some(runs), by_terms),
            DocRange::Rows(span) => {
                newest_first = span.newest_first;
                (false, Some(Runs::of(span.rows)), false)
            }
        };
        let matches = match &self.tenant {
            Some(tenant) if by_terms => &tenant.matches,
            _ => &self.matches,
        };
        let none = none || matches!(matches, Matches::None);
        let source = match matches {
            Matches::Some(weight) if !none => Source::Scorer(weight.scorer(&segment.reader, 1.0).map_err(failed)?),
            _ => Source::All {
                next: 0,
                max_doc: if none { 0 } else { segment.max_doc },
            },
        };
        Ok(Docs {
            source,
            runs,
            newest_first,
            docs: Vec::with_capacity(BLOCK),
            scores: Vec::new(),
            scoring,
            seen: 0,
            finished: false,
        })
    }

    /// Returns the rows that match, if they are one run that matches completely.
    pub(crate) fn rows<'a>(&self, reach: &'a DocRange) -> Option<&'a TenantSpan> {
        match reach {
            DocRange::Rows(span) if matches!(self.matches, Matches::All) => Some(span),
            _ => None,
        }
    }

    /// Returns whether the rows to read match without a test of each, apart from their times.
    pub(crate) fn matches_rows(&self, reach: &DocRange) -> bool {
        let by_terms = matches!(
            reach,
            DocRange::All { by_terms: true } | DocRange::Runs { by_terms: true, .. }
        );
        !by_terms && matches!(self.matches, Matches::All)
    }

    /// Returns whether every document of the segment matches, and none is deleted.
    pub(crate) fn is_whole(&self, reach: &DocRange, segment: &Segment) -> bool {
        let is_all = match reach {
            DocRange::All { by_terms } => !by_terms,
            DocRange::Rows(span) => span.rows == (0..segment.max_doc),
            DocRange::Nothing | DocRange::Runs { .. } => false,
        };
        is_all && matches!(self.matches, Matches::All) && segment.deleted_count == 0 && segment.alive.is_none()
    }

    /// Returns the rows that are known to match without a read, apart from deleted ones.
    pub(crate) fn certain(&self, reach: &DocRange, segment: &Segment) -> Vec<Range<DocId>> {
        match reach {
            _ if !matches!(self.matches, Matches::All) => Vec::new(),
            DocRange::Nothing | DocRange::All { by_terms: true } | DocRange::Runs { by_terms: true, .. } => Vec::new(),
            DocRange::All { by_terms: false } => std::iter::once(0..segment.max_doc).collect(),
            DocRange::Rows(span) => vec![span.rows.clone()],
            DocRange::Runs { runs, .. } => runs.certain().collect(),
        }
    }

    /// Opens the terms of a segment whose union selects the documents, without the window and the tenant; `None`: the query is another one.
    pub(crate) fn open_terms(&self, segment: &Segment) -> Result<Option<Vec<TermDocs>>> {
        let Matches::Some(weight) = &self.matches else {
            return Ok(None);
        };
        let scorer = weight.scorer(&segment.reader, 1.0).map_err(failed)?;
        match scorer.downcast_ref::<UnionDocs>() {
            Some(union) => union.open_terms(&segment.reader).map_err(failed),
            None => Ok(None),
        }
    }

    /// Returns whether the documents can be counted without a read.
    pub(crate) fn counts_at_once(&self, reach: &DocRange) -> bool {
        match reach {
            DocRange::Nothing => true,
            DocRange::All { by_terms } => !by_terms && matches!(self.matches, Matches::All),
            DocRange::Rows(_) => matches!(self.matches, Matches::All),
            DocRange::Runs { .. } => false,
        }
    }
}

/// Iterator over the selected documents of a segment; see the module.
pub(crate) struct Docs {
    source: Source,
    /// The runs of documents to read; `None`: all.
    runs: Option<Runs>,
    /// The documents are ordered by `@timestamp`, newest first, if no document has several;
    /// documents without one are last.
    pub(crate) newest_first: bool,
    /// The current block: alive documents, ascending.
    pub(crate) docs: Vec<DocId>,
    /// Their scores, if the search needs scores.
    pub(crate) scores: Vec<Score>,
    scoring: bool,
    /// Number of alive documents returned so far.
    seen: u64,
    /// There is no further block.
    pub(crate) finished: bool,
}

enum Source {
    All { next: DocId, max_doc: DocId },
    Scorer(Box<dyn Scorer>),
}

impl Docs {
    /// Skips the documents before `doc`. Call it before the first block.
    pub(crate) fn skip_to(&mut self, doc: DocId) {
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

    /// Removes the zones all of whose documents match, and returns the documents of each. Call it before the first
    /// block, and only if no document is deleted.
    pub(crate) fn take_zones(&mut self, zones: StoredZones) -> Vec<Range<DocId>> {
        let Source::All { max_doc, .. } = self.source else {
            return Vec::new();
        };
        let runs = self.runs.get_or_insert_with(|| Runs::of(0..max_doc));
        if max_doc == 0 {
            return Vec::new();
        }
        let taken = runs.take_zones(zones);
        self.seen += taken.iter().map(|zone| u64::from(zone.end - zone.start)).sum::<u64>();
        taken
    }

    /// Reads the next block, which may be empty; `finished` says that there was none.
    pub(crate) fn next(&mut self, segment: &Segment) {
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

    /// Returns the current position, which stays the same only at the end.
    fn position(&self) -> (Option<DocId>, Option<DocId>) {
        let source = match &self.source {
            Source::All { next, .. } => *next,
            Source::Scorer(scorer) => scorer.doc(),
        };
        let runs = self.runs.as_ref();
        (Some(source), runs.and_then(|runs| Some(runs.current()?.start)))
    }

    /// Returns whether a query selects the documents, and not their row numbers alone.
    pub(crate) fn has_query(&self) -> bool {
        matches!(self.source, Source::Scorer(_))
    }

    /// Returns the documents, if a query selects them and there are at most `count_max`.
    pub(crate) fn few(self, count_max: usize) -> Option<Vec<Range<DocId>>> {
        let Source::Scorer(mut scorer) = self.source else {
            return None;
        };
        let mut found = Vec::new();
        let mut doc = scorer.doc();
        while doc != TERMINATED {
            if found.len() == count_max {
                return None;
            }
            found.push(doc..doc + 1);
            doc = scorer.advance();
        }
        Some(found)
    }

    /// Returns the number of remaining alive documents, if it is known without a read.
    pub(crate) fn rest_count(&self, segment: &Segment) -> Option<u64> {
        let Source::All { max_doc, .. } = self.source else {
            return None;
        };
        match &self.runs {
            None if max_doc == 0 => Some(0),
            None => Some(u64::from(segment.max_doc - segment.deleted_count) - self.seen),
            Some(runs) => runs.count(segment),
        }
    }

    /// Returns the number of matching documents of a segment without deleted ones, if the statistics of a column tell. Call it before the
    /// first block. `go_on` is called regularly; if it returns false, there is no number.
    pub(crate) fn count_by_column(
        &mut self,
        segment: &Segment,
        go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<u64>> {
        match &mut self.source {
            Source::Scorer(scorer) if self.runs.is_none() && segment.deleted_count == 0 && segment.alive.is_none() => {
                match scorer.downcast_mut::<ColumnDocs>() {
                    Some(docs) => docs.count(go_on),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Retains the documents of the block that `wanted` accepts.
    pub(crate) fn keep(&mut self, mut wanted: impl FnMut(DocId, Score) -> bool) {
        let mut retained = 0;
        for position in 0..self.docs.len() {
            let doc = self.docs[position];
            let score = self.scores.get(position).copied().unwrap_or_default();
            if wanted(doc, score) {
                self.docs[retained] = doc;
                if !self.scores.is_empty() {
                    self.scores[retained] = score;
                }
                retained += 1;
            }
        }
        self.truncate(retained);
    }

    /// Retains the documents whose score is at least `min_score`.
    pub(crate) fn keep_scores(&mut self, min_score: f32, constant: Option<Score>) {
        match constant {
            Some(score) if score < min_score => self.truncate(0),
            Some(_) => {}
            None => self.keep(|_, score| score >= min_score),
        }
    }

    /// Truncates the block.
    pub(crate) fn truncate(&mut self, count: usize) {
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

    /// Fills a block from runs. The block may be empty although more documents follow.
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

/// Adds those of the ascending documents that are inside the runs, and advances the runs.
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
