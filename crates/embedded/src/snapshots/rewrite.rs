//! Removal of a tenant's events from a snapshot.
//!
//! Each split that holds such events is written again without them, or dropped if it holds nothing else. One commit
//! replaces the manifests with manifests that name the new splits. Then the mounts of this node read the new splits,
//! and objects that no manifest names are swept. An interrupted removal starts again and finds either the old snapshot
//! or the new one, complete; the next cleanup removes its unused objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firn_engine::snapshot::RewrittenSnapshot;
use firn_model::metadata::IndexMetadata;
use firn_model::repository::snapshot_missing;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::deletes::DeleteSet;
use firn_segment::frozen_segment::FrozenSegment;
use firn_segment::splits::{WholeSplit, write_split};
use firn_shard::{RestoredSegment, Shard, ShardConfig};
use firn_storage::disk::AppendWriter;
use firn_storage::filters::{FilterTable, FilterTableRef};
use firn_storage::object::LocalFile;
use firn_storage::regions::ObjectId;
use firn_storage::repository::{
    IndexManifest, Replaced, Repository, ShardManifest, SnapshotManifest, SnapshotSegment, State, WriteDependencies,
};
use firn_storage::split::SplitRef;

use super::Work;
use super::create::ScratchFolder;
use super::existing_objects::ExistingObjects;
use super::rewrite_memo::RewrittenSplit;
use super::service::{GoOn, SnapshotService};
use super::tenant::holds;

/// Write buffer of a split file, in bytes.
const WRITE_BUFFER_BYTES: usize = 1 << 20;
/// How often the written objects may be swept before the removal fails.
const SWEPT_MAX: usize = 16;
/// Copies of a split in scratch files: object, segment, new segment, new object.
const SCRATCH_FACTOR: u64 = 4;
/// How long searches that read the old snapshot may continue before their objects are removed.
const READERS_PATIENCE: Duration = Duration::from_secs(30);

/// Repository, snapshot and tenant of a removal.
struct Place<'a> {
    repository: &'a Repository,
    snapshot: &'a str,
    tenant: &'a str,
    go_on: GoOn<'a>,
}

/// The new state of a snapshot.
struct RewrittenSnapshotContent {
    manifest: SnapshotManifest,
    /// Keys of objects that the old manifest did not name.
    needed: HashSet<String>,
    /// Ids of the splits that are no longer in the snapshot.
    replaced: HashSet<String>,
    /// Filter tables that were written, by index id.
    tables: HashMap<String, Vec<FilterTableRef>>,
    outcome: RewrittenSnapshot,
}

impl SnapshotService {
    /// Removes a tenant's events from a snapshot of a writable repository. A snapshot without such events stays
    /// unchanged. Fails with [`ErrorKind::SnapshotInProgress`] while the snapshot is read or removed. Blocks until it
    /// ends, so the caller must be on a thread that may block.
    pub(crate) fn remove_tenant_from_snapshot(
        &self,
        tenant: &str,
        repository: &str,
        snapshot: &str,
    ) -> Result<RewrittenSnapshot> {
        let (repository, _used) = self.repositories.repository_for(repository, Work::Rewriting)?;
        repository.check_writable("remove events from snapshots")?;
        let place = Place {
            repository: &repository,
            snapshot,
            tenant,
            go_on: &|| self.node.check_open(),
        };
        let io = self.repositories.io()?;
        self.repositories.rewritten.lock().begin(tenant, repository.name());
        let writing = io.block_on(repository.begin_writing())?;
        let outcome = self.rewrite_snapshot(&place, writing.basis.clone());
        if let Err(error) = io.block_on(repository.end_writing(writing)) {
            tracing::warn!(repository = repository.name(), %error, "cannot remove the marker object of a rewrite");
        }
        outcome
    }

    fn rewrite_snapshot(&self, place: &Place<'_>, mut basis: WriteDependencies) -> Result<RewrittenSnapshot> {
        let io = self.repositories.io()?;
        let (repository, snapshot) = (place.repository, place.snapshot);
        let missing = || snapshot_missing(repository.name(), snapshot);
        let entry = basis.state().snapshots.get(snapshot).ok_or_else(missing)?.clone();
        let id = (basis.state().uuid.clone(), entry.uuid.clone());
        let name = format!("{}:{snapshot}", repository.name());
        let _rewriting = self.repositories.uses.take(vec![(name.clone(), id)], Work::Rewriting)?;
        for _ in 0..SWEPT_MAX {
            let before = io.block_on(repository.manifest(&entry))?;
            let Some(made) = self.without_tenant(place, &before, basis.state())? else {
                return Ok(RewrittenSnapshot::default());
            };
            (place.go_on)()?;
            let manifest = io.block_on(repository.put_snapshot(&made.manifest))?;
            self.mounts.forget_manifests(&entry.uuid)?;
            match io.block_on(repository.replace_snapshot(&entry, manifest, &made.needed, &basis))? {
                Replaced::Committed(new) => {
                    let mut rewritten = self.repositories.rewritten.lock();
                    rewritten.committed(&made.replaced, made.tables, &new);
                    drop(rewritten);
                    self.mounts.reread_mounts(&entry.uuid, READERS_PATIENCE)?;
                    let swept = io.block_on(repository.sweep_replaced(entry))?;
                    return Ok(RewrittenSnapshot {
                        removed_bytes: swept.bytes,
                        ..made.outcome
                    });
                }
                Replaced::Gone => {
                    return Err(Error::new(
                        ErrorKind::SnapshotInProgress,
                        format!("[{name}] another writer changed the snapshot while events were removed from it"),
                    ));
                }
                Replaced::Condemned(condemned) => {
                    self.repositories.rewritten.lock().forget(&condemned.keys);
                    basis = io.block_on(repository.wait_for_sweeps(condemned))?;
                }
            }
        }
        Err(Error::new(
            ErrorKind::SnapshotInProgress,
            format!("[{name}] other writers removed objects of the rewritten snapshot [{SWEPT_MAX}] times; try again"),
        ))
    }

    /// Writes the objects of a snapshot without a tenant and returns its new state; `None`: it holds no events of the
    /// tenant.
    fn without_tenant(
        &self,
        place: &Place<'_>,
        before: &SnapshotManifest,
        state: &State,
    ) -> Result<Option<RewrittenSnapshotContent>> {
        let io = self.repositories.io()?;
        let mut made = RewrittenSnapshotContent {
            manifest: before.clone(),
            needed: HashSet::new(),
            replaced: HashSet::new(),
            tables: HashMap::new(),
            outcome: RewrittenSnapshot::default(),
        };
        for (name, entry) in &before.indices {
            (place.go_on)()?;
            let index = io.block_on(place.repository.index(entry))?;
            let Some(shards) = self.shards_without(place, &index, state, &mut made)? else {
                continue;
            };
            let named: HashSet<String> = index.keys().collect();
            let filters = self.tables_without(place, (&entry.uuid, name), &index, &shards, &made.replaced, state)?;
            made.tables.insert(entry.uuid.clone(), filters.clone());
            let index = IndexManifest {
                index: index.index,
                shards,
                filters,
            };
            made.needed.extend(index.keys().filter(|key| !named.contains(key)));
            let entry = io.block_on(place.repository.put_index(&entry.uuid, &index))?;
            made.needed.insert(entry.key());
            made.manifest.indices.insert(name.clone(), entry);
            made.outcome.indices.push(name.clone());
        }
        Ok((!made.replaced.is_empty()).then_some(made))
    }

    /// Returns the shards of an index without a tenant; `None`: they hold no events of it.
    fn shards_without(
        &self,
        place: &Place<'_>,
        index: &IndexManifest,
        state: &State,
        made: &mut RewrittenSnapshotContent,
    ) -> Result<Option<Vec<ShardManifest>>> {
        if !index
            .segments()
            .any(|(_, segment)| self.may_hold(index, &segment.split, place.tenant))
        {
            return Ok(None);
        }
        let metadata = IndexMetadata::from_json(&index.index)?;
        let mut shards = index.shards.clone();
        let mut is_changed = false;
        for shard in &mut shards {
            let mut segments = Vec::with_capacity(shard.segments.len());
            for segment in std::mem::take(&mut shard.segments) {
                if !self.may_hold(index, &segment.split, place.tenant) {
                    segments.push(segment);
                    continue;
                }
                (place.go_on)()?;
                let rewritten =
                    self.rewritten_split(place, &metadata, shard.shard, &segment, state, &mut made.outcome)?;
                let Some(rewritten) = rewritten else {
                    segments.push(segment);
                    continue;
                };
                is_changed = true;
                made.replaced.insert(segment.split.id.clone());
                made.outcome.documents += rewritten.dropped_count();
                match rewritten.left {
                    None => made.outcome.splits_dropped += 1,
                    Some(_) => made.outcome.splits_rewritten += 1,
                }
                segments.extend(self.segment_without(place, &segment, rewritten)?);
            }
            shard.segments = segments;
        }
        Ok(is_changed.then_some(shards))
    }

    /// Whether a split of an index may hold events of a tenant.
    pub(super) fn may_hold(&self, index: &IndexManifest, split: &SplitRef, tenant: &str) -> bool {
        let is_unknown = || self.repositories.is_unknown(tenant, &split.id);
        holds(index, split, tenant).unwrap_or_else(is_unknown)
    }

    /// Returns a segment without the documents that were dropped from its split. Its deletes are renumbered.
    fn segment_without(
        &self,
        place: &Place<'_>,
        segment: &SnapshotSegment,
        rewritten: RewrittenSplit,
    ) -> Result<Option<SnapshotSegment>> {
        let Some(split) = rewritten.left else {
            return Ok(None);
        };
        let io = self.repositories.io()?;
        let Some(deletes) = &segment.deletes else {
            return Ok(Some(SnapshotSegment { split, deletes: None }));
        };
        let docs = segment.split.docs;
        let bytes: Bytes = io.block_on(place.repository.deletes(deletes))?;
        let deleted = DeleteSet::from_bytes(&bytes, docs)
            .ok_or_else(|| Error::new(ErrorKind::Repository, "the deletes of a split do not fit it"))?;
        let deleted = deleted.without(&DeleteSet::from_runs(&rewritten.dropped), docs);
        let deletes = match deleted.count() {
            0 => None,
            count => Some(io.block_on(place.repository.put_deletes(deleted.to_bytes(), count))?),
        };
        Ok(Some(SnapshotSegment { split, deletes }))
    }

    /// Returns the rewritten form of a split, made now or earlier; `None`: it holds no events of the tenant.
    fn rewritten_split(
        &self,
        place: &Place<'_>,
        index: &IndexMetadata,
        shard: u32,
        segment: &SnapshotSegment,
        state: &State,
        outcome: &mut RewrittenSnapshot,
    ) -> Result<Option<RewrittenSplit>> {
        let split = &segment.split;
        let known = self.repositories.rewritten.lock().split(&split.id, state);
        if let Some((known, is_named)) = known {
            let objects = known.left.iter().map(|left| (left.key(), left.len));
            let is_there = is_named
                || self
                    .repositories
                    .io()?
                    .block_on(place.repository.lacking(objects.collect()))?
                    .is_empty();
            if is_there {
                return Ok(Some(known));
            }
        }
        let made = self.write_without(place, index, shard, segment)?;
        let mut rewritten = self.repositories.rewritten.lock();
        match &made {
            Some(made) => {
                outcome.written_bytes += made.left.as_ref().map_or(0, |left| left.len);
                rewritten.put(&split.id, made.clone());
                // A split that lists no tenants would be checked again.
                if let Some(left) = made.left.as_ref().filter(|left| left.tenants.is_none()) {
                    rewritten.note_clean(place.tenant, &left.id);
                }
            }
            None if split.tenants.is_none() => rewritten.note_clean(place.tenant, &split.id),
            None => {
                return Err(Error::new(
                    ErrorKind::Repository,
                    format!(
                        "[{}] the manifest says that split [{}] holds events of the tenant, but it holds none",
                        place.repository.name(),
                        split.id
                    ),
                ));
            }
        }
        Ok(made)
    }

    /// Downloads a split, writes it without the tenant, and uploads the result.
    fn write_without(
        &self,
        place: &Place<'_>,
        index: &IndexMetadata,
        shard: u32,
        segment: &SnapshotSegment,
    ) -> Result<Option<RewrittenSplit>> {
        let split = &segment.split;
        self.check_scratch_room(&index.name, split.len.max(split.segment_bytes) * SCRATCH_FACTOR)?;
        let folder = ScratchFolder::new(
            &self.node.config.disk,
            &self.node.config.path_data,
            &self.repositories.fresh_uuid(),
        )?;
        let object = folder.path.join("object");
        self.download(place.repository, segment, &object, &|_| (), place.go_on)?;
        let restored = RestoredSegment {
            bytes: Arc::new(WholeSplit::new(self.node.config.disk.map(&object)?, split.salt)),
            split: split.clone(),
            deletes: None,
        };
        let config = ShardConfig {
            dir: folder.path.join("shard"),
            ..self.node.factory.shard_config(index, shard)?
        };
        let Some(without) = Shard::without_tenant(config, restored, place.tenant, place.go_on)? else {
            return Ok(None);
        };
        let left = match &without.left {
            Some(left) => Some(self.upload_left(place, left, &folder.path.join("rewritten"))?),
            None => None,
        };
        Ok(Some(RewrittenSplit {
            left,
            dropped: without.dropped.runs().into(),
        }))
    }

    fn upload_left(&self, place: &Place<'_>, left: &FrozenSegment, path: &Path) -> Result<SplitRef> {
        let mut out =
            BufWriter::with_capacity(WRITE_BUFFER_BYTES, AppendWriter::create(&*self.node.config.disk, path)?);
        let split = write_split(left, &mut out, place.go_on)?;
        out.flush()?;
        drop(out);
        let file = LocalFile::new(&self.node.config.disk, path);
        let uploaded = self
            .repositories
            .io()?
            .block_on(place.repository.store().upload(&split.key(), &file));
        uploaded.map_err(|error| {
            let reason = format!("[{}:{}] cannot write a split", place.repository.name(), place.snapshot);
            Error::new(Error::from(error.clone()).kind(), reason).caused_by(error)
        })?;
        Ok(split)
    }

    fn check_scratch_room(&self, index: &str, bytes: u64) -> Result<()> {
        self.devices.hot.look_if_near();
        self.devices.hot.check(index)?;
        match self.devices.hot.room_bytes() {
            room if room > bytes => Ok(()),
            room => Err(Error::new(
                ErrorKind::DiskFull,
                format!(
                    "rewriting a split of [{index}] takes {bytes} bytes of disk for a while: {room} bytes may be written before \
                     the flood-stage watermark"
                ),
            )),
        }
    }

    /// Returns the filter tables for the current splits of an index. A table that covers a replaced split is dropped:
    /// its filters contain values of the tenant's events.
    fn tables_without(
        &self,
        place: &Place<'_>,
        (uuid, name): (&str, &str),
        before: &IndexManifest,
        shards: &[ShardManifest],
        replaced: &HashSet<String>,
        state: &State,
    ) -> Result<Vec<FilterTableRef>> {
        let replaced: BTreeSet<ObjectId> = replaced.iter().filter_map(|id| ObjectId::parse(id)).collect();
        let mut tables = self.repositories.rewritten.lock().tables(uuid, state);
        if let Ok(cache) = self.mounts.regions() {
            for table in &before.filters {
                let open = FilterTable::open(cache, Arc::clone(place.repository.store()), table);
                // A table that cannot be read now is written again.
                let open = self.repositories.io()?.block_on(open);
                if open.is_ok_and(|open| !open.splits().iter().any(|id| replaced.contains(id))) {
                    tables.push(table.clone());
                }
            }
        }
        let mut seen = HashSet::new();
        tables.retain(|table| seen.insert(table.id.clone()));
        let mut known = ExistingObjects::default();
        known.tables.insert(name.to_owned(), tables);
        let indices = BTreeMap::from([(name.to_owned(), shards.to_vec())]);
        self.make_tables(place.repository, place.go_on, &indices, &mut known)?;
        Ok(known.tables.remove(name).unwrap_or_default())
    }
}
