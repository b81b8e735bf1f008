//! `min`, `max`, `sum`, `avg`, `stats`, `value_count` aggregations: one number of a field's values.

use firn_model::metadata::TIMESTAMP;
use firn_model::{Error, Result};
use firn_query::aggs::{Metric, MetricPartial, Partial, ValueFormat};
use firn_segment::columns::column::{NumColumn, ValueBlock};
use firn_segment::columns::{column, paths};
use firn_segment::segment::Segment;
use firn_segment::splits::{ColumnTotals, Measure, StoredRuns};
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope, paced};
use super::ordered_rows::OrderedRows;
use super::source::{self, Source};
use crate::compile::field::{Numeric, Target};
use crate::run::memory::Memory;

/// A metric, compiled.
pub(super) struct MetricPlan {
    source: Source,
    format: ValueFormat,
    missing: Option<f64>,
    /// Only the number of values matters; the values may be strings.
    counts_only: bool,
    /// Only the smallest or the largest value matters.
    extremes_only: bool,
}

impl MetricPlan {
    /// Compiles a metric; `name` is the aggregation's, for messages.
    pub(super) fn compile(compiler: &Compiler, part: &Metric, name: &str, counts_only: bool) -> Result<Self> {
        let mut source = Source::compile(compiler, &part.field)?;
        let unmapped = match compiler.resolve(&part.field) {
            Target::Field(field) => field.mapping.is_none(),
            _ => false,
        };
        if !counts_only {
            match &source {
                Source::Strings { .. } | Source::Constant(_) if unmapped => source = Source::Nothing,
                Source::Strings { .. } | Source::Constant(_) => {
                    let kind = match compiler.resolve(&part.field) {
                        Target::Field(field) => field.type_name(),
                        _ => "keyword",
                    };
                    return Err(Error::illegal_argument(format!(
                        "Field [{}] of type [{kind}] is not supported for aggregation [{name}]",
                        part.field
                    )));
                }
                _ => {}
            }
        }
        let missing = match &part.missing {
            None => None,
            Some(_) if counts_only => Some(1.0),
            Some(value) => Some(source::missing_number(&source.numeric(), value, compiler.now_ms)?.as_f64()),
        };
        let format = match (&source, counts_only) {
            (_, true) => ValueFormat::Raw,
            (source, false) => source.value_format(part.format.as_deref())?,
        };
        Ok(Self {
            source,
            format,
            missing,
            counts_only,
            extremes_only: matches!(name, "min" | "max"),
        })
    }

    /// Computes the metric over rows that are ordered by time; `None`: their order does not give the result.
    pub(super) fn count_rows(&self, rows: &OrderedRows) -> Option<Partial> {
        let by_time = matches!(&self.source, Source::Numbers { path, .. } if path == TIMESTAMP);
        if !by_time || self.missing.is_some() || !(self.counts_only || self.extremes_only) {
            return None;
        }
        let mut partial = MetricPartial::new(self.format.clone());
        if self.counts_only {
            partial.count = rows.count(rows.rows.clone());
            return Some(Partial::Metric(partial));
        }
        if rows.has_deleted() {
            return None;
        }
        if let Some(last) = rows.rows.clone().next_back() {
            let numeric = self.source.numeric();
            partial.add(numeric.value(rows.as_f64(last)));
            partial.add(numeric.value(rows.as_f64(rows.rows.start)));
        }
        Some(Partial::Metric(partial))
    }

    /// Computes the metric over all documents of a segment, if the statistics of its column are enough; reads
    /// nothing.
    pub(super) fn of_whole(&self, segment: &Segment) -> Result<Option<MetricPartial>> {
        let reader = &segment.reader;
        let mut partial = MetricPartial::new(self.format.clone());
        if let (Source::Strings { class, path, .. }, true) = (&self.source, self.counts_only) {
            let runs = column::known_strings(reader, *class, path)?;
            let totals = runs.as_ref().and_then(StoredRuns::totals);
            return Ok(totals
                .filter(|totals| self.misses_nothing(totals, segment))
                .map(|totals| {
                    partial.count = totals.values;
                    partial
                }));
        }
        let Some((column, runs)) = self.known_numbers(segment)? else {
            return Ok(None);
        };
        let totals = runs.totals().filter(|totals| self.misses_nothing(totals, segment));
        let measure = totals.map(|totals| Measure {
            count: totals.values,
            min: column.column.min_value(),
            max: column.column.max_value(),
            sum: totals.sum.unwrap_or_default(),
        });
        Ok(measure.map(|measure| self.measured(&column, &measure)))
    }

    /// Returns whether no document needs the value of `missing`.
    fn misses_nothing(&self, totals: &ColumnTotals, segment: &Segment) -> bool {
        self.missing.is_none() || totals.docs == u64::from(segment.max_doc)
    }

    /// Returns the number column of a segment, if its statistics are enough.
    fn known_numbers(&self, segment: &Segment) -> Result<Option<(NumColumn, StoredRuns)>> {
        let Source::Numbers { path, numeric } = &self.source else {
            return Ok(None);
        };
        let known = NumColumn::known(&segment.reader, &paths::column_name("num", path))?;
        Ok(known.filter(|(column, runs)| {
            let values = &column.column.values;
            // Minus zero and zero are the same number, and either may be the smallest raw value.
            let is_zero = |raw| column.as_f64(raw) == 0.0 && !column.is_integer();
            let has_extremes = !is_zero(values.min_value()) && !is_zero(values.max_value());
            let is_stored = !matches!(numeric, Numeric::Scaled(_) | Numeric::DateNanos(_));
            let has_sum = is_stored && runs.totals().is_some_and(|totals| totals.sum.is_some());
            self.counts_only || has_extremes && (self.extremes_only || has_sum)
        }))
    }

    /// Returns the measured column, if the split stores its totals per value of another column.
    pub(super) fn known_by(&self, segment: &Segment, by: &StoredRuns) -> Result<Option<(NumColumn, StoredRuns)>> {
        if self.missing.is_some() {
            return Ok(None);
        }
        let known = self.known_numbers(segment)?;
        Ok(known.filter(|(column, other)| {
            // A group of documents may have a zero at either end.
            let has_extremes = self.counts_only || column.is_integer();
            has_extremes && by.measures(other)
        }))
    }

    /// Converts stored totals of its column into a partial result.
    pub(super) fn measured(&self, column: &NumColumn, measure: &Measure) -> MetricPartial {
        let mut partial = MetricPartial::new(self.format.clone());
        partial.count = measure.count;
        if !self.counts_only && measure.count > 0 {
            let numeric = self.source.numeric();
            partial.min = numeric.value(column.as_f64(measure.min));
            partial.max = numeric.value(column.as_f64(measure.max));
            partial.sum = measure.sum as f64;
        }
        partial
    }

    /// Returns a collector with finished results by parent bucket, which takes no documents.
    pub(super) fn finished(&self, states: Vec<MetricPartial>, memory: &Memory) -> Box<dyn Collector> {
        Box::new(MetricCollector {
            values: None,
            numeric: self.source.numeric(),
            missing: None,
            counts_only: self.counts_only,
            format: self.format.clone(),
            states,
            block: ValueBlock::default(),
            memory: memory.clone(),
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let values = match &self.source {
            Source::Numbers { path, .. } => NumColumn::open(reader, path)?.map(Values::Numbers),
            Source::MetaNumbers(name) => NumColumn::open_named(reader, name)?.map(Values::Numbers),
            Source::Strings { class, path, .. } => {
                column::open_strings(reader, *class, path)?.map(|strings| Values::Strings(strings.ords().clone()))
            }
            Source::Constant(_) => Some(Values::One),
            Source::Nothing => None,
        };
        Ok(Box::new(MetricCollector {
            values,
            numeric: self.source.numeric(),
            missing: self.missing,
            counts_only: self.counts_only,
            format: self.format.clone(),
            states: Vec::new(),
            block: ValueBlock::default(),
            memory: scope.memory.clone(),
        }))
    }
}

enum Values {
    Numbers(NumColumn),
    Strings(Column<u64>),
    /// One value for every document.
    One,
}

struct MetricCollector {
    values: Option<Values>,
    numeric: Numeric,
    missing: Option<f64>,
    counts_only: bool,
    format: ValueFormat,
    /// By parent bucket.
    states: Vec<MetricPartial>,
    block: ValueBlock,
    memory: Memory,
}

impl MetricCollector {
    fn grow(&mut self, buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.states.len() {
            self.memory
                .take((needed - self.states.len()) * size_of::<MetricPartial>())?;
            self.states.resize_with(needed, MetricPartial::default);
        }
        Ok(())
    }
}

impl Collector for MetricCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.grow(buckets)?;
        let (states, block) = (&mut self.states, &mut self.block);
        let read = match &self.values {
            Some(Values::Numbers(column)) => {
                block.read(&column.column, docs);
                if self.counts_only {
                    for &position in &block.positions {
                        states[buckets[position as usize] as usize].count += 1;
                    }
                } else {
                    for (&position, &raw) in block.positions.iter().zip(&block.raws) {
                        let value = self.numeric.value(column.as_f64(raw));
                        states[buckets[position as usize] as usize].add(value);
                    }
                }
                true
            }
            Some(Values::Strings(column)) => {
                block.read(column, docs);
                if column.get_cardinality().is_multivalue() {
                    block.sort_distinct();
                }
                for &position in &block.positions {
                    states[buckets[position as usize] as usize].count += 1;
                }
                true
            }
            Some(Values::One) => {
                for &bucket in buckets {
                    states[bucket as usize].count += 1;
                }
                return Ok(());
            }
            None => false,
        };
        let Some(missing) = self.missing else {
            return Ok(());
        };
        let mut next = 0;
        for (position, &bucket) in buckets.iter().enumerate() {
            let start = next;
            while read && block.positions.get(next) == Some(&(position as u32)) {
                next += 1;
            }
            if next == start {
                states[bucket as usize].add(missing);
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.states.resize_with(bucket_count, MetricPartial::default);
        let format = &self.format;
        Ok(paced(self.states.into_iter())
            .map(|mut state| {
                state.format = format.clone();
                Partial::Metric(state)
            })
            .collect())
    }
}
