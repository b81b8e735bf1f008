//! One bucket per parent: what `filter` and `missing` share.

use firn_engine::aggs::{Bucket, Partial};
use firn_model::Result;
use tantivy::DocId;

use super::{Level, paced};
use crate::search::memory::Memory;

/// Counts the documents that pass and hands them on; a bucket's number below is its parent's.
pub(super) struct Single {
    counts: Vec<u64>,
    sub: Level,
    docs: Vec<DocId>,
    buckets: Vec<u32>,
    memory: Memory,
}

impl Single {
    pub(super) fn new(sub: Level, memory: &Memory) -> Self {
        Self {
            counts: Vec::new(),
            sub,
            docs: Vec::new(),
            buckets: Vec::new(),
            memory: memory.clone(),
        }
    }

    /// Takes those documents of a block that pass.
    pub(super) fn collect(
        &mut self,
        docs: &[DocId],
        buckets: &[u32],
        mut passes: impl FnMut(DocId) -> bool,
    ) -> Result<()> {
        self.docs.clear();
        self.buckets.clear();
        for (&doc, &bucket) in docs.iter().zip(buckets) {
            if passes(doc) {
                self.docs.push(doc);
                self.buckets.push(bucket);
            }
        }
        let largest = self.buckets.iter().copied().max();
        let needed = largest.map_or(0, |bucket| bucket as usize + 1);
        if needed > self.counts.len() {
            self.memory.take((needed - self.counts.len()) * size_of::<u64>())?;
            self.counts.resize(needed, 0);
        }
        for &bucket in &self.buckets {
            self.counts[bucket as usize] += 1;
        }
        self.sub.collect(&self.docs, &self.buckets)
    }

    pub(super) fn finish(mut self, bucket_count: usize) -> Result<Vec<Partial>> {
        self.counts.resize(bucket_count, 0);
        let below = self.sub.finish(bucket_count)?;
        let counts = paced(self.counts.into_iter().zip(below));
        Ok(counts
            .map(|(doc_count, sub)| Partial::Single(Bucket { doc_count, sub }))
            .collect())
    }
}
