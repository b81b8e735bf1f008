//! State that all segments of a search share: its limits, counts and first hits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::RequestContext;
use firn_model::{ErrorKind, Result};
use firn_query::search::{SearchRequest, TrackTotalHits};
use firn_scheduler::yield_now;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::catch;
use parking_lot::Mutex;
use tantivy::{DocId, Score};

use super::collapse::Group;
use super::matching_docs::Docs;
use super::memory::Memory;
use super::profile::ShardTimes;
use crate::compile::limits::Deadline;
use crate::sort::{ShardKey, SortValue};

/// A hit before it is fetched.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) values: Vec<SortValue>,
    pub(crate) score: Score,
    /// The group that it represents, if hits are collapsed.
    pub(crate) group: Option<Group>,
    /// The segment's number in the search.
    pub(crate) order: u32,
    pub(crate) doc: DocId,
}

/// See the module.
pub(crate) struct Shared {
    pub(crate) ctx: RequestContext,
    pub(crate) deadline: Deadline,
    /// Most segments that are searched at the same time.
    pub(crate) threads_max: usize,
    pub(crate) memory: Memory,
    pub(crate) track_total_hits: TrackTotalHits,
    pub(crate) min_score: Option<f32>,
    /// 0: no limit.
    pub(crate) terminate_after: u64,
    /// Number of hits to retain: `from + size`.
    pub(crate) keep: usize,
    /// Hits counted so far.
    pub(crate) total: AtomicU64,
    /// Some hits were not counted.
    pub(crate) total_cut: AtomicBool,
    /// The search timed out and something is missing. Local data is still searched, see [`Deadline`].
    pub(crate) timed_out: AtomicBool,
    pub(crate) terminated: AtomicBool,
    pub(crate) top: Mutex<Top>,
}

/// The first hits so far.
#[derive(Default)]
pub(crate) struct Top {
    /// In order; at most `keep` hits.
    pub(crate) rows: Vec<Row>,
    pub(crate) max_score: Option<Score>,
}

impl Shared {
    /// Creates the state of a search with this request.
    pub(crate) fn new(ctx: &RequestContext, request: &SearchRequest, deadline: Deadline, memory: Memory) -> Self {
        Self {
            ctx: ctx.clone(),
            deadline,
            threads_max: request.concurrent_shards_max.map_or(usize::MAX, |max| max as usize),
            memory,
            track_total_hits: request.track_total_hits,
            min_score: request.min_score,
            terminate_after: request.terminate_after,
            keep: match request.size {
                0 => 0,
                size => request.from.saturating_add(size),
            },
            total: AtomicU64::new(0),
            total_cut: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            terminated: AtomicBool::new(false),
            top: Mutex::new(Top::default()),
        }
    }

    /// Returns whether enough hits are counted.
    pub(crate) fn counted_enough(&self) -> bool {
        match self.track_total_hits {
            TrackTotalHits::Exact => false,
            TrackTotalHits::No => true,
            TrackTotalHits::UpTo(limit) => self.total.load(Ordering::Relaxed) > limit,
        }
    }

    /// Records that rows of a segment are read.
    pub(crate) fn read_segment(&self, times: Option<&ShardTimes>) {
        self.ctx.work.add_segment();
        if let Some(times) = times {
            times.segment_read();
        }
    }

    pub(crate) fn count(&self, hits: u64) {
        self.total.fetch_add(hits, Ordering::Relaxed);
    }

    /// Returns the last retained hit, once there are enough hits.
    pub(crate) fn threshold(&self) -> Option<SortValue> {
        let top = self.top.lock();
        if self.keep == 0 || top.rows.len() < self.keep {
            return None;
        }
        top.rows.last().and_then(|row| row.values.first().cloned())
    }

    /// Returns an opened value; `None` if the timeout came first, which is no failure.
    pub(crate) fn in_time<T>(&self, opened: Result<T>) -> Result<Option<T>> {
        match opened {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.timed_out.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Reads the next block; returns false if the timeout came first, which is no failure.
    pub(crate) fn next_in_time(&self, docs: &mut Docs, segment: &Segment) -> Result<bool> {
        let read = catch(|| {
            docs.next(segment);
            Ok(())
        });
        Ok(self.in_time(read)?.is_some())
    }

    /// Returns whether some aggregation stopped midway because of the timeout.
    pub(crate) fn note_late(&self) -> bool {
        let is_late = self.memory.ended_late();
        if is_late {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        is_late
    }

    /// Returns whether the work must stop with its results so far; fails if the client disconnected. It yields to
    /// other work, so the caller must not hold a lock.
    pub(crate) fn should_stop(&self) -> Result<bool> {
        yield_now();
        self.ctx.check()?;
        let is_over = self.deadline.is_over(&self.ctx);
        if is_over {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        Ok(is_over)
    }
}

impl Top {
    pub(crate) fn merge(&mut self, rows: Vec<Row>, keys: &[ShardKey], keep: usize) {
        if rows.is_empty() {
            return;
        }
        self.rows.extend(rows);
        self.rows.sort_by(|a, b| {
            for ((key, a), b) in keys.iter().zip(&a.values).zip(&b.values) {
                let order = key.compare(a, b);
                if order.is_ne() {
                    return order;
                }
            }
            (a.order, a.doc).cmp(&(b.order, b.doc))
        });
        let mut seen = HashSet::new();
        self.rows.retain(|row| match &row.group {
            Some(group) => seen.insert(group.clone()),
            None => true,
        });
        self.rows.truncate(keep);
    }
}
