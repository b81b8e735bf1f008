//! Metrics that read every number of a field: `extended_stats`, percentiles and similar ones.

use firn_model::Result;
use firn_query::aggs::{
    Boxplot, Digest, DigestPartial, ExtendedStats, ExtendedStatsPartial, MedianAbsoluteDeviation, Metric, Partial,
    PercentileRanks, Percentiles, ValueFormat,
};
use firn_segment::columns::column::{NumColumn, ValueBlock};
use serde_json::Value;
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope, paced};
use super::source::{self, Source};
use crate::compile::field::Numeric;
use crate::run::memory::Memory;

/// A numeric field with the value for documents that have none.
pub(super) struct NumbersSource {
    source: Source,
    missing: Option<f64>,
}

impl NumbersSource {
    /// Compiles the field; `name` is the aggregation's, for messages.
    pub(super) fn compile(compiler: &Compiler, field: &str, missing: Option<&Value>, name: &str) -> Result<Self> {
        let source = Source::numbers(compiler, field, name)?;
        let missing = match missing {
            Some(value) => Some(source::missing_number(&source.numeric(), value, compiler.now_ms)?.as_f64()),
            None => None,
        };
        Ok(Self { source, missing })
    }

    /// Returns the format of its values.
    pub(super) fn value_format(&self, format: Option<&str>) -> Result<ValueFormat> {
        self.source.value_format(format)
    }

    /// Opens the field on a segment.
    pub(super) fn open(&self, scope: Scope) -> Result<Numbers> {
        let reader = &scope.segment.reader;
        Ok(Numbers {
            column: match &self.source {
                Source::Numbers { path, .. } => NumColumn::open(reader, path)?,
                Source::MetaNumbers(name) => NumColumn::open_named(reader, name)?,
                Source::Strings { .. } | Source::Constant(_) | Source::Nothing => None,
            },
            numeric: self.source.numeric(),
            missing: self.missing,
            block: ValueBlock::default(),
        })
    }
}

/// The numbers of a segment, block by block.
pub(super) struct Numbers {
    column: Option<NumColumn>,
    numeric: Numeric,
    missing: Option<f64>,
    block: ValueBlock,
}

impl Numbers {
    /// Calls `take` with the position in the block and the value, for every value of `docs`, in their order.
    pub(super) fn each(&mut self, docs: &[DocId], mut take: impl FnMut(usize, f64) -> Result<()>) -> Result<()> {
        let Some(column) = &self.column else {
            let Some(missing) = self.missing else {
                return Ok(());
            };
            return (0..docs.len()).try_for_each(|position| take(position, missing));
        };
        self.block.read(&column.column, docs);
        let mut next = 0;
        for (&position, &raw) in self.block.positions.iter().zip(&self.block.raws) {
            let position = position as usize;
            if let Some(missing) = self.missing {
                (next..position).try_for_each(|position| take(position, missing))?;
                next = position + 1;
            }
            take(position, self.numeric.value(column.as_f64(raw)))?;
        }
        match self.missing {
            Some(missing) => (next..docs.len()).try_for_each(|position| take(position, missing)),
            None => Ok(()),
        }
    }
}

/// The state of a metric for the values of one bucket.
pub(super) trait State: Clone + Send {
    /// Adds a value; returns the bytes by which the state grew.
    fn add(&mut self, value: f64) -> usize;

    fn into_partial(self, format: &ValueFormat) -> Partial;
}

impl State for ExtendedStatsPartial {
    fn add(&mut self, value: f64) -> usize {
        self.add(value);
        0
    }

    fn into_partial(mut self, format: &ValueFormat) -> Partial {
        self.stats.format = format.clone();
        Partial::ExtendedStats(self)
    }
}

impl State for DigestPartial {
    fn add(&mut self, value: f64) -> usize {
        self.digest.add(value)
    }

    fn into_partial(mut self, format: &ValueFormat) -> Partial {
        self.format = format.clone();
        Partial::Digest(self)
    }
}

/// A metric of numbers, compiled.
pub(super) struct NumbersPlan {
    source: NumbersSource,
    format: ValueFormat,
    kind: Kind,
}

/// The kind of state.
enum Kind {
    ExtendedStats,
    /// The empty digest.
    Digest(Digest),
}

impl NumbersPlan {
    pub(super) fn extended_stats(compiler: &Compiler, part: &ExtendedStats) -> Result<Self> {
        Self::compile(compiler, &part.metric, "extended_stats", Kind::ExtendedStats)
    }

    pub(super) fn percentiles(compiler: &Compiler, part: &Percentiles) -> Result<Self> {
        Self::compile(
            compiler,
            &part.metric,
            "percentiles",
            Kind::Digest(part.method.digest()),
        )
    }

    pub(super) fn percentile_ranks(compiler: &Compiler, part: &PercentileRanks) -> Result<Self> {
        Self::compile(
            compiler,
            &part.metric,
            "percentile_ranks",
            Kind::Digest(part.method.digest()),
        )
    }

    pub(super) fn median_absolute_deviation(compiler: &Compiler, part: &MedianAbsoluteDeviation) -> Result<Self> {
        Self::compile(
            compiler,
            &part.metric,
            "median_absolute_deviation",
            Kind::Digest(part.digest()),
        )
    }

    pub(super) fn boxplot(compiler: &Compiler, part: &Boxplot) -> Result<Self> {
        Self::compile(compiler, &part.metric, "boxplot", Kind::Digest(part.digest()))
    }

    fn compile(compiler: &Compiler, metric: &Metric, name: &str, kind: Kind) -> Result<Self> {
        let source = NumbersSource::compile(compiler, &metric.field, metric.missing.as_ref(), name)?;
        Ok(Self {
            format: source.value_format(metric.format.as_deref())?,
            source,
            kind,
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        match &self.kind {
            Kind::ExtendedStats => self.collector(scope, ExtendedStatsPartial::default()),
            Kind::Digest(empty) => self.collector(scope, DigestPartial::new(empty.clone())),
        }
    }

    fn collector<S: State + 'static>(&self, scope: Scope, empty: S) -> Result<Box<dyn Collector>> {
        Ok(Box::new(NumbersCollector {
            numbers: self.source.open(scope)?,
            empty,
            states: Vec::new(),
            format: self.format.clone(),
            memory: scope.memory.clone(),
        }))
    }
}

struct NumbersCollector<S> {
    numbers: Numbers,
    empty: S,
    /// By parent bucket.
    states: Vec<S>,
    format: ValueFormat,
    memory: Memory,
}

impl<S: State> Collector for NumbersCollector<S> {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.states.len() {
            self.memory.take((needed - self.states.len()) * size_of::<S>())?;
            self.states.resize(needed, self.empty.clone());
        }
        let states = &mut self.states;
        let mut grown = 0;
        self.numbers.each(docs, |position, value| {
            grown += states[buckets[position] as usize].add(value);
            Ok(())
        })?;
        match grown {
            0 => Ok(()),
            bytes => self.memory.take(bytes),
        }
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.states.resize(bucket_count, self.empty.clone());
        let states = paced(self.states.into_iter());
        Ok(states.map(|state| state.into_partial(&self.format)).collect())
    }
}
