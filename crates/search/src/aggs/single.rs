//! One bucket per parent: the common part of `filter` and `missing`.

use firn_model::Result;
use firn_query::aggs::{Bucket, Partial};
use tantivy::DocId;

use super::collector::{Level, paced};
use crate::run::memory::Memory;

/// Counts the matching documents and passes them on; a bucket has the number of its parent.
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

    /// Returns whether there are no sub-aggregations.
    pub(super) fn counts_only(&self) -> bool {
        self.sub.is_empty()
    }

    /// Adds to the count of one bucket.
    pub(super) fn add(&mut self, bucket: u32, count: u64) -> Result<()> {
        self.grow(bucket as usize + 1)?;
        self.counts[bucket as usize] += count;
        Ok(())
    }

    /// Collects those documents of a block that pass.
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
        self.take()
    }

    /// Collects the documents at these positions of a block; positions ascend, and a repeated position counts once.
    pub(super) fn collect_at(&mut self, docs: &[DocId], buckets: &[u32], positions: &[u32]) -> Result<()> {
        self.docs.clear();
        self.buckets.clear();
        let mut before = None;
        for &position in positions {
            if before != Some(position) {
                self.docs.push(docs[position as usize]);
                self.buckets.push(buckets[position as usize]);
            }
            before = Some(position);
        }
        self.take()
    }

    /// Counts the pending documents and passes them on.
    fn take(&mut self) -> Result<()> {
        let largest = self.buckets.iter().copied().max();
        self.grow(largest.map_or(0, |bucket| bucket as usize + 1))?;
        for &bucket in &self.buckets {
            self.counts[bucket as usize] += 1;
        }
        self.sub.collect(&self.docs, &self.buckets)
    }

    fn grow(&mut self, needed: usize) -> Result<()> {
        if needed > self.counts.len() {
            self.memory.take((needed - self.counts.len()) * size_of::<u64>())?;
            self.counts.resize(needed, 0);
        }
        Ok(())
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
