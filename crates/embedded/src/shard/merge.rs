//! Fewer, larger segments, without stopping writes.
//!
//! A merge reads segments with the deletes of its start. Deletes that come while it runs are
//! carried over at its end: a merge keeps the order of documents, so the new id of a document is
//! the number of survivors before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::{ErrorKind, Result};
use tantivy::SegmentReader;
use tantivy::columnar::ColumnIndex;

use super::Shard;
use super::buffer::{guarded, index_settings, tantivy_error};
use super::commit::{SegmentMeta, damaged, segment_dir};
use super::config::ShardConfig;
use super::deletes::{DeleteSet, Ranks};
use super::filter::{self, IdFilter};
use super::live::{LiveSegment, OpenSegment, open_reader};
use super::state::State;
use super::stoppable::StoppableDisk;
use crate::directory::DiskDirectory;
use crate::schema::fields;

/// Segments up to this many documents are of one size: what a refresh each second makes.
const SMALL_DOCS: u32 = 2_000;
/// One merge takes at most this many segments.
const MERGE_WIDTH_MAX: usize = 32;
/// A segment is rewritten alone when more than this share of it is deleted.
const DELETED_PERCENT_MAX: u64 = 40;
/// After a merge of this size a flush frees the space of what it replaced.
const FLUSH_AFTER_BYTES: u64 = 64 << 20;

/// A segment that a merge reads.
struct Source {
    open: Arc<OpenSegment>,
    deletes: DeleteSet,
}

impl Shard {
    pub(super) fn merge_one(&self) -> Result<bool> {
        let Some(_merging) = self.merge_lock.try_lock() else {
            return Ok(false);
        };
        let chosen = {
            let state = self.state.lock();
            state.check_running()?;
            choose(&state, &self.config)
        };
        if chosen.is_empty() {
            return Ok(false);
        }
        let bytes = self.merge(&chosen)?;
        if bytes >= FLUSH_AFTER_BYTES {
            self.flush_now()?;
        }
        Ok(true)
    }

    pub(super) fn force_merge_now(&self, max_segments: usize, only_expunge_deletes: bool) -> Result<()> {
        let _merging = self.merge_lock.lock();
        self.write_out_all()?;
        let chosen: Vec<Vec<u64>> = {
            let state = self.state.lock();
            state.check_running()?;
            if only_expunge_deletes {
                let with_deletes = state
                    .segments
                    .iter()
                    .filter(|segment| segment.deletes.count() > 0 && !state.is_damaged(segment));
                with_deletes.map(|segment| vec![segment.generation()]).collect()
            } else {
                vec![choose_forced(&state, max_segments.max(1))]
            }
        };
        for generations in chosen.iter().filter(|generations| !generations.is_empty()) {
            self.merge(generations)?;
        }
        self.flush_now()?;
        self.refresh_now()?;
        let state = self.state.lock();
        match state.segments.iter().find(|segment| state.is_damaged(segment)) {
            Some(segment) => {
                let dir = segment_dir(&self.config.dir, segment.generation());
                Err(damaged(&dir, "it was left out of the merge"))
            }
            None => Ok(()),
        }
    }

    /// Merges segments into one and says how large it is, bytes.
    fn merge(&self, generations: &[u64]) -> Result<u64> {
        let started = Instant::now();
        let (target, sources) = {
            let mut state = self.state.lock();
            state.check_running()?;
            let target = state.take_generation();
            state.merging.extend(generations);
            state.merging_into.insert(target);
            let mut sources: Vec<Source> = state
                .segments
                .iter()
                .filter(|segment| generations.contains(&segment.generation()))
                .map(|segment| Source {
                    open: Arc::clone(&segment.open),
                    deletes: segment.deletes.clone(),
                })
                .collect();
            sources.sort_by_key(|source| source.open.meta.seq_no_range.0);
            (target, sources)
        };
        self.counters.merges_current.fetch_add(1, Ordering::Relaxed);
        let result = guarded("merging segments", || self.write_merged(target, &sources));
        self.counters.merges_current.fetch_sub(1, Ordering::Relaxed);
        let outcome = result.and_then(|merged| {
            let bytes = merged.as_ref().map_or(0, |merged| merged.meta.size_bytes);
            self.replace(&sources, merged)?;
            Ok(bytes)
        });
        // Whatever a merge of a stopped shard fails with, that is why.
        let outcome = outcome.map_err(|error| self.check_not_stopped().err().unwrap_or(error));
        {
            let mut state = self.state.lock();
            for generation in generations {
                state.merging.remove(generation);
            }
            state.merging_into.remove(&target);
        }
        match &outcome {
            Ok(bytes) => {
                let docs: u64 = sources.iter().map(|source| u64::from(source.open.meta.docs)).sum();
                self.counters.merges.fetch_add(1, Ordering::Relaxed);
                self.counters.merged_docs.fetch_add(docs, Ordering::Relaxed);
                self.counters.merged_bytes.fetch_add(*bytes, Ordering::Relaxed);
                let ms = started.elapsed().as_millis() as u64;
                self.counters.merge_ms.fetch_add(ms, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!(index = %self.config.index, shard = self.config.shard, %error, "a merge failed");
                // Of a stopped shard the next to open it does that, and may have a folder of that name.
                if !self.flags.is_stopped() {
                    let _ = self.config.disk.remove_dir_all(&segment_dir(&self.config.dir, target));
                }
            }
        }
        outcome
    }

    /// Writes the merged segment; `None`: nothing survives.
    fn write_merged(&self, target: u64, sources: &[Source]) -> Result<Option<Arc<OpenSegment>>> {
        // A merge reads everything once anyway, so damage is found here and not spread.
        for source in sources {
            self.check_not_stopped()?;
            if let Err(error) = source.open.verify(&self.config) {
                if error.kind() == ErrorKind::ShardDamaged {
                    self.state.lock().damaged.insert(source.open.meta.generation);
                }
                return Err(error);
            }
        }
        let mut segments = Vec::new();
        let mut filters = Vec::new();
        let mut docs = 0;
        for source in sources {
            let survivors = source.open.meta.docs - source.deletes.count();
            if survivors == 0 {
                continue;
            }
            docs += survivors;
            segments.extend(source.open.index.searchable_segments().map_err(tantivy_error)?);
            filters.push(source.deletes.to_alive(source.open.meta.docs));
        }
        if docs == 0 {
            return Ok(None);
        }
        let disk = StoppableDisk::new(Arc::clone(&self.config.disk), Arc::clone(&self.flags));
        let directory = DiskDirectory::create(Arc::new(disk), segment_dir(&self.config.dir, target))?;
        let settings = index_settings(&self.config);
        let mut index = tantivy::indexer::merge_filtered_segments(&segments, settings, filters, directory.clone())
            .map_err(tantivy_error)?;
        let reader = open_reader(&mut index)?;
        let mut meta = describe(target, docs, sources);
        let complete = sources.iter().all(|source| source.deletes.count() == 0);
        meta.without_time = match complete {
            true => sources.iter().map(|source| source.open.meta.without_time).sum(),
            false => without_time(&reader, &meta)?,
        };
        let filter = match meta.user_ids {
            0 => None,
            _ => Some(build_filter(&reader)?),
        };
        OpenSegment::finish(&self.config, &directory, index, reader, meta, filter).map(Some)
    }

    /// Puts the merged segment in the place of its sources.
    fn replace(&self, sources: &[Source], merged: Option<Arc<OpenSegment>>) -> Result<()> {
        // A refresh under way shows the sources.
        let _no_refresh = self.refresh_lock.lock();
        let mut state = self.state.lock();
        state.check_running()?;
        let mut deletes = DeleteSet::default();
        let mut base = 0;
        for source in sources {
            let generation = source.open.meta.generation;
            if let Some(segment) = state.segments.iter().find(|segment| segment.generation() == generation) {
                let ranks = Ranks::new(&source.deletes, source.open.meta.docs);
                for doc in segment.deletes.since(&source.deletes) {
                    deletes.insert(base + ranks.rank(doc));
                }
            }
            base += source.open.meta.docs - source.deletes.count();
        }
        let is_source = |segment: &LiveSegment| {
            let generation = segment.generation();
            sources.iter().any(|source| source.open.meta.generation == generation)
        };
        let position = state.segments.iter().position(is_source).unwrap_or(0);
        state.segments.retain(|segment| !is_source(segment));
        if let Some(open) = merged {
            state.segments.insert(
                position,
                LiveSegment {
                    open,
                    deletes,
                    committed_deletes: None,
                    committed: false,
                    published: None,
                },
            );
        }
        // A flush that is under way may need them; the next one lets them go.
        self.merged_away
            .lock()
            .extend(sources.iter().map(|source| Arc::clone(&source.open)));
        state.flags.set_dirty(true);
        state.flags.need_commit();
        Ok(())
    }
}

/// The segments of the next merge; empty: none is worth it.
fn choose(state: &State, config: &ShardConfig) -> Vec<u64> {
    let free = || {
        state
            .segments
            .iter()
            .filter(|segment| !state.merging.contains(&segment.generation()))
            .filter(|segment| !state.is_damaged(segment))
    };
    // What is deleted altogether goes at once; it costs nothing.
    let empty: Vec<u64> = free()
        .filter(|segment| segment.live_docs() == 0)
        .map(LiveSegment::generation)
        .collect();
    if !empty.is_empty() {
        return empty;
    }
    let mut tiers: BTreeMap<u32, Vec<&LiveSegment>> = BTreeMap::new();
    for segment in free() {
        let large = segment.live_docs() > config.merged_docs_max / 2
            || segment.open.meta.size_bytes > config.merged_bytes_max / 2;
        if !large {
            let units = segment.live_docs().max(SMALL_DOCS) / SMALL_DOCS;
            tiers
                .entry(units.ilog(config.merge_factor.max(2) as u32))
                .or_default()
                .push(segment);
        }
    }
    let mut below: Vec<&LiveSegment> = Vec::new();
    for (_, tier) in tiers {
        if tier.len() >= config.merge_factor.max(2) {
            // Smaller ones come along: they would be merged soon anyway.
            let mut chosen = below;
            chosen.extend(tier);
            return within_limits(chosen, config);
        }
        below.extend(tier);
    }
    free()
        .find(|segment| {
            u64::from(segment.deletes.count()) * 100 > u64::from(segment.open.meta.docs) * DELETED_PERCENT_MAX
        })
        .map(|segment| vec![segment.generation()])
        .unwrap_or_default()
}

fn within_limits(mut segments: Vec<&LiveSegment>, config: &ShardConfig) -> Vec<u64> {
    segments.sort_by_key(|segment| segment.live_docs());
    let (mut docs, mut bytes) = (0u64, 0u64);
    let mut chosen = Vec::new();
    for segment in segments.into_iter().take(MERGE_WIDTH_MAX) {
        docs += u64::from(segment.live_docs());
        bytes += segment.open.meta.size_bytes;
        if docs > u64::from(config.merged_docs_max) || bytes > config.merged_bytes_max {
            break;
        }
        chosen.push(segment.generation());
    }
    if chosen.len() < 2 { Vec::new() } else { chosen }
}

/// The smallest segments, as many as must become one.
fn choose_forced(state: &State, max_segments: usize) -> Vec<u64> {
    let mut segments: Vec<&LiveSegment> = state
        .segments
        .iter()
        .filter(|segment| !state.is_damaged(segment))
        .collect();
    segments.sort_by_key(|segment| segment.live_docs());
    if segments.len() > max_segments {
        let count = segments.len() - max_segments + 1;
        return segments[..count].iter().map(|segment| segment.generation()).collect();
    }
    match &segments[..] {
        [only] if only.deletes.count() > 0 => vec![only.generation()],
        _ => Vec::new(),
    }
}

fn describe(generation: u64, docs: u32, sources: &[Source]) -> SegmentMeta {
    let living = || {
        sources
            .iter()
            .filter(|source| source.open.meta.docs > source.deletes.count())
            .map(|source| &source.open.meta)
    };
    let ordered = living().all(|meta| meta.ordered)
        && living()
            .zip(living().skip(1))
            .all(|(before, after)| before.seq_no_range.1 < after.seq_no_range.0);
    SegmentMeta {
        generation,
        docs,
        // An upper bound once documents were dropped; it says whether there are any.
        user_ids: living().map(|meta| meta.user_ids).sum::<u32>().min(docs),
        time_range_ms: living()
            .filter_map(|meta| meta.time_range_ms)
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))),
        without_time: 0,
        seq_no_range: living()
            .map(|meta| meta.seq_no_range)
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
            .unwrap_or((0, 0)),
        ordered,
        is_nanos: living().any(|meta| meta.is_nanos),
        size_bytes: 0,
        files: BTreeMap::new(),
    }
}

/// Documents without a value in the column of `@timestamp`.
fn without_time(reader: &SegmentReader, meta: &SegmentMeta) -> Result<u32> {
    let docs = meta.docs;
    if meta.time_range_ms.is_none() {
        return Ok(docs);
    }
    let column = reader
        .fast_fields()
        .u64_lenient_for_type(None, "num.@timestamp")
        .map_err(tantivy_error)?;
    let with = match column.map(|(column, _)| column.index) {
        None | Some(ColumnIndex::Empty { .. }) => 0,
        Some(ColumnIndex::Full) => docs,
        Some(ColumnIndex::Optional(index)) => index.num_non_nulls(),
        Some(index @ ColumnIndex::Multivalued(_)) => {
            (0..docs).filter(|doc| !index.value_row_ids(*doc).is_empty()).count() as u32
        }
    };
    Ok(docs - with)
}

/// The filter over the ids of a merged segment.
fn build_filter(reader: &SegmentReader) -> Result<IdFilter> {
    let mut hashes = Vec::new();
    let inverted = reader.inverted_index(fields().id).map_err(tantivy_error)?;
    let mut stream = inverted.terms().stream()?;
    while stream.advance() {
        if let Ok(id) = std::str::from_utf8(stream.key()) {
            hashes.push(filter::hash(id));
        }
    }
    Ok(IdFilter::build(hashes.iter().copied(), hashes.len()))
}
