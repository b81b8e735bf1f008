//! `sampler` and `diversified_sampler` aggregations: the documents of a segment that may be among the best.
//!
//! The best documents of a shard are known only after all its segments were searched, so sub-aggregations receive
//! them in a later run ([`crate::aggs::deferred`]).

use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::aggs::cardinality::hash_bytes;
use firn_query::aggs::{DiversifiedSampler, Partial, SamplePartial, Sampled, Sampler};
use firn_segment::columns::column;
use firn_segment::columns::column::NumColumn;
use firn_segment::columns::strings::StrColumn;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope};
use super::score_table::ScoreBoard;
use super::source::Source;
use crate::run::memory::Memory;

/// A sampler, compiled.
pub(super) struct SamplerPlan {
    shard_size: usize,
    per_value: usize,
    source: Option<Source>,
}

impl SamplerPlan {
    pub(super) fn plain(part: &Sampler) -> Self {
        Self {
            shard_size: part.shard_size,
            per_value: part.shard_size,
            source: None,
        }
    }

    pub(super) fn diversified(compiler: &Compiler, part: &DiversifiedSampler) -> Result<Self> {
        Ok(Self {
            shard_size: part.shard_size,
            per_value: part.max_docs_per_value,
            source: Some(Source::compile(compiler, &part.field)?),
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let values = match &self.source {
            None | Some(Source::Constant(_) | Source::Nothing) => Values::Nothing,
            Some(Source::Strings { class, path, .. }) => match column::open_strings(reader, *class, path)? {
                Some(strings) => Values::Strings(strings),
                None => Values::Nothing,
            },
            Some(Source::Numbers { path, .. }) => Values::of(NumColumn::open(reader, path)?),
            Some(Source::MetaNumbers(name)) => Values::of(NumColumn::open_named(reader, name)?),
        };
        Ok(Box::new(SamplerCollector {
            values,
            shard_size: self.shard_size,
            per_value: self.per_value,
            segment: scope.order,
            scores: Arc::clone(scope.scores),
            samples: Vec::new(),
            memory: scope.memory.clone(),
        }))
    }
}

enum Values {
    Numbers(NumColumn),
    Strings(StrColumn),
    Nothing,
}

impl Values {
    fn of(column: Option<NumColumn>) -> Self {
        column.map_or(Self::Nothing, Self::Numbers)
    }

    /// Returns the raw value of a document; documents without one have [`NO_VALUE`].
    fn raw(&self, doc: DocId) -> Result<u64> {
        let column: &Column<u64> = match self {
            Self::Nothing => return Ok(NO_VALUE),
            Self::Numbers(numbers) => &numbers.column,
            Self::Strings(strings) => strings.ords(),
        };
        let mut values = column.values_for_doc(doc);
        let first = values.next();
        if values.next().is_some() {
            return Err(Error::illegal_argument(
                "Sample diversifying key must be a single valued-field",
            ));
        }
        Ok(first.unwrap_or(NO_VALUE))
    }

    /// Returns a hash that is the same for equal values of all segments.
    fn hash(&self, raw: u64) -> Result<u64> {
        match self {
            _ if raw == NO_VALUE => Ok(NO_VALUE),
            Self::Nothing => Ok(NO_VALUE),
            Self::Numbers(numbers) => Ok(numbers.as_f64(raw).to_bits()),
            Self::Strings(strings) => {
                let mut term = Vec::new();
                strings.dictionary().ord_to_term(raw, &mut term)?;
                Ok(hash_bytes(&term))
            }
        }
    }
}

const NO_VALUE: u64 = u64::MAX;

/// Documents that are retained beyond the requested number before the worst ones are removed.
const SLACK: usize = 64;

struct SamplerCollector {
    values: Values,
    shard_size: usize,
    per_value: usize,
    segment: u32,
    scores: Arc<ScoreBoard>,
    /// By parent.
    samples: Vec<Sample>,
    memory: Memory,
}

#[derive(Default)]
struct Sample {
    partial: SamplePartial,
    /// Scores must exceed this; documents ascend, so ones with an equal score come too late.
    least: Option<f32>,
}

impl Sample {
    fn select(&mut self) {
        self.partial.select();
        self.least = match self.partial.docs.last() {
            Some(worst) if self.partial.docs.len() >= self.partial.shard_size => Some(worst.score),
            _ => None,
        };
    }
}

impl Collector for SamplerCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.samples.len() {
            let bytes = size_of::<Sample>() + (self.shard_size + SLACK) * size_of::<Sampled>();
            self.memory.take((needed - self.samples.len()) * bytes)?;
            let (shard_size, per_value) = (self.shard_size, self.per_value);
            self.samples.resize_with(needed, || Sample {
                partial: SamplePartial {
                    docs: Vec::new(),
                    shard_size,
                    per_value,
                },
                least: None,
            });
        }
        if self.shard_size == 0 {
            return Ok(());
        }
        let mut scores = self.scores.read();
        for (&doc, &bucket) in docs.iter().zip(buckets) {
            let score = scores.of(doc);
            let sample = &mut self.samples[bucket as usize];
            if sample.least.is_some_and(|least| score <= least) {
                continue;
            }
            sample.partial.docs.push(Sampled {
                score,
                segment: self.segment,
                doc,
                value: self.values.raw(doc)?,
            });
            if sample.partial.docs.len() >= self.shard_size + SLACK {
                sample.select();
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.samples.resize_with(bucket_count, Sample::default);
        let mut partials = Vec::with_capacity(bucket_count);
        for mut sample in std::mem::take(&mut self.samples) {
            sample.select();
            for sampled in &mut sample.partial.docs {
                sampled.value = self.values.hash(sampled.value)?;
            }
            partials.push(Partial::Sample(sample.partial));
        }
        Ok(partials)
    }
}
