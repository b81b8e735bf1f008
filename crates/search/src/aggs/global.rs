//! `global` aggregation: all documents of the shard, independent of the query.
//!
//! The run over the query's documents leaves its bucket empty; a second run over every segment fills it.

use firn_model::Result;
use firn_query::aggs::{Bucket, Partial};
use tantivy::DocId;

use super::collector::{Collector, Level, Scope};
use super::single::Single;

/// Opens a collector for all documents.
pub(super) fn open(scope: Scope, sub: Level) -> Box<dyn Collector> {
    Box::new(GlobalCollector(Single::new(sub, scope.memory)))
}

/// Opens a placeholder for the run over the query's documents.
pub(super) fn open_placeholder() -> Box<dyn Collector> {
    Box::new(Placeholder)
}

struct GlobalCollector(Single);

impl Collector for GlobalCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.0.collect(docs, buckets, |_| true)
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.0.finish(bucket_count)
    }
}

struct Placeholder;

impl Collector for Placeholder {
    fn collect(&mut self, _docs: &[DocId], _buckets: &[u32]) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        Ok((0..bucket_count).map(|_| Partial::Single(Bucket::default())).collect())
    }
}
