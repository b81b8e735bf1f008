//! `weighted_avg` aggregation: values of one field, weighted by another.

use firn_model::{Error, Result};
use firn_query::aggs::{Partial, ValueFormat, WeightedAvg, WeightedAvgPartial};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope, paced};
use super::numbers::{Numbers, NumbersSource};
use crate::run::memory::Memory;

const NAME: &str = "weighted_avg";

/// `weighted_avg`, compiled.
pub(super) struct WeightedAvgPlan {
    value: NumbersSource,
    weight: NumbersSource,
    format: ValueFormat,
}

impl WeightedAvgPlan {
    pub(super) fn compile(compiler: &Compiler, part: &WeightedAvg) -> Result<Self> {
        let value = NumbersSource::compile(compiler, &part.value.field, part.value.missing.as_ref(), NAME)?;
        Ok(Self {
            format: value.value_format(part.format.as_deref())?,
            value,
            weight: NumbersSource::compile(compiler, &part.weight.field, part.weight.missing.as_ref(), NAME)?,
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        Ok(Box::new(WeightedAvgCollector {
            values: self.value.open(scope)?,
            weights: self.weight.open(scope)?,
            block: Vec::new(),
            states: Vec::new(),
            format: self.format.clone(),
            memory: scope.memory.clone(),
        }))
    }
}

struct WeightedAvgCollector {
    values: Numbers,
    weights: Numbers,
    /// The weights of the block's documents; NaN for a document without one.
    block: Vec<f64>,
    /// By parent bucket.
    states: Vec<WeightedAvgPartial>,
    format: ValueFormat,
    memory: Memory,
}

impl Collector for WeightedAvgCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.states.len() {
            self.memory
                .take((needed - self.states.len()) * size_of::<WeightedAvgPartial>())?;
            self.states.resize_with(needed, WeightedAvgPartial::default);
        }
        let block = &mut self.block;
        block.clear();
        block.resize(docs.len(), f64::NAN);
        self.weights.each(docs, |position, weight| {
            if !block[position].is_nan() {
                return Err(Error::illegal_argument(
                    "Encountered more than one weight for a single document. Use a script to combine multiple \
                     weights-per-doc into a single value.",
                ));
            }
            block[position] = weight;
            Ok(())
        })?;
        let states = &mut self.states;
        self.values.each(docs, |position, value| {
            let weight = block[position];
            if !weight.is_nan() {
                states[buckets[position] as usize].add(value, weight);
            }
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.states.resize_with(bucket_count, WeightedAvgPartial::default);
        let format = &self.format;
        let states = paced(self.states.into_iter());
        Ok(states
            .map(|state| {
                let mut partial = WeightedAvgPartial::new(format.clone());
                partial.merge(&state);
                Partial::WeightedAvg(partial)
            })
            .collect())
    }
}
