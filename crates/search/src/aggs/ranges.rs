//! `range`, `date_range`, `ip_range` aggregations: a bucket per listed range.
//!
//! For all field types, a range is a range of raw values of the segment's column: numbers by their order-preserving
//! form, addresses by their ordinals.

use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;

use firn_model::Result;
use firn_model::dates::DateFormat;
use firn_query::aggs::{IpBounds, ListedPartial, Partial, RangeSpec, Ranges, ValueFormat};
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, NumRange, Number, ValueBlock};
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema;
use serde_json::Value;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::source::{self, Source};
use crate::compile::field::Numeric;

/// Ranges, compiled.
pub(super) struct RangesPlan {
    source: Source,
    tests: Tests,
    /// The ranges that contain the value for documents without one.
    missing: Vec<u32>,
    bounds: Vec<(f64, f64)>,
    format: ValueFormat,
    count: usize,
}

enum Tests {
    Numbers(Vec<NumRange>),
    /// By stored strings.
    Addresses(Vec<(Bound<String>, Bound<String>)>),
}

impl RangesPlan {
    pub(super) fn numbers(compiler: &Compiler, part: &Ranges) -> Result<Self> {
        let source = Source::numbers(compiler, &part.field, "range")?;
        let numeric = source.numeric();
        if numeric.date_format().is_some() {
            return Self::dates(compiler, part);
        }
        let side = |value: &Value, is_lower| match value {
            Value::Null => Ok(None),
            value => numeric.parse_bound(value, is_lower, is_lower).map(Some),
        };
        let range = |spec: &RangeSpec| {
            Ok(NumRange {
                lower: side(&spec.from, true)?,
                upper: side(&spec.to, false)?,
            })
        };
        let tests: Vec<NumRange> = part.ranges.iter().map(range).collect::<Result<_>>()?;
        let missing = match &part.missing {
            Some(value) => {
                let number = source::missing_number(&numeric, value, compiler.now_ms)?;
                inside(&tests, stored(&numeric, number))
            }
            None => Vec::new(),
        };
        Ok(Self {
            format: source.value_format(part.format.as_deref())?,
            source,
            count: tests.len(),
            tests: Tests::Numbers(tests),
            missing,
            bounds: Vec::new(),
        })
    }

    pub(super) fn dates(compiler: &Compiler, part: &Ranges) -> Result<Self> {
        let source = Source::numbers(compiler, &part.field, "date_range")?;
        let numeric = source.numeric();
        if !matches!(source, Source::Nothing)
            && !matches!(numeric, Numeric::Date(_) | Numeric::DateNanos(_) | Numeric::Integer)
        {
            return Err(source::unsupported(compiler, &part.field, "date_range"));
        }
        let format: Arc<DateFormat> = match (&part.format, numeric.date_format()) {
            (Some(format), _) => DateFormat::new(format)?.into(),
            (None, Some(own)) => Arc::clone(own),
            (None, None) => DateFormat::default_millis().into(),
        };
        let bounds = part.date_bounds(&format, compiler.now_ms)?;
        let units = i128::from(numeric.units_per_ms());
        let side = |ms: f64, included| ms.is_finite().then(|| (Number::Int(ms as i128 * units), included));
        let range = |&(from, to): &(f64, f64)| NumRange {
            lower: side(from, true),
            upper: side(to, false),
        };
        let tests: Vec<NumRange> = bounds.iter().map(range).collect();
        let missing = match &part.missing {
            Some(value) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let ms = format.parse_math_ms(&text, compiler.now_ms, false, &part.zone()?);
                let ms = ms.or_else(|error| value.as_i64().ok_or(error))?;
                inside(&tests, Number::Int(i128::from(ms) * units))
            }
            None => Vec::new(),
        };
        Ok(Self {
            source,
            count: tests.len(),
            tests: Tests::Numbers(tests),
            missing,
            bounds,
            format: ValueFormat::Date(format),
        })
    }

    pub(super) fn addresses(compiler: &Compiler, part: &Ranges) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        let source = match source {
            Source::Strings { is_ip: true, .. } => source,
            _ if source::is_unmapped(compiler, &part.field) => Source::Nothing,
            _ => return Err(source::unsupported(compiler, &part.field, "ip_range")),
        };
        let text = |bits: u128| schema::encode_ip(firn_query::aggs::address_of(bits));
        let range = |(from, to): IpBounds| {
            (
                from.map_or(Bound::Unbounded, |bits| Bound::Included(text(bits))),
                to.map_or(Bound::Unbounded, |bits| Bound::Excluded(text(bits))),
            )
        };
        let tests: Vec<_> = part.ip_bounds()?.into_iter().map(range).collect();
        let mut missing = Vec::new();
        if let Some(value) = &part.missing {
            let address = source::stored_string(true, value)?;
            let holds = |range: &(Bound<String>, Bound<String>)| range.contains(&address);
            missing.extend(
                (0u32..)
                    .zip(&tests)
                    .filter(|(_, range)| holds(range))
                    .map(|(number, _)| number),
            );
        }
        Ok(Self {
            source,
            count: tests.len(),
            tests: Tests::Addresses(tests),
            missing,
            bounds: Vec::new(),
            format: ValueFormat::Raw,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let mut column = None;
        let mut raws = Vec::new();
        match (&self.source, &self.tests) {
            (Source::Strings { class, path, .. }, Tests::Addresses(tests)) => {
                if let Some(strings) = column::open_strings(reader, *class, path)? {
                    raws = tests
                        .iter()
                        .map(|(from, to)| ordinals(&strings, from, to))
                        .collect::<Result<_>>()?;
                    column = Some(strings.ords().clone());
                }
            }
            (source, Tests::Numbers(tests)) => {
                let numbers = match source {
                    Source::Numbers { path, .. } => NumColumn::open(reader, path)?,
                    Source::MetaNumbers(name) => NumColumn::open_named(reader, name)?,
                    _ => None,
                };
                if let Some(numbers) = numbers {
                    raws = tests.iter().map(|range| numbers.raw_range(range)).collect();
                    column = Some(numbers.column);
                }
            }
            _ => {}
        }
        Ok(Box::new(RangesCollector {
            column,
            raws,
            missing: self.missing.clone(),
            bounds: self.bounds.clone(),
            format: self.format.clone(),
            count: self.count,
            buckets: Buckets::new(Some(self.count as u64), sub, scope.memory),
            values: ValueBlock::default(),
        }))
    }
}

/// Returns a number, in the units that aggregations compute with, in stored units.
fn stored(numeric: &Numeric, number: Number) -> Number {
    match numeric {
        Numeric::Scaled(factor) => Number::Float((number.as_f64() * factor).round()),
        _ => number,
    }
}

/// Returns the ranges that contain a number.
fn inside(tests: &[NumRange], number: Number) -> Vec<u32> {
    let holds = |range: &NumRange| {
        let above = |(bound, included): (Number, bool)| {
            let order = number.compare(bound);
            order.is_gt() || included && order.is_eq()
        };
        let below = |(bound, included): (Number, bool)| {
            let order = number.compare(bound);
            order.is_lt() || included && order.is_eq()
        };
        range.lower.is_none_or(above) && range.upper.is_none_or(below)
    };
    (0u32..)
        .zip(tests)
        .filter(|(_, range)| holds(range))
        .map(|(number, _)| number)
        .collect()
}

/// Returns the ordinals of the strings between two bounds; `None`: there are none.
fn ordinals(strings: &StrColumn, from: &Bound<String>, to: &Bound<String>) -> Result<Option<RangeInclusive<u64>>> {
    let bytes = |bound: &Bound<String>| -> Bound<Vec<u8>> { bound.as_ref().map(|text| text.as_bytes().to_vec()) };
    let (from, to) = (bytes(from), bytes(to));
    let (first, last) = strings
        .dictionary()
        .term_bounds_to_ord(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))?;
    let first = match first {
        Bound::Unbounded => Some(0),
        Bound::Included(ordinal) => Some(ordinal),
        Bound::Excluded(ordinal) => ordinal.checked_add(1),
    };
    let last = match last {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(ordinal) => Some(ordinal),
        Bound::Excluded(ordinal) => ordinal.checked_sub(1),
    };
    Ok(match (first, last) {
        (Some(first), Some(last)) if first <= last => Some(first..=last),
        _ => None,
    })
}

struct RangesCollector {
    column: Option<Column<u64>>,
    /// By range, the raw values in it; `None`: no value is in it.
    raws: Vec<Option<RangeInclusive<u64>>>,
    missing: Vec<u32>,
    bounds: Vec<(f64, f64)>,
    format: ValueFormat,
    count: usize,
    buckets: Buckets,
    values: ValueBlock,
}

impl Collector for RangesCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let mut next = 0;
        if let Some(column) = &self.column {
            self.values.read(column, docs);
        }
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            let start = next;
            while self.column.is_some() && self.values.positions.get(next) == Some(&(position as u32)) {
                next += 1;
            }
            if start == next {
                for &range in &self.missing {
                    self.buckets.push(doc, parent, range.into());
                }
                continue;
            }
            // A document counts once per range, even with several values in it.
            let own = &self.values.raws[start..next];
            for (range, raws) in self.raws.iter().enumerate() {
                if raws
                    .as_ref()
                    .is_some_and(|raws| own.iter().any(|raw| raws.contains(raw)))
                {
                    self.buckets.push(doc, parent, range as u64);
                }
            }
        }
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let partial = ListedPartial {
            buckets: Vec::new(),
            bounds: self.bounds,
            format: self.format,
        };
        listed(self.buckets, &partial, self.count, bucket_count)
    }
}

/// Returns one result per parent, with `count` buckets each.
pub(super) fn listed(
    buckets: Buckets,
    empty: &ListedPartial,
    count: usize,
    bucket_count: usize,
) -> Result<Vec<Partial>> {
    let mut partials = vec![empty.clone(); bucket_count];
    for partial in &mut partials {
        partial.buckets.resize_with(count, Default::default);
    }
    for (entry, bucket) in buckets.finish()? {
        let place = partials
            .get_mut(entry.parent as usize)
            .and_then(|partial| partial.buckets.get_mut(entry.key as usize));
        if let Some(place) = place {
            *place = bucket;
        }
    }
    Ok(partials.into_iter().map(Partial::Listed).collect())
}
