//! Segment merges, without stopping writes.
//!
//! A merge reads segments with the deletes of its start. Deletes that arrive while it runs are
//! applied to the result at its end. Small merges keep the order of documents, so the new id of a document
//! is the number of survivors before it. Large merges of an index that holds events by tenant are
//! *clustering*: they order documents by tenant and time, may write several segments, and record
//! the new place of each document.

mod merge_policy;
mod order;
mod postings;
mod reorder;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::Result;
use firn_segment::commit_point::{SegmentMeta, segment_dir};
use firn_segment::deletes::{DeleteSet, Ranks};
use firn_segment::directory::DiskDirectory;
use firn_segment::schema::fields;
use firn_storage::disk::Disk;
use tantivy::SegmentReader;
use tantivy::columnar::ColumnIndex;

use self::merge_policy::{choose, choose_forced};
use self::order::Order;
use self::reorder::Rewritten;
use super::Shard;
use super::buffer::{guarded, index_settings, tantivy_error};
use super::id_filter::{self, IdFilter};
use super::live_segments::{LiveSegment, OpenSegment, open_reader};
use super::state::State;
use super::stoppable_disk::StoppableDisk;
use super::tenant_count;

/// A segment is rewritten alone if more than this share of it is deleted.
const DELETED_PERCENT_MAX: u64 = 40;
/// Tantivy refuses segments with this many documents.
const DOCS_MAX: u64 = 1 << 31;
/// After a merge of at least this size, a flush frees the space of the replaced segments.
const FLUSH_AFTER_BYTES: u64 = 64 << 20;

/// Segment that a merge reads.
struct Source {
    open: Arc<OpenSegment>,
    deletes: DeleteSet,
}

impl Source {
    fn survivors(&self) -> u32 {
        self.open.meta.docs - self.deletes.count()
    }
}

/// Result of a merge.
struct Merged {
    /// Their documents are numbered consecutively: the second segment continues after the first.
    segments: Vec<Arc<OpenSegment>>,
    places: Places,
}

/// New places of the documents of the sources.
enum Places {
    /// The order is unchanged, without the dropped documents.
    Stacked,
    /// For each source with survivors, by old document: the new place, or [`order::GONE`].
    Moved(Vec<Vec<u32>>),
}

/// Purpose of a merge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Background merge: as cheap as possible.
    Upkeep,
    /// Force merge: one segment, in the best order.
    Forced,
}

impl Shard {
    pub(super) fn merge_one(&self, docs_max: u32) -> Result<bool> {
        if self.read_only.is_some() {
            return Ok(false);
        }
        let Some(_merging) = self.merge_lock.try_lock() else {
            return Ok(false);
        };
        let chosen = {
            let state = self.state.lock();
            state.check_running()?;
            choose(&state, &self.config, docs_max)
        };
        if chosen.is_empty() {
            return Ok(false);
        }
        let bytes = self.merge(&chosen, Purpose::Upkeep)?;
        if bytes >= FLUSH_AFTER_BYTES {
            self.flush_now()?;
        }
        Ok(true)
    }

    pub(super) fn force_merge_now(&self, max_segments: usize, only_expunge_deletes: bool) -> Result<()> {
        self.check_writable()?;
        let _merging = self.merge_lock.lock();
        self.write_out_all()?;
        let chosen: Vec<Vec<u64>> = {
            let state = self.state.lock();
            state.check_running()?;
            if only_expunge_deletes {
                let with_deletes = state
                    .segments
                    .iter()
                    .filter(|segment| segment.deletes.count() > 0 && segment.open.damage().is_none());
                with_deletes.map(|segment| vec![segment.generation()]).collect()
            } else {
                vec![choose_forced(&state, max_segments.max(1))]
            }
        };
        for generations in chosen.iter().filter(|generations| !generations.is_empty()) {
            self.merge(generations, Purpose::Forced)?;
        }
        self.flush_now()?;
        self.refresh_now()?;
        let state = self.state.lock();
        // Damaged segments were left out.
        match state.segments.iter().find_map(|segment| segment.open.damage()) {
            Some(damage) => Err(damage.clone()),
            None => Ok(()),
        }
    }

    /// Merges segments and returns the size of the output in bytes.
    pub(super) fn merge(&self, generations: &[u64], purpose: Purpose) -> Result<u64> {
        let started = Instant::now();
        let sources = {
            let mut state = self.state.lock();
            state.check_running()?;
            state.merging.extend(generations);
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
            sources
        };
        let mut targets = Vec::new();
        self.counters.merges_current.fetch_add(1, Ordering::Relaxed);
        let result = guarded("merging segments", || {
            self.write_merged(&sources, purpose, &mut targets)
        });
        self.counters.merges_current.fetch_sub(1, Ordering::Relaxed);
        let outcome = result.and_then(|merged| {
            let bytes = merged.segments.iter().map(|segment| segment.meta.size_bytes).sum();
            self.replace(&sources, merged)?;
            Ok(bytes)
        });
        // For a stopped shard, the reason of the stop replaces any other error.
        let outcome = outcome.map_err(|error| self.check_not_stopped().err().unwrap_or(error));
        {
            let mut state = self.state.lock();
            for generation in generations {
                state.merging.remove(generation);
            }
            for target in &targets {
                state.merging_into.remove(target);
            }
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
                // If the shard is stopped, the next opening removes the folders; it may already use the same names.
                for target in targets.iter().filter(|_| !self.flags.is_stopped()) {
                    let _ = self.config.disk.remove_dir_all(&segment_dir(&self.config.dir, *target));
                }
            }
        }
        outcome
    }

    /// Writes the merged segments, none if nothing survives. `targets` gets their generations, even
    /// if this fails.
    fn write_merged(&self, sources: &[Source], purpose: Purpose, targets: &mut Vec<u64>) -> Result<Merged> {
        // A merge reads all data anyway, so damage is found here and not copied.
        for source in sources {
            self.check_not_stopped()?;
            source.open.verify()?;
        }
        let living: Vec<&Source> = sources.iter().filter(|source| source.survivors() > 0).collect();
        if living.is_empty() {
            return Ok(Merged {
                segments: Vec::new(),
                places: Places::Stacked,
            });
        }
        let disk: Arc<dyn Disk> = Arc::new(StoppableDisk::new(
            Arc::clone(&self.config.disk),
            Arc::clone(&self.flags),
        ));
        let settings = index_settings(&self.config);
        if let Some(order) = self.cluster(&living, purpose)? {
            let own: Vec<_> = order.parts.iter().map(|part| part.own_tenant.clone()).collect();
            self.take_targets(targets, own.len());
            let (written, places) = reorder::write(&disk, &self.config.dir, &settings, &living, order, targets)?;
            let mut segments = Vec::with_capacity(written.len());
            for (part, own_tenant) in written.into_iter().zip(own) {
                segments.push(self.finish_reordered(part, own_tenant, &living)?);
            }
            return Ok(Merged {
                segments,
                places: Places::Moved(places),
            });
        }
        let mut segments = Vec::new();
        let mut filters = Vec::new();
        for source in &living {
            segments.extend(source.open.index.searchable_segments().map_err(tantivy_error)?);
            filters.push(source.deletes.to_alive(source.open.meta.docs));
        }
        let target = self.take_targets(targets, 1);
        let directory = DiskDirectory::create(disk, segment_dir(&self.config.dir, target))?;
        let mut index = tantivy::indexer::merge_filtered_segments(&segments, settings, filters, directory.clone())
            .map_err(tantivy_error)?;
        let reader = open_reader(&mut index)?;
        let mut meta = describe(target, &living);
        let complete = sources.iter().all(|source| source.deletes.count() == 0);
        meta.without_time = match complete {
            true => sources.iter().map(|source| source.open.meta.without_time).sum(),
            false => without_time(&reader, &meta)?,
        };
        let filter = build_filter(&reader, &meta)?;
        let segment = OpenSegment::finish(&self.config, &directory, index, reader, meta, filter)?;
        Ok(Merged {
            segments: vec![segment],
            places: Places::Stacked,
        })
    }

    /// Reserves generations for the output and returns the first.
    fn take_targets(&self, targets: &mut Vec<u64>, count: usize) -> u64 {
        let mut state = self.state.lock();
        for _ in 0..count {
            let target = state.take_generation();
            state.merging_into.insert(target);
            targets.push(target);
        }
        targets[0]
    }

    /// Returns the order of a clustering merge; `None`: the merge does not reorder.
    fn cluster(&self, sources: &[&Source], purpose: Purpose) -> Result<Option<Order>> {
        let Some(tenant_field) = self.config.tenant_field.as_deref() else {
            return Ok(None);
        };
        let docs: u64 = sources.iter().map(|source| u64::from(source.survivors())).sum();
        let is_due = purpose == Purpose::Forced || docs >= u64::from(self.config.cluster_docs_min);
        // Dropping documents does not change the order of the remaining ones.
        let is_done = match sources {
            [only] => only.open.tenants.as_ref().is_some_and(|tenants| tenants.clustered),
            _ => false,
        };
        // Without tenants there is no benefit.
        let has_tenants = sources.iter().any(|source| source.open.tenants.is_some());
        if !is_due || is_done || !has_tenants || docs >= DOCS_MAX {
            return Ok(None);
        }
        let own_docs_min = (purpose == Purpose::Upkeep).then_some(self.config.own_docs_min);
        Order::new(sources, tenant_field, own_docs_min)
    }

    fn finish_reordered(
        &self,
        written: Rewritten,
        own_tenant: Option<Arc<str>>,
        sources: &[&Source],
    ) -> Result<Arc<OpenSegment>> {
        let Rewritten {
            generation,
            directory,
            mut index,
        } = written;
        let reader = open_reader(&mut index)?;
        let mut meta = describe(generation, sources);
        meta.docs = reader.max_doc();
        meta.user_ids = meta.user_ids.min(meta.docs);
        meta.ordered = false;
        meta.own_tenant = own_tenant.map(|tenant| tenant.to_string());
        let seq_nos = reader.fast_fields().u64("_seq_no").map_err(tantivy_error)?;
        meta.seq_no_range = (seq_nos.min_value(), seq_nos.max_value());
        meta.time_range_ms = tenant_count::time_range_ms(&reader, &meta)?;
        meta.without_time = without_time(&reader, &meta)?;
        let filter = build_filter(&reader, &meta)?;
        OpenSegment::finish(&self.config, &directory, index, reader, meta, filter)
    }

    /// Replaces the sources by the merged segments.
    fn replace(&self, sources: &[Source], merged: Merged) -> Result<()> {
        // A running refresh publishes the sources.
        let _no_refresh = self.refresh_lock.lock();
        let mut state = self.state.lock();
        state.check_running()?;
        let places = carry_deletes(&state, sources, &merged.places);
        let is_source = |segment: &LiveSegment| {
            let generation = segment.generation();
            sources.iter().any(|source| source.open.meta.generation == generation)
        };
        let position = state.segments.iter().position(is_source).unwrap_or(0);
        state.segments.retain(|segment| !is_source(segment));
        let mut start = 0;
        for (number, open) in merged.segments.into_iter().enumerate() {
            let end = start + open.meta.docs;
            let own = places.partition_point(|place| *place < start)..places.partition_point(|place| *place < end);
            let mut deletes = DeleteSet::default();
            for place in &places[own] {
                deletes.insert(place - start);
            }
            start = end;
            state.segments.insert(
                position + number,
                LiveSegment {
                    open,
                    deletes,
                    committed_deletes: None,
                    committed: false,
                    published: None,
                },
            );
        }
        // A running flush may need the sources; the next one releases them.
        self.merged_away
            .lock()
            .extend(sources.iter().map(|source| Arc::clone(&source.open)));
        state.flags.set_dirty(true);
        state.flags.need_commit();
        Ok(())
    }
}

/// Returns the new places of documents that were deleted during the merge, ascending.
fn carry_deletes(state: &State, sources: &[Source], places: &Places) -> Vec<u32> {
    let mut carried = Vec::new();
    let mut base = 0;
    let living = sources.iter().filter(|source| source.survivors() > 0);
    for (number, source) in living.enumerate() {
        let generation = source.open.meta.generation;
        if let Some(segment) = state.segments.iter().find(|segment| segment.generation() == generation) {
            let later = segment.deletes.since(&source.deletes).into_iter();
            match places {
                Places::Stacked => {
                    let ranks = Ranks::new(&source.deletes, source.open.meta.docs);
                    carried.extend(later.map(|doc| base + ranks.rank(doc)));
                }
                Places::Moved(places) => carried.extend(later.map(|doc| places[number][doc as usize])),
            }
        }
        base += source.survivors();
    }
    carried.sort_unstable();
    carried
}

/// Returns the properties of a merged segment that follow from the sources. All sources have survivors.
fn describe(generation: u64, sources: &[&Source]) -> SegmentMeta {
    let living = || sources.iter().map(|source| &source.open.meta);
    let docs = sources.iter().map(|source| source.survivors()).sum();
    let own_tenant = living().next().and_then(|meta| meta.own_tenant.clone());
    let ordered = living().all(|meta| meta.ordered)
        && living()
            .zip(living().skip(1))
            .all(|(before, after)| before.seq_no_range.1 < after.seq_no_range.0);
    SegmentMeta {
        generation,
        docs,
        // An upper bound if documents were dropped; it says whether there are any.
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
        own_tenant: own_tenant.filter(|tenant| living().all(|meta| meta.own_tenant.as_ref() == Some(tenant))),
        size_bytes: 0,
        files: BTreeMap::new(),
    }
}

/// Counts documents without a value in the column of `@timestamp`.
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

/// Builds the filter over the ids of a merged segment, if it has any.
fn build_filter(reader: &SegmentReader, meta: &SegmentMeta) -> Result<Option<IdFilter>> {
    if meta.user_ids == 0 {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    let inverted = reader.inverted_index(fields().id).map_err(tantivy_error)?;
    let mut stream = inverted.terms().stream()?;
    while stream.advance() {
        if let Ok(id) = std::str::from_utf8(stream.key()) {
            hashes.push(id_filter::hash(id));
        }
    }
    Ok(Some(IdFilter::build(hashes.iter().copied(), hashes.len())))
}
