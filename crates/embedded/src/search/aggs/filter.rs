//! `filter`: one bucket of the documents that match a query.

use std::sync::Arc;

use firn_engine::aggs::{Bucket, Partial};
use firn_engine::query::Query;
use firn_model::Result;
use tantivy::query::{Scorer, Weight};
use tantivy::{DocId, DocSet};

use super::super::column::failed;
use super::super::compile::Compiler;
use super::super::memory::Memory;
use super::super::weight::Compiled;
use super::{Collector, Level, Scope};

/// `filter`, resolved.
pub(super) struct FilterPlan(Arc<dyn Weight>);

impl FilterPlan {
    pub(super) fn compile(compiler: &Compiler, query: &Query) -> Result<Self> {
        let compiled: Compiled = compiler.filter().compile(query)?;
        Ok(Self(Arc::from(compiled.into_weight())))
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        Ok(Box::new(FilterCollector {
            scorer: self.0.scorer(&scope.segment.reader, 1.0).map_err(failed)?,
            counts: Vec::new(),
            sub,
            docs: Vec::new(),
            buckets: Vec::new(),
            memory: scope.memory.clone(),
        }))
    }
}

struct FilterCollector {
    scorer: Box<dyn Scorer>,
    /// By parent bucket; the bucket's number below is its parent's.
    counts: Vec<u64>,
    sub: Level,
    docs: Vec<DocId>,
    buckets: Vec<u32>,
    memory: Memory,
}

impl Collector for FilterCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.docs.clear();
        self.buckets.clear();
        for (&doc, &bucket) in docs.iter().zip(buckets) {
            let at = self.scorer.doc();
            let at = if at < doc { self.scorer.seek(doc) } else { at };
            if at == doc {
                self.docs.push(doc);
                self.buckets.push(bucket);
            }
        }
        let needed = self
            .buckets
            .iter()
            .copied()
            .max()
            .map_or(0, |bucket| bucket as usize + 1);
        if needed > self.counts.len() {
            self.memory.take((needed - self.counts.len()) * size_of::<u64>())?;
            self.counts.resize(needed, 0);
        }
        for &bucket in &self.buckets {
            self.counts[bucket as usize] += 1;
        }
        self.sub.collect(&self.docs, &self.buckets)
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.counts.resize(bucket_count, 0);
        let below = self.sub.finish(bucket_count)?;
        Ok(self
            .counts
            .into_iter()
            .zip(below)
            .map(|(doc_count, sub)| Partial::Filter(Bucket { doc_count, sub }))
            .collect())
    }
}
