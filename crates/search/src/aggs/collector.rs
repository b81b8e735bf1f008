//! Collector of one aggregation on one segment, and the collectors of one level of the tree.

use std::ops::Range;
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use firn_query::Watch;
use firn_query::aggs::{Partial, Partials};
use firn_scheduler::yield_now;
use firn_segment::distinct::StoredZones;
use firn_segment::segment::Segment;
use tantivy::DocId;

use super::score_table::ScoreBoard;
use super::table::Table;
use crate::run::memory::Memory;

/// Results between two yields to other work: each takes a microsecond if its memory was not touched before.
pub(super) const PACE: usize = 128;

/// The inputs for opening a collector.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) segment: &'a Segment,
    pub(super) memory: &'a Memory,
    pub(super) manner: DocumentOrder,
    /// The segment's number in the search.
    pub(super) order: u32,
    /// Provides the scores of a block, if the plan [wants](super::Plan::wants_scores) them.
    pub(super) scores: &'a Arc<ScoreBoard>,
}

/// The order and completeness of the documents of a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DocumentOrder {
    /// The segment is the only one of its shard: `terms` may cut its result to the size that a shard reports.
    pub(crate) whole_shard: bool,
    /// Documents are ordered by `@timestamp`, newest first, if no document has several; those without one are last.
    pub(crate) newest_first: bool,
}

/// Collector of matching documents.
pub(super) trait Collector: Send {
    /// Collects a block: `docs` ascend (and repeat if a parent has several values); `docs[i]` belongs to the parent
    /// bucket `buckets[i]`.
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()>;

    /// Returns the counts so far, for [`absorb`](Self::absorb) of the collector of other documents of the same segment;
    /// `None`: there are none.
    fn into_counts(self: Box<Self>) -> Option<Table> {
        None
    }

    /// Adds the counts of other documents of the same segment. Only collectors of
    /// [divisible](super::Plan::is_divisible) aggregations get them.
    fn absorb(&mut self, _counts: Table) -> Result<()> {
        Err(Error::internal("an aggregation was collected in parts that cannot be"))
    }

    /// Returns the documents that [`Self::collect_zone`] takes; `None`: it must read all documents.
    fn zones(&self) -> Option<StoredZones> {
        None
    }

    /// Collects all documents of a zone for parent bucket 0. The zone is one of [`Self::zones`] and ends in
    /// `documents`; none of them is deleted.
    fn collect_zone(&mut self, _documents: Range<DocId>) -> Result<()> {
        Err(Error::internal("an aggregation has no zones"))
    }

    /// Returns one result for each of `bucket_count` parent buckets.
    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>>;
}

/// Documents that a level takes at once. One document may be in many buckets, and every level may multiply them
/// again. The limit bounds what levels pass on, and gives points to stop and to yield to other work.
const TAKEN_AT_ONCE: usize = 4096;

/// The sub-aggregations of one aggregation, by name, with a cancellation check for collecting their results.
pub(super) struct Level(pub(super) Vec<(String, Box<dyn Collector>)>, Watch, Option<Memory>);

impl Level {
    pub(super) fn new(collectors: Vec<(String, Box<dyn Collector>)>, scope: Scope) -> Self {
        Self(collectors, scope.memory.watch(), Some(scope.memory.clone()))
    }

    pub(super) fn none() -> Self {
        Self(Vec::new(), Watch::default(), None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        for (docs, buckets) in docs.chunks(TAKEN_AT_ONCE).zip(buckets.chunks(TAKEN_AT_ONCE)) {
            if let Some(memory) = &self.2 {
                memory.pause()?;
            }
            for (_, collector) in &mut self.0 {
                collector.collect(docs, buckets)?;
            }
        }
        Ok(())
    }

    /// Returns the zones of documents that all collectors take at once; `None`: some collector must read documents.
    pub(super) fn zones(&self) -> Option<StoredZones> {
        let mut zones = self.0.iter().map(|(_, collector)| collector.zones());
        let first = zones.next()??;
        zones.all(|zones| zones == Some(first)).then_some(first)
    }

    /// Passes a zone to all collectors.
    pub(super) fn collect_zone(&mut self, documents: &Range<DocId>) -> Result<()> {
        let mut collectors = self.0.iter_mut();
        collectors.try_for_each(|(_, collector)| collector.collect_zone(documents.clone()))
    }

    /// Collects pending documents; returns false on timeout.
    pub(super) fn collect_in_time(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<bool> {
        match self.collect(docs, buckets) {
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Adds the counts of the same aggregations for other documents of the segment.
    pub(super) fn absorb(&mut self, other: Self) -> Result<()> {
        for ((_, own), (_, other)) in self.0.iter_mut().zip(other.0) {
            if let Some(counts) = other.into_counts() {
                own.absorb(counts)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, bucket_count: usize) -> Result<Vec<Partials>> {
        let mut all: Vec<Partials> = paced((0..bucket_count).map(|_| Partials::default())).collect();
        for (name, collector) in self.0 {
            for (partials, partial) in all.iter_mut().zip(collector.finish(bucket_count)?) {
                self.1.tick()?;
                partials.0.insert(name.clone(), partial);
            }
        }
        Ok(all)
    }
}

/// Yields to other work between the results of many buckets. Call it without holding a lock.
pub(super) fn paced<T>(results: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    results.enumerate().map(|(number, result)| {
        if number.is_multiple_of(PACE) {
            yield_now();
        }
        result
    })
}
