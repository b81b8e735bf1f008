//! Measurements for `profile: true`. Without it, a search has no [`ShardTimes`] and reads no clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use firn_query::aggs::Aggregations;
use firn_query::search::{AggregationProfile, PartTimes, SegmentCounts, ShardProfile};

use crate::ShardSearch;

/// A part of the work on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Compile,
    Prune,
    Open,
    Match,
    Collect,
    Aggregate,
    Finish,
    Fetch,
}

const PARTS: usize = 8;

/// The measurements of all threads on one shard.
pub(crate) struct ShardTimes {
    parts: [AtomicU64; PARTS],
    pruned: AtomicU64,
    pruned_by_tenant: AtomicU64,
    passed_over: AtomicU64,
    from_statistics: AtomicU64,
    from_cache: AtomicU64,
    read: AtomicU64,
    matched: AtomicU64,
    blocks: AtomicU64,
    /// One counter per top-level aggregation.
    aggregations: Vec<AtomicU64>,
}

impl ShardTimes {
    pub(crate) fn new(aggregations: &Aggregations) -> Self {
        Self {
            parts: Default::default(),
            pruned: AtomicU64::new(0),
            pruned_by_tenant: AtomicU64::new(0),
            from_statistics: AtomicU64::new(0),
            from_cache: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            read: AtomicU64::new(0),
            matched: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            aggregations: aggregations.0.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn add(&self, part: Part, ns: u64) {
        self.parts[part as usize].fetch_add(ns, Ordering::Relaxed);
    }

    fn part(&self, part: Part) -> u64 {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Counts a segment that is not opened because it has no document in the window.
    pub(crate) fn segment_pruned(&self) {
        self.pruned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment that is not opened because it has no document of the tenant.
    pub(crate) fn segment_pruned_by_tenant(&self) {
        self.pruned_by_tenant.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment that is answered from statistics, without reading rows.
    pub(crate) fn segment_from_statistics(&self) {
        self.from_statistics.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment whose partial result was cached.
    pub(crate) fn segment_from_cache(&self) {
        self.from_cache.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment that cannot hold one of the first hits.
    pub(crate) fn segment_passed_over(&self) {
        self.passed_over.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment that is read.
    pub(crate) fn segment_read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a block of matching documents.
    pub(crate) fn block(&self, documents: usize) {
        self.matched.fetch_add(documents as u64, Ordering::Relaxed);
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the time counter of a top-level aggregation, by its position.
    pub(crate) fn aggregation(&self, number: usize) -> &AtomicU64 {
        &self.aggregations[number]
    }

    /// Returns the profile of the shard for the answer.
    pub(crate) fn report(&self, search: &ShardSearch, aggregations: &Aggregations) -> ShardProfile {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let named = aggregations.0.iter().zip(&self.aggregations);
        let before = search.not_opened;
        ShardProfile {
            index: search.snapshot.index.to_string(),
            shard: search.snapshot.shard,
            segments: SegmentCounts {
                total: search.snapshot.segments.len() as u64 + before.by_time + before.by_tenant + before.by_value,
                pruned: count(&self.pruned) + before.by_time,
                pruned_by_tenant: count(&self.pruned_by_tenant) + before.by_tenant,
                pruned_by_filter: before.by_value,
                from_statistics: count(&self.from_statistics),
                from_cache: count(&self.from_cache),
                passed_over: count(&self.passed_over),
                read: count(&self.read),
            },
            documents_matched: count(&self.matched),
            blocks: count(&self.blocks),
            times: PartTimes {
                compile: self.part(Part::Compile),
                prune: self.part(Part::Prune),
                open: self.part(Part::Open),
                matching: self.part(Part::Match),
                collect: self.part(Part::Collect),
                aggregate: self.part(Part::Aggregate),
                finish: self.part(Part::Finish),
                fetch: self.part(Part::Fetch),
            },
            aggregations: named
                .map(|((name, aggregation), ns)| AggregationProfile {
                    name: name.clone(),
                    kind: aggregation.kind.name(),
                    collect_ns: count(ns),
                })
                .collect(),
        }
    }
}

/// Stopwatch that splits a run of work into parts.
pub(crate) struct Stopwatch<'a>(Option<(&'a ShardTimes, Instant)>);

impl<'a> Stopwatch<'a> {
    /// Starts, if there are measurements.
    pub(crate) fn start(times: Option<&'a ShardTimes>) -> Self {
        Self(times.map(|times| (times, Instant::now())))
    }

    /// Adds the time since the last lap to this part.
    pub(crate) fn lap(&mut self, part: Part) {
        if let Some((times, last)) = &mut self.0 {
            let now = Instant::now();
            times.add(part, nanos(now - *last));
            *last = now;
        }
    }
}

/// Runs `work` and adds its time to `counter`.
pub(crate) fn timed<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    counter.fetch_add(nanos(start.elapsed()), Ordering::Relaxed);
    done
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
