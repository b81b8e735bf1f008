//! Tantivy weights of firn: constant scores, tests on columns, unions of terms.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::term_union::UnionWeight;
use firn_model::Result;
use firn_segment::columns::column::is_full;
use firn_segment::columns::number_statistics::NumberStatistics;
use firn_segment::columns::presence;
use firn_segment::splits::dry_run::{is_collecting, or_later};
use tantivy::columnar::Column;
use tantivy::postings::TermInfo;
use tantivy::query::{
    AllScorer, AllWeight, BitSetDocSet, BooleanWeight, BoostWeight, ConstScorer, DisjunctionMaxCombiner, EmptyScorer,
    EmptyWeight, Explanation, Occur, Scorer, SumCombiner, Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{
    BitSet, COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED, TantivyError,
};

/// A compiled query of one shard.
pub(crate) enum Compiled {
    /// Every document.
    All,
    /// No document.
    None,
    /// The documents of this weight.
    Some(Box<dyn Weight>),
}

impl Compiled {
    /// Returns a weight that gives every hit the score `score`.
    pub(crate) fn constant(self, score: Score, scoring: bool) -> Self {
        match self {
            Self::None => Self::None,
            Self::All if !scoring => Self::All,
            Self::Some(weight) if !scoring => Self::Some(weight),
            other => Self::Some(Box::new(ConstWeight {
                inner: other.into_weight(),
                score,
            })),
        }
    }

    /// Multiplies scores.
    pub(crate) fn boost(self, boost: Score, scoring: bool) -> Self {
        match self {
            Self::None => Self::None,
            other if !scoring || boost == 1.0 => other,
            other => Self::Some(Box::new(BoostWeight::new(other.into_weight(), boost))),
        }
    }

    /// Converts to a weight.
    pub(crate) fn into_weight(self) -> Box<dyn Weight> {
        match self {
            Self::All => Box::new(AllWeight),
            Self::None => Box::new(EmptyWeight),
            Self::Some(weight) => weight,
        }
    }

    /// Converts to a weight that is one of several.
    fn into_part(self) -> Box<dyn Weight> {
        Box::new(PartWeight(self.into_weight()))
    }

    /// Returns the union of `parts`; scores are summed.
    pub(crate) fn any(parts: Vec<Self>, scoring: bool) -> Self {
        Self::at_least(parts, 1, scoring)
    }

    /// Returns the union of `parts`; the score is the best one plus `tie_breaker` times the others.
    pub(crate) fn best(mut parts: Vec<Self>, tie_breaker: Score, scoring: bool) -> Self {
        if !scoring || tie_breaker == 1.0 {
            return Self::any(parts, scoring);
        }
        parts.retain(|part| !matches!(part, Self::None));
        if parts.len() < 2 {
            return parts.pop().unwrap_or(Self::None);
        }
        let clauses = parts.into_iter().map(|part| (Occur::Should, part.into_part()));
        Self::Some(Box::new(BooleanWeight::with_minimum_number_should_match(
            clauses.collect(),
            1,
            scoring,
            Box::new(move || DisjunctionMaxCombiner::with_tie_breaker(tie_breaker)),
        )))
    }

    /// Returns the intersection of `parts`; scores are summed.
    pub(crate) fn all(parts: Vec<Self>, scoring: bool) -> Self {
        if parts.iter().any(|part| matches!(part, Self::None)) {
            return Self::None;
        }
        combine(parts, Vec::new(), Vec::new(), 0, scoring)
    }

    /// Returns the documents that at least `count` of `parts` match.
    pub(crate) fn at_least(parts: Vec<Self>, count: usize, scoring: bool) -> Self {
        if count == 0 && !scoring {
            return Self::All;
        }
        let must = if count == 0 { vec![Self::All] } else { Vec::new() };
        combine(must, parts, Vec::new(), count, scoring)
    }
}

/// Combines clauses: all of `must`, none of `must_not`, at least `minimum` of `should`.
pub(crate) fn combine(
    must: Vec<Compiled>,
    should: Vec<Compiled>,
    must_not: Vec<Compiled>,
    minimum: usize,
    scoring: bool,
) -> Compiled {
    if must.iter().any(|part| matches!(part, Compiled::None))
        || must_not.iter().any(|part| matches!(part, Compiled::All))
    {
        return Compiled::None;
    }
    let mut should: Vec<_> = should
        .into_iter()
        .filter(|part| !matches!(part, Compiled::None))
        .collect();
    if should.len() < minimum {
        return Compiled::None;
    }
    let mut minimum = minimum;
    let mut must = must;
    if !scoring {
        let before = should.len();
        should.retain(|part| !matches!(part, Compiled::All));
        minimum = minimum.saturating_sub(before - should.len());
        if minimum == 0 {
            should.clear();
        }
        must.retain(|part| !matches!(part, Compiled::All));
    }
    let must_not: Vec<_> = must_not
        .into_iter()
        .filter(|part| !matches!(part, Compiled::None))
        .collect();
    if must.is_empty() && should.is_empty() && must_not.is_empty() {
        return Compiled::All;
    }
    if must_not.is_empty() && must.len() + should.len() == 1 && (should.is_empty() || minimum == 1) {
        return must.pop().or_else(|| should.pop()).unwrap_or(Compiled::None);
    }
    if must.is_empty() && minimum == 0 {
        // Nothing is required: everything matches except the excluded documents.
        must.push(Compiled::All.constant(0.0, scoring));
    }
    let base: Box<dyn Weight> = if must.len() == 1 && should.is_empty() {
        must.pop().unwrap_or(Compiled::None).into_weight()
    } else if must.is_empty() && minimum == 1 && scoring {
        Box::new(UnionWeight::new(should.into_iter().map(Compiled::into_part).collect()))
    } else {
        let mut clauses = Vec::with_capacity(must.len() + should.len());
        for (occur, parts) in [(Occur::Must, must), (Occur::Should, should)] {
            clauses.extend(parts.into_iter().map(|part| (occur, part.into_part())));
        }
        Box::new(BooleanWeight::with_minimum_number_should_match(
            clauses,
            minimum,
            scoring,
            Box::new(SumCombiner::default),
        ))
    };
    if must_not.is_empty() {
        return Compiled::Some(base);
    }
    Compiled::Some(Box::new(ExcludeWeight {
        base,
        excluded: must_not.into_iter().map(Compiled::into_part).collect(),
    }))
}

/// One weight of several. In a dry-run prefetch ([`firn_segment::splits::dry_run`]), a weight that fails does not stop the
/// next ones from recording their reads.
struct PartWeight(Box<dyn Weight>);

impl Weight for PartWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        match self.0.scorer(reader, boost) {
            Err(_) if is_collecting() => Ok(Box::new(EmptyScorer)),
            other => other,
        }
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(reader, doc)
    }

    fn count(&self, reader: &SegmentReader) -> tantivy::Result<u32> {
        self.0.count(reader)
    }
}

/// The documents of one weight without those of others. (Tantivy's exclusion seeks its scorers to documents before
/// their current one, which phrases forbid.)
struct ExcludeWeight {
    base: Box<dyn Weight>,
    excluded: Vec<Box<dyn Weight>>,
}

impl Weight for ExcludeWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let base = or_later(self.base.scorer(reader, boost), Box::new(EmptyScorer))?;
        let mut excluded = Vec::with_capacity(self.excluded.len());
        for weight in &self.excluded {
            excluded.push(Excluded::new(weight.scorer(reader, 1.0)?));
        }
        let mut docs = ExcludeDocs { base, excluded };
        docs.skip();
        Ok(Box::new(docs))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// A scorer that is queried for ascending documents only.
pub(crate) struct Excluded {
    scorer: Box<dyn Scorer>,
    /// The scorer has no document between the last queried one and this one, exclusive.
    next: DocId,
    /// The scorer has `next`, and is positioned on it.
    is_match: bool,
}

impl Excluded {
    pub(crate) fn new(scorer: Box<dyn Scorer>) -> Self {
        Self {
            next: scorer.doc(),
            is_match: true,
            scorer,
        }
    }

    /// Returns whether the scorer has `doc`. Query documents in ascending order.
    pub(crate) fn contains(&mut self, doc: DocId) -> bool {
        if doc > self.next || doc == self.next && !self.is_match {
            match self.scorer.seek_danger(doc) {
                SeekDangerResult::Found => (self.next, self.is_match) = (doc, true),
                SeekDangerResult::SeekLowerBound(next) => (self.next, self.is_match) = (next, false),
            }
        }
        doc == self.next && self.is_match
    }
}

struct ExcludeDocs {
    base: Box<dyn Scorer>,
    excluded: Vec<Excluded>,
}

impl ExcludeDocs {
    /// Moves to the first document that is not excluded, from the current one on.
    fn skip(&mut self) -> DocId {
        let mut doc = self.base.doc();
        while doc != TERMINATED && self.excluded.iter_mut().any(|excluded| excluded.contains(doc)) {
            doc = self.base.advance();
        }
        doc
    }
}

impl DocSet for ExcludeDocs {
    fn advance(&mut self) -> DocId {
        self.base.advance();
        self.skip()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.base.seek(target);
        self.skip()
    }

    fn doc(&self) -> DocId {
        self.base.doc()
    }

    fn size_hint(&self) -> u32 {
        self.base.size_hint()
    }

    fn cost(&self) -> u64 {
        self.base.cost()
    }
}

impl Scorer for ExcludeDocs {
    fn score(&mut self) -> Score {
        self.base.score()
    }
}

pub(crate) fn no_explanation() -> tantivy::Result<Explanation> {
    Err(TantivyError::InvalidArgument("explain is not implemented".to_owned()))
}

/// The documents of another weight, each with the same score.
pub(crate) struct ConstWeight {
    pub(crate) inner: Box<dyn Weight>,
    pub(crate) score: Score,
}

impl Weight for ConstWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let inner = self.inner.scorer(reader, 1.0)?;
        Ok(match inner.downcast::<ColumnDocs>() {
            Ok(docs) => Box::new(docs.with_score(self.score * boost)),
            Err(inner) => Box::new(ConstScorer::new(inner, self.score * boost)),
        })
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }

    fn count(&self, reader: &SegmentReader) -> tantivy::Result<u32> {
        self.inner.count(reader)
    }
}

/// Test on the values of a column.
#[derive(Clone)]
pub(crate) enum Test {
    /// A value in this range.
    Range(RangeInclusive<u64>),
    /// One of these values, sorted.
    Set(Arc<[u64]>),
    /// Any value.
    Any,
}

/// Finds the column and the test for a segment; `None`: nothing can match there.
pub(crate) type ColumnTest = dyn Fn(&SegmentReader) -> tantivy::Result<Option<(Column<u64>, Test)>> + Send + Sync;

/// Documents that pass a test on a column.
pub(crate) struct ColumnWeight {
    find: Box<ColumnTest>,
    /// The path of the field, if the column is one of numbers.
    numbers: Option<Box<str>>,
}

impl ColumnWeight {
    /// Creates the weight of a test on a column.
    pub(crate) fn new(find: Box<ColumnTest>) -> Self {
        Self { find, numbers: None }
    }

    /// Creates the weight of a test on the numbers of the field at `path`.
    pub(crate) fn of_numbers(path: &str, find: Box<ColumnTest>) -> Self {
        Self {
            find,
            numbers: Some(path.into()),
        }
    }
}

impl Weight for ColumnWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let Some((column, test)) = (self.find)(reader)? else {
            return Ok(Box::new(EmptyScorer));
        };
        let known = self.numbers.as_deref().map(|path| NumberStatistics::of(reader, path));
        if let (Some(known), Test::Range(range)) = (&known, &test)
            && known.has_none(range)
        {
            return Ok(Box::new(EmptyScorer));
        }
        let (min, max) = (column.values.min_value(), column.values.max_value());
        match &test {
            Test::Range(range) if *range.start() > max || *range.end() < min => return Ok(Box::new(EmptyScorer)),
            Test::Range(range) if *range.start() <= min && max <= *range.end() && is_full(&column) => {
                return Ok(all(reader, boost));
            }
            Test::Any if is_full(&column) => return Ok(all(reader, boost)),
            _ => {}
        }
        // A range that covers all values is the same as a test for any value.
        let test = match test {
            Test::Range(range) if *range.start() <= min && max <= *range.end() => Test::Any,
            other => other,
        };
        Ok(Box::new(
            ColumnDocs::new(column, test, reader.max_doc(), known).with_score(boost),
        ))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

fn all(reader: &SegmentReader, boost: Score) -> Box<dyn Scorer> {
    let scorer = AllScorer::new(reader.max_doc());
    if boost == 1.0 {
        Box::new(scorer)
    } else {
        Box::new(ConstScorer::new(scorer, boost))
    }
}

/// Documents that are tested at once when this weight leads: large enough to profit from the column's bulk test,
/// small enough to stay in the cache.
const WINDOW: u32 = 4096;

/// Documents that pass a test on a column. If it leads, it tests windows in bulk; in a conjunction, it reads single
/// values of single documents.
pub(crate) struct ColumnDocs {
    column: Column<u64>,
    test: Test,
    max_doc: DocId,
    /// Matching documents of the window, ascending, may repeat.
    window: Vec<DocId>,
    /// Next position in the window.
    next: usize,
    /// First document after the window.
    window_end: DocId,
    doc: DocId,
    score: Score,
    /// What is known of the values, if they are numbers.
    known: Option<NumberStatistics>,
}

impl ColumnDocs {
    fn new(column: Column<u64>, test: Test, max_doc: DocId, known: Option<NumberStatistics>) -> Self {
        let mut docs = Self {
            column,
            test,
            max_doc,
            score: 1.0,
            known,
            window: Vec::new(),
            next: 0,
            window_end: 0,
            doc: 0,
        };
        docs.forward();
        docs
    }

    fn with_score(self, score: Score) -> Self {
        Self { score, ..self }
    }

    /// Counts the documents of the whole segment, deleted ones included, if that takes at most one pass over a column whose result is cached.
    /// `go_on` is called regularly; if it returns false, there is no count.
    pub(crate) fn count(&mut self, go_on: &mut dyn FnMut() -> Result<bool>) -> Result<Option<u64>> {
        match (&mut self.known, &self.test) {
            (Some(known), Test::Range(range)) => known.count(&self.column, &mut std::iter::once(range.clone()), go_on),
            (Some(known), Test::Set(values)) => {
                let mut ranges = values.iter().map(|value| *value..=*value);
                known.count(&self.column, &mut ranges, go_on)
            }
            (None, _) | (_, Test::Any) => Ok(None),
        }
    }

    fn matches(&self, doc: DocId) -> bool {
        match &self.test {
            Test::Any => self.column.index.has_value(doc),
            Test::Range(range) => self.column.values_for_doc(doc).any(|value| range.contains(&value)),
            Test::Set(values) => self
                .column
                .values_for_doc(doc)
                .any(|value| values.binary_search(&value).is_ok()),
        }
    }

    fn fill(&mut self) {
        let start = self.window_end;
        let end = start.saturating_add(WINDOW).min(self.max_doc);
        self.window.clear();
        self.next = 0;
        self.window_end = end;
        if let Test::Range(range) = &self.test {
            if let Some(known) = &self.known
                && !known.may_have_any(start..end, range)
            {
                return;
            }
            self.column
                .get_docids_for_value_range(range.clone(), start..end, &mut self.window);
            return;
        }
        if let Test::Any = self.test {
            presence::extend_with_present(&self.column.index, start..end, &mut self.window);
            return;
        }
        for doc in start..end {
            if self.matches(doc) {
                self.window.push(doc);
            }
        }
    }

    /// Moves to the next match of the window, or of the first later window that has one.
    fn forward(&mut self) -> DocId {
        loop {
            if let Some(&doc) = self.window.get(self.next) {
                self.next += 1;
                self.doc = doc;
                return doc;
            }
            if self.window_end >= self.max_doc {
                self.doc = TERMINATED;
                return TERMINATED;
            }
            self.fill();
        }
    }
}

impl DocSet for ColumnDocs {
    fn advance(&mut self) -> DocId {
        let before = self.doc;
        if before == TERMINATED {
            return TERMINATED;
        }
        // A document with several matching values is in the window several times.
        while self.forward() <= before {}
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        if target >= self.max_doc {
            self.doc = TERMINATED;
            self.window.clear();
            self.window_end = self.max_doc;
            return TERMINATED;
        }
        if target >= self.window_end {
            self.window.clear();
            self.next = 0;
            self.window_end = target;
        }
        while self.forward() < target {}
        self.doc
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= self.max_doc {
            return SeekDangerResult::SeekLowerBound(TERMINATED);
        }
        if !self.matches(target) {
            return SeekDangerResult::SeekLowerBound(target + 1);
        }
        // Restores a valid state: on the target, continuing after it.
        if target + 1 > self.window_end || self.window.get(self.next).is_none_or(|&doc| doc <= target) {
            self.window.clear();
            self.next = 0;
            self.window_end = target + 1;
        }
        self.doc = target;
        SeekDangerResult::Found
    }

    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        let mut count = 0;
        while count < buffer.len() && self.doc != TERMINATED {
            buffer[count] = self.doc;
            count += 1;
            self.advance();
        }
        count
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.max_doc / 2
    }

    fn cost(&self) -> u64 {
        // More than any postings list, so that postings lead a conjunction.
        u64::from(self.max_doc) * 2
    }
}

impl Scorer for ColumnDocs {
    fn score(&mut self) -> Score {
        self.score
    }
}

/// Consumer of terms, one after the other.
pub(crate) type FoundTerm<'f> = dyn FnMut(&TermInfo) -> tantivy::Result<()> + 'f;

/// Finds the terms of a segment.
pub(crate) type TermFinder = dyn Fn(&SegmentReader, &mut FoundTerm<'_>) -> tantivy::Result<()> + Send + Sync;

/// Documents that have any of some terms of one field. Terms are read as they are found, so that a pattern with
/// millions of terms takes no more memory than a bit per document.
pub(crate) struct TermsWeight {
    pub(crate) field: Field,
    pub(crate) find: Box<TermFinder>,
}

impl Weight for TermsWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = reader.inverted_index(self.field)?;
        let mut first: Option<TermInfo> = None;
        let mut docs: Option<BitSet> = None;
        let read = |info: &TermInfo, docs: &mut BitSet| -> tantivy::Result<()> {
            let block = index
                .read_block_postings_from_terminfo(info, IndexRecordOption::Basic)
                .map(Some);
            let Some(mut block) = or_later(block, None)? else {
                return Ok(());
            };
            while !block.docs().is_empty() {
                for &doc in block.docs() {
                    docs.insert(doc);
                }
                block.advance();
            }
            Ok(())
        };
        (self.find)(reader, &mut |info| {
            if let Some(docs) = &mut docs {
                return read(info, docs);
            }
            match &first {
                None => first = Some(info.clone()),
                Some(first) => {
                    let mut both = BitSet::with_max_value(reader.max_doc());
                    read(first, &mut both)?;
                    read(info, &mut both)?;
                    docs = Some(both);
                }
            }
            Ok(())
        })?;
        match (docs, first) {
            (Some(docs), _) => Ok(Box::new(ConstScorer::new(BitSetDocSet::from(docs), boost))),
            (None, Some(info)) => {
                let postings = index.read_postings_from_terminfo(&info, IndexRecordOption::Basic)?;
                Ok(Box::new(ConstScorer::new(postings, boost)))
            }
            (None, None) => Ok(Box::new(EmptyScorer)),
        }
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}
