//! Common part of all aggregations with several buckets: counts documents, passes them to the sub-aggregations, and
//! collects their results.

use firn_model::Result;
use firn_query::aggs::{Bucket, Partials};
use tantivy::DocId;

use super::collector::Level;
use super::table::{Entry, Table};
use crate::run::memory::Memory;

/// Approximate bytes of a bucket in a result: key, count and hash table slot.
const BUCKET_BYTES: usize = 120;

/// The buckets of one aggregation on one segment, with its sub-aggregations.
pub(super) struct Buckets {
    table: Table,
    sub: Level,
    docs: Vec<DocId>,
    parents: Vec<u32>,
    keys: Vec<u64>,
    slots: Vec<u32>,
}

impl Buckets {
    /// Creates buckets for keys below `width`; `None`: any keys.
    pub(super) fn new(width: Option<u64>, sub: Level, memory: &Memory) -> Self {
        Self {
            table: Table::new(width, !sub.is_empty(), memory),
            sub,
            docs: Vec::new(),
            parents: Vec::new(),
            keys: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Adds a document to a bucket of its parent. Documents ascend; [`Buckets::flush`] ends a block.
    #[inline]
    pub(super) fn push(&mut self, doc: DocId, parent: u32, key: u64) {
        self.docs.push(doc);
        self.parents.push(parent);
        self.keys.push(key);
    }

    /// Counts the added documents and passes them to the sub-aggregations.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.table.add(&self.parents, &self.keys, &mut self.slots)?;
        if !self.sub.is_empty() {
            self.sub.collect(&self.docs, &self.slots)?;
        }
        self.docs.clear();
        self.parents.clear();
        self.keys.clear();
        Ok(())
    }

    /// Returns all buckets by parent and key.
    pub(super) fn finish(mut self) -> Result<Vec<(Entry, Bucket)>> {
        let mut below = match self.sub.is_empty() {
            true => Vec::new(),
            false => std::mem::replace(&mut self.sub, Level::none()).finish(self.table.slot_count())?,
        };
        let entries = self.table.entries();
        self.table.memory().take(entries.len() * BUCKET_BYTES)?;
        let mut watch = self.table.memory().watch();
        let bucket = |(slot, entry): (usize, Entry)| {
            watch.tick()?;
            let sub: Partials = below.get_mut(slot).map(std::mem::take).unwrap_or_default();
            let doc_count = entry.count;
            Ok((entry, Bucket { doc_count, sub }))
        };
        entries.into_iter().enumerate().map(bucket).collect()
    }
}
