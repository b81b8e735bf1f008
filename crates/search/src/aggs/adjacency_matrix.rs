//! `adjacency_matrix` aggregation: a bucket per query and per pair of queries.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{AdjacencyMatrix, KeyBytes, Partial, TermsPartial};
use firn_segment::columns::column::failed;
use tantivy::DocId;
use tantivy::query::{Scorer, Weight};

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::filters::matches;
use crate::run::memory::Memory;

/// Pairs that are counted together, apart from those of one document.
const PENDING_MAX: usize = 1 << 14;

/// `adjacency_matrix`, compiled.
pub(super) struct AdjacencyMatrixPlan {
    weights: Vec<Arc<dyn Weight>>,
    part: AdjacencyMatrix,
}

impl AdjacencyMatrixPlan {
    pub(super) fn compile(compiler: &Compiler, part: &AdjacencyMatrix) -> Result<Self> {
        let filter = compiler.filter();
        let weights = part.filters.iter();
        Ok(Self {
            weights: weights
                .map(|(_, query)| Ok(Arc::from(filter.compile(query)?.into_weight())))
                .collect::<Result<_>>()?,
            part: part.clone(),
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let scorers = self.weights.iter();
        let scorers: Vec<_> = scorers
            .map(|weight| weight.scorer(&scope.segment.reader, 1.0).map_err(failed))
            .collect::<Result<_>>()?;
        let width = (scorers.len() * scorers.len()) as u64;
        Ok(Box::new(AdjacencyMatrixCollector {
            scorers,
            part: self.part.clone(),
            found: Vec::new(),
            memory: scope.memory.clone(),
            buckets: Buckets::new(Some(width), sub, scope.memory),
        }))
    }
}

struct AdjacencyMatrixCollector {
    scorers: Vec<Box<dyn Scorer>>,
    part: AdjacencyMatrix,
    found: Vec<u64>,
    memory: Memory,
    /// The key is the first filter times the number of filters plus the second filter.
    buckets: Buckets,
}

impl Collector for AdjacencyMatrixCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let count = self.scorers.len() as u64;
        let mut pending = 0;
        for (&doc, &parent) in docs.iter().zip(buckets) {
            if pending > PENDING_MAX {
                self.memory.pause()?;
                self.buckets.flush()?;
                pending = 0;
            }
            self.found.clear();
            for (number, scorer) in (0u64..).zip(&mut self.scorers) {
                if matches(scorer.as_mut(), doc) {
                    self.found.push(number);
                }
            }
            pending += self.found.len() * (self.found.len() + 1) / 2;
            for (position, first) in self.found.iter().enumerate() {
                for second in &self.found[position..] {
                    self.buckets.push(doc, parent, first * count + second);
                }
            }
        }
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let count = self.scorers.len() as u64;
        let mut partials = vec![TermsPartial::default(); bucket_count];
        for (entry, bucket) in self.buckets.finish()? {
            let name = self
                .part
                .name((entry.key / count) as usize, (entry.key % count) as usize);
            if let Some(partial) = partials.get_mut(entry.parent as usize) {
                partial.buckets.insert(KeyBytes::Str(name.into()), bucket);
            }
        }
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }
}
