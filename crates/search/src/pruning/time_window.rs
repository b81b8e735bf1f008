//! Extraction of the `@timestamp` condition, which nearly every request has, from its query.
//!
//! Inside the query it would be tested document by document. As a window over a segment with zones
//! ([`firn_segment::segment_memo::Zones`]), it mostly becomes a few runs of documents that need no test; the rest of the query
//! is evaluated only for those runs.

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

use firn_model::Result;
use firn_model::metadata::TIMESTAMP;
use firn_query::query::Query;
use firn_segment::columns::column::{NumColumn, NumRange, Number, is_full, read_values};
use firn_segment::distinct::StoredZones;
use firn_segment::segment::Segment;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::conditions::take_out;
use crate::compile::Compiler;
use crate::compile::field::Target;
use crate::compile::query::range;
use crate::tenancy::tenant_rows::count_alive;

/// A time range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// The range in stored units.
    pub(crate) range: NumRange,
    /// Stored units per ms.
    units_per_ms: i128,
}

impl Window {
    /// Returns whether the window contains all times between these ms, inclusive.
    pub(crate) fn covers(&self, (first_ms, last_ms): (i64, i64)) -> bool {
        let first = Number::Int(i128::from(first_ms) * self.units_per_ms);
        let last = Number::Int((i128::from(last_ms) + 1) * self.units_per_ms - 1);
        let above = |(bound, included): (Number, bool)| match first.compare(bound) {
            Ordering::Equal => included,
            order => order.is_gt(),
        };
        let below = |(bound, included): (Number, bool)| match last.compare(bound) {
            Ordering::Equal => included,
            order => order.is_lt(),
        };
        self.range.lower.is_none_or(above) && self.range.upper.is_none_or(below)
    }

    /// Returns whether each document of a segment is known to have a time within the window.
    pub(crate) fn covers_all_of(&self, segment: &Segment) -> bool {
        segment.without_time_count == 0 && segment.time_range_ms.is_some_and(|range| self.covers(range))
    }
}

/// Extracts the conditions; `None`: there are none, or they also score.
pub(crate) fn split(compiler: &Compiler, query: &Query, scoring: bool) -> Option<(Query, Window)> {
    let mut window: Option<Window> = None;
    let rest = take_out(query, scoring, &mut |query| match window_of(compiler, query) {
        // A second range stays in the query: a document with several times may meet each of them with another time.
        Some(own) if window.is_none() => {
            window = Some(own);
            true
        }
        _ => false,
    })?;
    Some((rest, window?))
}

/// Returns the window of a range over `@timestamp`.
fn window_of(compiler: &Compiler, query: &Query) -> Option<Window> {
    let Query::Range(part) = query else {
        return None;
    };
    let Target::Field(field) = compiler.resolve(&part.field) else {
        return None;
    };
    let numeric = field.numeric().filter(|_| field.path == TIMESTAMP)?;
    let format = numeric.date_format()?;
    // An unreadable range fails when the whole query is compiled.
    let (lower, upper) = range::date_bounds(compiler.now_ms, format, part).ok()?;
    (lower.is_some() || upper.is_some()).then(|| Window {
        range: range::date_range(&numeric, lower, upper),
        units_per_ms: numeric.units_per_ms().into(),
    })
}

/// A window on one segment.
pub(crate) enum SegmentWindow {
    /// It contains all documents.
    All,
    /// It contains no document.
    Nothing,
    /// It contains the documents of these runs.
    Runs(Runs),
}

/// Ascending runs of documents that may be in a window.
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// The current run.
    current: usize,
    /// The test for documents of partial runs.
    test: Option<(Column<u64>, RangeInclusive<u64>)>,
    /// The inclusive bounds of their times, as the column stores them; `None`: any.
    instants: Option<(u64, u64)>,
    values: Vec<u64>,
}

/// Documents `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: DocId,
    pub(crate) end: DocId,
    /// Some documents may be outside of the window.
    pub(crate) is_partial: bool,
}

impl SegmentWindow {
    /// Opens a window on a segment.
    pub(crate) fn open(window: &NumRange, segment: &Segment) -> Result<Self> {
        let Some(column) = NumColumn::open(&segment.reader, TIMESTAMP)? else {
            return Ok(Self::Nothing);
        };
        let Some(range) = column.raw_range(window) else {
            return Ok(Self::Nothing);
        };
        let column = column.column;
        let (min, max) = (column.values.min_value(), column.values.max_value());
        if *range.start() > max || *range.end() < min {
            return Ok(Self::Nothing);
        }
        if range.contains(&min) && range.contains(&max) && is_full(&column) {
            return Ok(Self::All);
        }
        let mut runs: Vec<Run> = Vec::new();
        match segment.derived.time_zones(&column) {
            Some(zones) => {
                for (docs, (min, max)) in zones.iter() {
                    if *range.start() > max || *range.end() < min {
                        continue;
                    }
                    let is_partial = !(range.contains(&min) && range.contains(&max));
                    match runs.last_mut() {
                        Some(run) if run.end == docs.start && run.is_partial == is_partial => run.end = docs.end,
                        _ => runs.push(Run {
                            start: docs.start,
                            end: docs.end,
                            is_partial,
                        }),
                    }
                }
            }
            None => runs.push(Run {
                start: 0,
                end: segment.max_doc,
                is_partial: true,
            }),
        }
        let instants = (*range.start().max(&min), *range.end().min(&max));
        Ok(Self::Runs(Runs {
            runs,
            current: 0,
            instants: Some(instants),
            test: Some((column, range)),
            values: Vec::new(),
        }))
    }
}

impl Runs {
    /// Creates one run of all given documents.
    pub(crate) fn of(docs: Range<DocId>) -> Self {
        Self {
            runs: vec![Run {
                start: docs.start,
                end: docs.end,
                is_partial: false,
            }],
            current: 0,
            instants: None,
            test: None,
            values: Vec::new(),
        }
    }

    /// Returns the inclusive bounds of the times, as the column stores them; `None`: any.
    pub(crate) fn instants(&self) -> Option<(u64, u64)> {
        self.instants
    }

    /// Returns the documents of the remaining runs.
    pub(crate) fn docs(&self) -> impl Iterator<Item = Range<DocId>> + '_ {
        let left = &self.runs[self.current.min(self.runs.len())..];
        left.iter().map(|run| run.start..run.end)
    }

    /// Returns the documents of the remaining runs that may contain documents outside of the window.
    pub(crate) fn tested(&self) -> impl Iterator<Item = Range<DocId>> + '_ {
        let left = &self.runs[self.current.min(self.runs.len())..];
        left.iter().filter(|run| run.is_partial).map(|run| run.start..run.end)
    }

    /// Returns the documents of the remaining runs that are completely in the window.
    pub(crate) fn certain(&self) -> impl Iterator<Item = Range<DocId>> + '_ {
        let left = &self.runs[self.current.min(self.runs.len())..];
        left.iter().filter(|run| !run.is_partial).map(|run| run.start..run.end)
    }

    /// Returns the number of remaining rows.
    pub(crate) fn row_count(&self) -> u64 {
        let left = &self.runs[self.current.min(self.runs.len())..];
        left.iter().map(|run| u64::from(run.end - run.start)).sum()
    }

    /// Removes documents outside of `docs`.
    pub(crate) fn clip(&mut self, docs: &Range<DocId>) {
        for run in &mut self.runs {
            run.start = run.start.max(docs.start);
            run.end = run.end.min(docs.end);
        }
        self.runs.retain(|run| run.start < run.end);
    }

    /// Removes the zones that are completely in a certain run, and returns the documents of each.
    pub(crate) fn take_zones(&mut self, zones: StoredZones) -> Vec<Range<DocId>> {
        let mut taken = Vec::new();
        let mut rest = Vec::with_capacity(self.runs.len());
        for run in self.runs.drain(self.current.min(self.runs.len())..) {
            let first = run.start.next_multiple_of(zones.docs);
            let last = match run.end >= zones.end {
                true => zones.end,
                false => run.end / zones.docs * zones.docs,
            };
            if run.is_partial || first >= last {
                rest.push(run);
                continue;
            }
            let starts = (first..last).step_by(zones.docs as usize);
            taken.extend(starts.map(|start| start..last.min(start.saturating_add(zones.docs))));
            let before = Run { end: first, ..run };
            let after = Run { start: last, ..run };
            rest.extend([before, after].into_iter().filter(|run| run.start < run.end));
        }
        self.runs = rest;
        self.current = 0;
        taken
    }

    /// Returns the current run; `None`: there are no more runs.
    pub(crate) fn current(&self) -> Option<Run> {
        self.runs.get(self.current).copied()
    }

    /// Advances to `doc`, within the run or in a later one.
    pub(crate) fn advance_to(&mut self, doc: DocId) {
        while let Some(run) = self.runs.get_mut(self.current) {
            if doc < run.end {
                run.start = run.start.max(doc);
                return;
            }
            self.current += 1;
        }
    }

    /// Returns the number of remaining alive documents, if none of them needs a test.
    pub(crate) fn count(&self, segment: &Segment) -> Option<u64> {
        self.runs[self.current.min(self.runs.len())..]
            .iter()
            .map(|run| (!run.is_partial).then(|| count_alive(segment, run.start..run.end)))
            .sum()
    }

    /// Removes those of `docs` from a position on that are not in the window.
    pub(crate) fn keep_inside(&mut self, docs: &mut Vec<DocId>, from: usize) {
        let Some((column, range)) = &self.test else {
            return;
        };
        let mut retained = from;
        if is_full(column) {
            self.values.resize(docs.len() - from, 0);
            read_values(column, &docs[from..], &mut self.values);
            for position in 0..self.values.len() {
                docs[retained] = docs[from + position];
                retained += usize::from(range.contains(&self.values[position]));
            }
        } else {
            for position in from..docs.len() {
                let doc = docs[position];
                docs[retained] = doc;
                retained += usize::from(self.contains(doc));
            }
        }
        docs.truncate(retained);
    }

    /// Returns whether a document of a partial run is in the window.
    pub(crate) fn contains(&self, doc: DocId) -> bool {
        match &self.test {
            Some((column, range)) => column.values_for_doc(doc).any(|value| range.contains(&value)),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: DocId, end: DocId, is_partial: bool) -> Run {
        Run { start, end, is_partial }
    }

    /// Returns the zones that were taken and the remaining runs.
    fn taken(runs: &[Run], zones: StoredZones) -> (Vec<Range<DocId>>, Vec<Run>) {
        let mut all = Runs::of(0..0);
        all.runs = runs.to_vec();
        let taken = all.take_zones(zones);
        (taken, all.runs)
    }

    #[test]
    fn zones_are_taken_out_of_certain_runs() {
        let zones = StoredZones { docs: 10, end: 37 };
        let check = |runs: &[Run], zones_taken: &[Range<DocId>], rest: &[Run]| {
            assert_eq!(taken(runs, zones), (zones_taken.to_vec(), rest.to_vec()), "{runs:?}");
        };
        check(&[run(0, 40, true)], &[], &[run(0, 40, true)]);
        check(&[run(1, 19, false)], &[], &[run(1, 19, false)]);
        check(&[run(0, 37, false)], &[0..10, 10..20, 20..30, 30..37], &[]);
        check(
            &[run(5, 10, true), run(10, 36, false)],
            &[10..20, 20..30],
            &[run(5, 10, true), run(30, 36, false)],
        );
        check(
            &[run(5, 40, false)],
            &[10..20, 20..30, 30..37],
            &[run(5, 10, false), run(37, 40, false)],
        );
        check(&[run(38, 40, false)], &[], &[run(38, 40, false)]);
        let none = StoredZones { docs: 10, end: 0 };
        assert_eq!(taken(&[run(0, 4, false)], none), (Vec::new(), vec![run(0, 4, false)]));
    }
}
