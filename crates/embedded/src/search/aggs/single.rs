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

    /// Whether documents are counted and nothing else.
    pub(super) fn counts_only(&self) -> bool {
        self.sub.is_empty()
    }

    /// Counts documents of one bucket that pass.
    pub(super) fn add(&mut self, bucket: u32, count: u64) -> Result<()> {
        self.grow(bucket as usize + 1)?;
        self.counts[bucket as usize] += count;
        Ok(())
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
        self.take()
    }

    /// Takes the documents at these positions of a block; positions ascend, and one that is there again is the same document.
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

    /// Counts what was found to pass and hands it on.
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
