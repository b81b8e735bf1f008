//! `date_histogram` aggregation: a bucket per interval.
//!
//! If the segment's zone map of times shows that a block of documents is within one interval, its timestamps are not
//! read.

use std::sync::Arc;

use firn_model::Result;
use firn_model::dates::Rounding;
use firn_model::metadata::TIMESTAMP;
use firn_query::aggs::{Bucket, DateHistogram, DateHistogramPartial, Partial, Partials, ValueFormat};
use firn_segment::columns::column::{NumColumn, Number, ValueBlock};
use firn_segment::segment::Segment;
use firn_segment::zones::Zones;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::collector::{Collector, Level, Scope};
use super::ordered_rows::OrderedRows;
use super::source::{self, Source, unsupported};
use super::table::Table;
use crate::compile::field::Numeric;
use crate::run::memory::Memory;

/// Up to this number of intervals between the first and the last date of a segment, all intervals are listed up
/// front.
const STARTS_MAX: usize = 1 << 16;
const HOUR_MS: i64 = 3_600_000;
/// Approximate bytes of a bucket in a result.
const BUCKET_BYTES: usize = 100;

/// `date_histogram`, compiled.
pub(super) struct HistogramPlan {
    source: Source,
    format: ValueFormat,
    rounding: Rounding,
    /// First and last start of a bucket, the last one exclusive.
    hard_bounds: (Option<i64>, Option<i64>),
    missing_ms: Option<i64>,
}

impl HistogramPlan {
    pub(super) fn compile(compiler: &Compiler, part: &DateHistogram) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        let numeric = match &source {
            Source::Numbers { numeric, .. } => numeric.clone(),
            Source::Nothing => Numeric::Integer,
            // Unmapped fields resolve to keywords that no segment has.
            Source::Strings { .. } if compiler.mapping.resolve(&part.field).is_none() => Numeric::Integer,
            _ => return Err(unsupported(compiler, &part.field, "date_histogram")),
        };
        let is_date = numeric.date_format().is_some();
        if matches!(&source, Source::Numbers { .. }) && !is_date && !matches!(numeric, Numeric::Integer) {
            return Err(unsupported(compiler, &part.field, "date_histogram"));
        }
        let missing_ms = match &part.missing {
            None => None,
            Some(value) => match source::missing_number(&numeric, value, compiler.now_ms)? {
                Number::Int(ms) => Some(i64::try_from(ms).unwrap_or(i64::MAX)),
                Number::Float(ms) => Some(ms as i64),
            },
        };
        let format = match &source {
            Source::Strings { .. } => ValueFormat::Raw,
            source => source.value_format(part.format.as_deref())?,
        };
        let hard_bounds = match &format {
            ValueFormat::Date(format) => part.hard_bounds_ms(format, Some(compiler.now_ms))?,
            _ => (None, None),
        };
        Ok(Self {
            format,
            rounding: part.rounding()?,
            hard_bounds,
            missing_ms,
            source,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let (column, starts) = self.read(scope.segment)?;
        let units_per_ms = self.source.numeric().units_per_ms();
        Ok(Box::new(HistogramCollector {
            table: Table::new(starts.width(), !sub.is_empty(), scope.memory),
            multivalued: column
                .as_ref()
                .is_some_and(|column| column.column.get_cardinality().is_multivalue()),
            known: match (&self.source, &column) {
                (Source::Numbers { path, .. }, Some(column))
                    if path == TIMESTAMP && self.hard_bounds == (None, None) =>
                {
                    SegmentFacts::of(scope, &column.column)
                }
                _ => SegmentFacts::Nothing,
            },
            column,
            units_per_ms,
            starts,
            missing_ms: self.missing_ms,
            hard_bounds: self.hard_bounds,
            format: self.format.clone(),
            sub,
            values: ValueBlock::default(),
            parents: Vec::new(),
            keys: Vec::new(),
            docs: Vec::new(),
            slots: Vec::new(),
        }))
    }
}

impl HistogramPlan {
    /// Opens the column of a segment, and lists its intervals. If all of them start at full hours, timestamps
    /// rounded to the hour are enough.
    fn read(&self, segment: &Segment) -> Result<(Option<NumColumn>, Starts)> {
        let Source::Numbers { path, .. } = &self.source else {
            return Ok((None, Starts::new(&self.rounding, None, 1, self.missing_ms)));
        };
        let units_per_ms = self.source.numeric().units_per_ms();
        let column = NumColumn::look_at(&segment.reader, path)?;
        let starts = Starts::new(&self.rounding, column.as_ref(), units_per_ms, self.missing_ms);
        if path == TIMESTAMP && starts.are_hours() && column.as_ref().is_some_and(NumColumn::is_i64) {
            let unit = HOUR_MS * units_per_ms;
            if let Some(hours) = NumColumn::open_hours(segment, unit as u64)? {
                return Ok((Some(hours), starts));
            }
        }
        Ok((NumColumn::open(&segment.reader, path)?, starts))
    }

    /// Opens the column only to record its reads, in a dry-run prefetch.
    pub(super) fn try_reading(&self, segment: &Segment) -> Result<()> {
        self.read(segment).map(drop)
    }

    /// Counts rows that are ordered by time; `None`: their order does not give the result.
    pub(super) fn count_rows(&self, rows: &OrderedRows, memory: &Memory) -> Result<Option<Partial>> {
        let by_time = matches!(&self.source, Source::Numbers { path, .. } if path == TIMESTAMP);
        if !by_time || self.missing_ms.is_some() || self.hard_bounds != (None, None) {
            return Ok(None);
        }
        let units_per_ms = self.source.numeric().units_per_ms();
        let ms = |stored| source::stored_to_ms(stored, units_per_ms);
        let mut partial = DateHistogramPartial {
            format: self.format.clone(),
            ..DateHistogramPartial::default()
        };
        let mut watch = memory.watch();
        let mut row = rows.rows.start;
        while row < rows.rows.end {
            watch.tick()?;
            let start = self.rounding.round_down(ms(rows.stored(row)));
            let end = rows.first_before(row, |stored| ms(stored) < start);
            let doc_count = rows.count(row..end);
            if doc_count > 0 {
                memory.take(BUCKET_BYTES)?;
                let sub = Partials::default();
                partial.buckets.insert(start, Bucket { doc_count, sub });
            }
            row = end;
        }
        Ok(Some(Partial::DateHistogram(partial)))
    }
}

/// The intervals of a segment. A bucket's key is the number of its interval.
enum Starts {
    /// Intervals of equal width, from `first` on.
    Even { first: i64, width: i64, count: usize },
    /// The start of each interval, and the end of the last one.
    Listed(Vec<i64>),
    /// Too many to list; a bucket's key is its start, shifted to be unsigned.
    Free(Rounding),
}

const SIGN: u64 = 1 << 63;

impl Starts {
    fn new(rounding: &Rounding, column: Option<&NumColumn>, units_per_ms: i64, missing_ms: Option<i64>) -> Self {
        let range = column.map(|column| {
            let values = &column.column.values;
            let ms = |raw| source::stored_to_ms(column.as_i64(raw), units_per_ms);
            (ms(values.min_value()), ms(values.max_value()))
        });
        let range = match (range, missing_ms) {
            (Some((min, max)), Some(missing)) => Some((min.min(missing), max.max(missing))),
            (None, Some(missing)) => Some((missing, missing)),
            (range, None) => range,
        };
        let Some((min, max)) = range else {
            return Self::Listed(Vec::new());
        };
        let mut starts = vec![rounding.round_down(min)];
        while let Some(&start) = starts.last() {
            if start > max {
                break;
            }
            let next = rounding.next(start);
            if next <= start || starts.len() > STARTS_MAX {
                return Self::Free(rounding.clone());
            }
            starts.push(next);
        }
        let width = starts[1..].first().map_or(1, |second| second - starts[0]);
        let even = starts.windows(2).all(|pair| pair[1] - pair[0] == width);
        if even {
            return Self::Even {
                first: starts[0],
                width,
                count: starts.len().saturating_sub(1),
            };
        }
        Self::Listed(starts)
    }

    /// Returns whether every interval starts at a full hour.
    fn are_hours(&self) -> bool {
        let is_hour = |ms: &i64| ms.rem_euclid(HOUR_MS) == 0;
        match self {
            Self::Even { first, width, .. } => is_hour(first) && is_hour(width),
            Self::Listed(starts) => starts.iter().all(is_hour),
            Self::Free(_) => false,
        }
    }

    fn width(&self) -> Option<u64> {
        match self {
            Self::Even { count, .. } => Some(*count as u64),
            Self::Listed(starts) => Some(starts.len().saturating_sub(1) as u64),
            Self::Free(_) => None,
        }
    }

    /// Returns the key of a timestamp. `known` is the interval of the previous timestamp (start, end, key): events
    /// are mostly in time order, so it is mostly the same.
    #[inline]
    fn key(&self, ms: i64, known: &mut (i64, i64, u64)) -> u64 {
        if known.0 <= ms && ms < known.1 {
            return known.2;
        }
        *known = match self {
            Self::Even { first, width, .. } => {
                let key = ms.saturating_sub(*first).max(0) / width;
                (first + key * width, first + (key + 1) * width, key as u64)
            }
            Self::Listed(starts) => {
                let after = starts
                    .partition_point(|start| *start <= ms)
                    .clamp(1, starts.len().max(2) - 1);
                (starts[after - 1], starts[after], after as u64 - 1)
            }
            Self::Free(rounding) => {
                let start = rounding.round_down(ms);
                (start, rounding.next(start), start as u64 ^ SIGN)
            }
        };
        known.2
    }

    fn start(&self, key: u64) -> i64 {
        match self {
            Self::Even { first, width, .. } => first + key as i64 * width,
            Self::Listed(starts) => starts.get(key as usize).copied().unwrap_or_default(),
            Self::Free(_) => (key ^ SIGN) as i64,
        }
    }
}

/// The source of the time bounds of a block of documents, without reading all of its timestamps.
enum SegmentFacts {
    Nothing,
    /// Documents are ordered by time: the first and the last one give the bounds.
    Order,
    Zones(Arc<Zones>),
}

impl SegmentFacts {
    fn of(scope: Scope, column: &Column<u64>) -> Self {
        if scope.manner.newest_first && !column.get_cardinality().is_multivalue() {
            return Self::Order;
        }
        scope
            .segment
            .derived
            .time_zones(column)
            .map_or(Self::Nothing, Self::Zones)
    }

    fn bounds(&self, column: &Column<u64>, first: DocId, last: DocId) -> Option<(u64, u64)> {
        match self {
            Self::Nothing => None,
            Self::Order => Some((column.first(last)?, column.first(first)?)),
            Self::Zones(zones) => Some(zones.bounds(first, last)),
        }
    }
}

struct HistogramCollector {
    column: Option<NumColumn>,
    units_per_ms: i64,
    starts: Starts,
    missing_ms: Option<i64>,
    hard_bounds: (Option<i64>, Option<i64>),
    multivalued: bool,
    known: SegmentFacts,
    table: Table,
    format: ValueFormat,
    sub: Level,
    values: ValueBlock,
    parents: Vec<u32>,
    keys: Vec<u64>,
    docs: Vec<DocId>,
    slots: Vec<u32>,
}

impl HistogramCollector {
    /// Returns the interval that is known to contain all documents of a block.
    fn same_interval(&self, docs: &[DocId]) -> Option<u64> {
        let column = self.column.as_ref()?;
        let (min, max) = self.known.bounds(&column.column, *docs.first()?, *docs.last()?)?;
        let key = |raw| {
            let ms = source::stored_to_ms(column.as_i64(raw), self.units_per_ms);
            self.starts.key(ms, &mut UNKNOWN.clone())
        };
        let (first, last) = (key(min), key(max));
        (first == last).then_some(first)
    }
}

/// No interval yet.
const UNKNOWN: (i64, i64, u64) = (0, 0, 0);

impl Collector for HistogramCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        if let Some(key) = self.same_interval(docs) {
            self.table.add_same(buckets, key, &mut self.slots)?;
            return match self.sub.is_empty() {
                true => Ok(()),
                false => self.sub.collect(docs, &self.slots),
            };
        }
        self.keys.clear();
        let mut known = UNKNOWN;
        if let Some(column) = &self.column {
            self.values.read(&column.column, docs);
            let bounded = self.hard_bounds != (None, None);
            if self.values.raws.len() == docs.len() && !self.multivalued && !bounded {
                for &raw in &self.values.raws {
                    let ms = source::stored_to_ms(column.as_i64(raw), self.units_per_ms);
                    self.keys.push(self.starts.key(ms, &mut known));
                }
                self.table.add(buckets, &self.keys, &mut self.slots)?;
                return match self.sub.is_empty() {
                    true => Ok(()),
                    false => self.sub.collect(docs, &self.slots),
                };
            }
        }
        self.parents.clear();
        self.docs.clear();
        let mut next = 0;
        let mut own = Vec::new();
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            own.clear();
            if let Some(column) = &self.column {
                while self.values.positions.get(next) == Some(&(position as u32)) {
                    let ms = source::stored_to_ms(column.as_i64(self.values.raws[next]), self.units_per_ms);
                    own.push(self.starts.key(ms, &mut known));
                    next += 1;
                }
            }
            if own.is_empty() {
                own.extend(self.missing_ms.map(|ms| self.starts.key(ms, &mut known)));
            }
            // A document counts once per bucket, even with several dates in it.
            own.sort_unstable();
            own.dedup();
            for &key in &own {
                let start = self.starts.start(key);
                let inside = self.hard_bounds.0.is_none_or(|min| start >= min)
                    && self.hard_bounds.1.is_none_or(|max| start < max);
                if inside {
                    self.docs.push(doc);
                    self.parents.push(parent);
                    self.keys.push(key);
                }
            }
        }
        self.table.add(&self.parents, &self.keys, &mut self.slots)?;
        match self.sub.is_empty() {
            true => Ok(()),
            false => self.sub.collect(&self.docs, &self.slots),
        }
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let sub = std::mem::replace(&mut self.sub, Level::none());
        let mut below = match sub.is_empty() {
            true => Vec::new(),
            false => sub.finish(self.table.slot_count())?,
        };
        let entries = self.table.entries();
        self.table.memory().take(entries.len() * BUCKET_BYTES)?;
        let mut partials: Vec<DateHistogramPartial> = (0..bucket_count)
            .map(|_| DateHistogramPartial {
                format: self.format.clone(),
                ..DateHistogramPartial::default()
            })
            .collect();
        let mut watch = self.table.memory().watch();
        for (slot, entry) in entries.into_iter().enumerate() {
            watch.tick()?;
            if let Some(partial) = partials.get_mut(entry.parent as usize) {
                partial.buckets.insert(
                    self.starts.start(entry.key),
                    Bucket {
                        doc_count: entry.count,
                        sub: below.get_mut(slot).map(std::mem::take).unwrap_or_default(),
                    },
                );
            }
        }
        Ok(partials.into_iter().map(Partial::DateHistogram).collect())
    }
}
