//! Creation of a snapshot: segments become splits, manifests name them, and one commit makes the snapshot visible.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_engine::snapshot::{CreateSnapshot, ShardStage, SnapshotInfo};
use firn_model::metadata::{DataStream, GlobalState, IndexMetadata, Metadata, resolve};
use firn_model::names::resolve_date_math;
use firn_model::repository::{invalid_snapshot_name, validate_snapshot_name};
use firn_model::{Error, ErrorKind, Result};
use firn_segment::frozen_segment::FrozenSegment;
use firn_shard::Shard;
use firn_storage::disk::{AppendWriter, Disk};
use firn_storage::object::LocalFile;
use firn_storage::repository::{
    Added, IndexManifest, MissingShard, Repository, ShardManifest, SnapshotEntry, SnapshotManifest, SnapshotOutcome,
    SnapshotSegment, Writing,
};

use super::existing_objects::{ExistingObjects, known};
use super::running_snapshots::{Running, RunningList, aborted};
use super::service::SnapshotService;
use super::status::info_of;
use super::{Use, Work, status};
use crate::node::state::{IndexState, ShardSlot};
use crate::operators::check_operator;

/// How often a snapshot may lose objects that it relies on to a sweep before it fails.
const SWEPT_MAX: usize = 16;

/// How often an index may be opened and closed while a snapshot freezes one of its shards.
const OPENED_MAX: usize = 8;

/// Contents of a snapshot, decided before the snapshot runs.
pub(crate) struct Plan {
    repository: Arc<Repository>,
    _used: Use,
    running: Arc<Running>,
    /// The list that holds `running`.
    list: Arc<RunningList>,
    indices: Vec<Arc<IndexState>>,
    data_streams: Vec<Arc<DataStream>>,
    metadata: Arc<Metadata>,
}

impl Plan {
    /// Returns the state of the snapshot while it runs.
    pub(crate) fn info(&self) -> SnapshotInfo {
        self.running.info()
    }
}

impl Plan {
    /// Removes deleted indices from the plan, also from its data streams.
    fn leave_out(&mut self, gone: &HashSet<String>) {
        if gone.is_empty() {
            return;
        }
        self.indices.retain(|index| !gone.contains(&*index.name));
        for stream in &mut self.data_streams {
            if stream.indices.iter().any(|name| gone.contains(name)) {
                Arc::make_mut(stream).indices.retain(|name| !gone.contains(name));
            }
        }
        self.data_streams.retain(|stream| !stream.indices.is_empty());
        gone.iter().for_each(|name| self.running.leave_out(name));
    }
}

/// Removes the snapshot from the list: it ended, or it never started because a limit refused it.
impl Drop for Plan {
    fn drop(&mut self) {
        self.list
            .0
            .lock()
            .retain(|running| !Arc::ptr_eq(running, &self.running));
        self.running.end();
    }
}

/// A shard whose files are held until the snapshot is committed.
struct HeldShard {
    index: Arc<IndexState>,
    number: u32,
    next_seq_no: u64,
    /// `Err`: the snapshot lacks the shard.
    segments: Result<Vec<FrozenSegment>>,
}

impl HeldShard {
    fn new(index: &Arc<IndexState>, slot: &ShardSlot, next_seq_no: u64, segments: Result<Vec<FrozenSegment>>) -> Self {
        Self {
            index: Arc::clone(index),
            number: slot.number,
            next_seq_no,
            segments,
        }
    }
}

impl SnapshotService {
    /// Validates a request and adds it to the list of running snapshots; [`SnapshotService::make_snapshot`] does the
    /// work.
    pub(crate) async fn plan_snapshot(&self, ctx: &RequestContext, request: CreateSnapshot) -> Result<Plan> {
        check_operator(ctx)?;
        let (repository, used) = self.repositories.repository_for(&request.repository, Work::Snapshot)?;
        repository.check_writable("create snapshot")?;
        let start_ms = self.node.now_ms();
        let name = resolve_date_math(&request.name, start_ms)?;
        validate_snapshot_name(&request.repository, &name)?;
        if repository.state().await?.snapshots.contains_key(&name) {
            let why = "snapshot with the same name already exists";
            return Err(invalid_snapshot_name(&request.repository, &name, why));
        }
        let state = self.node.state();
        let resolved = resolve(
            &request.target.expression,
            request.target.options,
            &state.metadata,
            start_ms,
        )?;
        let indices: Vec<Arc<IndexState>> = resolved
            .iter()
            .filter_map(|resolved| state.index(&resolved.name).ok().cloned())
            .collect();
        let held: HashSet<&str> = indices.iter().map(|index| &*index.name).collect();
        let is_whole = |stream: &&Arc<DataStream>| stream.indices.iter().all(|name| held.contains(name.as_str()));
        let data_streams: Vec<Arc<DataStream>> =
            state.metadata.data_streams.values().filter(is_whole).cloned().collect();
        let shards = indices
            .iter()
            .flat_map(|index| index.shards.iter().map(|slot| (index.name.to_string(), slot.number)));
        let running = Arc::new(Running::new(
            request,
            name.clone(),
            self.repositories.fresh_uuid(),
            start_ms,
            shards.collect::<Vec<_>>().into_iter(),
            data_streams.iter().map(|stream| stream.name.clone()).collect(),
            ctx.lasting.clone(),
        ));
        let mut list = self.repositories.running.0.lock();
        let is_other = |other: &Arc<Running>| other.repository == running.repository && other.name == name;
        if list.iter().any(is_other) {
            let why = "snapshot with the same name is already in-progress";
            return Err(invalid_snapshot_name(&running.repository, &name, why));
        }
        list.push(Arc::clone(&running));
        drop(list);
        self.repositories
            .failed
            .forget(&running.repository, |failed| failed == name);
        Ok(Plan {
            repository,
            _used: used,
            running,
            list: Arc::clone(&self.repositories.running),
            indices,
            data_streams,
            metadata: Arc::clone(&state.metadata),
        })
    }

    /// Creates the snapshot. Blocks until it ends, so the caller must be on a thread that may block.
    pub(crate) fn make_snapshot(&self, mut plan: Plan) -> Result<SnapshotInfo> {
        let made = self.make(&mut plan);
        if let Err(error) = &made {
            let (repository, snapshot) = (&plan.running.repository, &plan.running.name);
            tracing::warn!(repository, snapshot, %error, "cannot create the snapshot");
            // Before the snapshot leaves the list of running ones. A cancelled snapshot is not a failed one: its
            // canceller wanted that.
            if !plan.running.cancel.is_cancelled() {
                self.repositories.failed.note(&plan.running, error, self.node.now_ms());
            }
        }
        made
    }

    fn make(&self, plan: &mut Plan) -> Result<SnapshotInfo> {
        let io = self.repositories.io()?;
        let repository = Arc::clone(&plan.repository);
        let repository = &repository;
        let writing = io.block_on(repository.begin_writing())?;
        let made = self.make_while_writing(plan, &writing);
        if made.is_err() && !self.node.is_closing() {
            // Best effort: the next snapshot removes the objects that remain now.
            let cleaned = io.block_on(async {
                repository.end_writing(writing).await?;
                repository.cleanup().await
            });
            if let Err(error) = cleaned {
                tracing::warn!(repository = repository.name(), %error, "cannot remove unused objects of a snapshot");
            }
            return made;
        }
        if made.is_ok()
            && let Err(error) = io.block_on(repository.end_writing(writing))
        {
            tracing::warn!(repository = repository.name(), %error, "cannot remove the marker object of a snapshot");
        }
        made
    }

    fn make_while_writing(&self, plan: &mut Plan, writing: &Writing) -> Result<SnapshotInfo> {
        let io = self.repositories.io()?;
        let mut held = self.hold(plan)?;
        let plan = &*plan;
        let (repository, running) = (&plan.repository, &plan.running);
        let metadata = self.metadata_of(&plan.indices);
        let mut basis = writing.basis.clone();
        let names = plan.indices.iter().map(|index| index.name.to_string());
        let mut known = io.block_on(known(repository, basis.state(), names))?;
        // Objects that a verification found damaged are written again under the same name, because the name is a hash
        // of the content. A concurrent reader reads the old or the new object, two writers write the same bytes, and
        // every snapshot that names the object has it whole.
        known.forget(&self.repositories.verifications.damaged_in(&basis.state().uuid));
        for _ in 0..SWEPT_MAX {
            let mut needed = HashSet::new();
            let indices = self.write_shards(plan, &basis.state().uuid, &mut held, &mut known, &mut needed)?;
            let segments = indices.values().flatten().flat_map(|shard| &shard.segments);
            let splits = segments.map(|segment| &segment.split);
            if !io.block_on(known.has_all(repository, splits))? {
                continue;
            }
            let go_on = || running.cancel.check().map_err(|_| aborted(running));
            self.make_tables(repository, &go_on, &indices, &mut known)?;
            needed.extend(known.tables.values().flatten().map(|table| table.key()));
            let manifest = self.manifest(plan, &metadata, &held, &indices, &known)?;
            needed.extend(manifest.indices.values().map(|index| index.key()));
            running.cancel.check().map_err(|_| aborted(running))?;
            let entry = SnapshotEntry {
                name: running.name.clone(),
                uuid: running.uuid.clone(),
                start_ms: running.start_ms,
                manifest: io.block_on(repository.put_snapshot(&manifest))?,
            };
            match io.block_on(repository.add_snapshot(&entry, &needed, &basis))? {
                Added::Committed => return Ok(info_of(repository.name(), &manifest)),
                Added::Condemned(condemned) => {
                    known.forget(&condemned.keys);
                    basis = io.block_on(repository.wait_for_sweeps(condemned))?;
                }
            }
        }
        Err(Error::new(
            ErrorKind::SnapshotInProgress,
            format!(
                "[{}:{}] other writers removed objects that the snapshot needs [{SWEPT_MAX}] times; try again",
                running.repository, running.name
            ),
        ))
    }

    /// Returns the current metadata of the indices: writes since the request may have added fields to the mappings.
    fn metadata_of(&self, indices: &[Arc<IndexState>]) -> Vec<Arc<IndexMetadata>> {
        let state = self.node.state();
        let newest = |index: &Arc<IndexState>| match state.index(&index.name) {
            Ok(own) if own.metadata.uuid == index.metadata.uuid => Arc::clone(&own.metadata),
            // The index was deleted after its shards were held.
            _ => Arc::clone(&index.metadata),
        };
        indices.iter().map(newest).collect()
    }

    /// Holds the files of every shard in their current state.
    fn hold(&self, plan: &mut Plan) -> Result<Vec<HeldShard>> {
        let mut held = Vec::new();
        let mut gone = HashSet::new();
        for index in &plan.indices {
            let is_held = !self.is_gone(plan, index)? && self.hold_index(&plan.running, index, &mut held)?;
            if !is_held {
                self.is_gone(plan, index)?;
                gone.insert(index.name.to_string());
            }
        }
        plan.leave_out(&gone);
        Ok(held)
    }

    /// Whether an index was deleted after the request. If the request named the index itself, and not a pattern, this
    /// is an error.
    fn is_gone(&self, plan: &Plan, index: &IndexState) -> Result<bool> {
        let target = &plan.running.request.target;
        match self.node.check_wanted(index) {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => {
                let is_missed = target.expression.iter().any(|name| **name == *index.name);
                match is_missed && !target.options.ignore_unavailable {
                    true => Err(error),
                    false => Ok(true),
                }
            }
            _ => Ok(false),
        }
    }

    /// Returns false if the index was deleted meanwhile; then none of its files are held.
    fn hold_index(&self, running: &Running, index: &Arc<IndexState>, held: &mut Vec<HeldShard>) -> Result<bool> {
        if is_mounted(&index.metadata) {
            // Its splits are in a repository already; its settings name that repository.
            for slot in index.shards.iter() {
                running.note(&index.name, slot.number, |status| status.stage = ShardStage::Done);
            }
            return Ok(true);
        }
        let begin = held.len();
        for slot in index.shards.iter() {
            running.cancel.check().map_err(|_| aborted(running))?;
            let frozen = self.freeze(index, slot);
            let Err(error) = &frozen else {
                let (next_seq_no, segments) = frozen?;
                held.push(HeldShard::new(index, slot, next_seq_no, Ok(segments)));
                continue;
            };
            if error.kind() == ErrorKind::IndexNotFound {
                held.truncate(begin);
                return Ok(false);
            }
            if !running.request.partial {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "[{}:{}] shard [{}][{}] is not started, and the request does not set [partial]",
                        running.repository, running.name, index.name, slot.number
                    ),
                )
                .caused_by(error.clone()));
            }
            running.note(&index.name, slot.number, |status| {
                status.stage = ShardStage::Failure;
                status.reason = Some(error.to_string());
            });
            held.push(HeldShard::new(index, slot, 0, Err(error.clone())));
        }
        Ok(true)
    }

    fn freeze(&self, index: &IndexState, slot: &ShardSlot) -> Result<Frozen> {
        let mut frozen = slot.on_shard(freeze);
        // Other requests may open and close the index meanwhile; retry a limited number of times.
        for _ in 0..OPENED_MAX {
            let Err(error) = &frozen else { break };
            if error.kind() == ErrorKind::IndexClosed {
                if let Some(held) = self.freeze_closed(index, slot)? {
                    return Ok(held);
                }
            } else if !slot.reopen.load(Ordering::Acquire) {
                // Another thread may be opening the shard now; wait for it.
                drop(slot.opening.lock());
                frozen = slot.on_shard(freeze);
                match &frozen {
                    Err(error) if error.kind() != ErrorKind::IndexClosed && !slot.reopen.load(Ordering::Acquire) => {
                        break;
                    }
                    _ => continue,
                }
            }
            // The request that opened the index is about to open the shard too. If that fails, the shard holds the
            // error.
            let _ = self.opener.open_shard(index, slot);
            frozen = slot.on_shard(freeze);
        }
        frozen
    }

    /// Freezes a shard of a closed index; `None`: the index is open. The shard is open only while its files are being
    /// held, and serves no requests.
    fn freeze_closed(&self, index: &IndexState, slot: &ShardSlot) -> Result<Option<Frozen>> {
        let _exclusive = slot.opening.lock();
        match self.node.check_wanted(index) {
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::IndexClosed => {}
            Err(error) => return Err(error),
        }
        if slot.unsettled.load(Ordering::Acquire) {
            let why = "the shard is being moved to another device";
            return Err(Error::new(ErrorKind::Conflict, why).with_index(&*index.name));
        }
        // Two shards must never write to the same files.
        slot.end_retired();
        let shard = self.opener.open_files_of(index, slot.number)?;
        let frozen = freeze(&shard);
        let closed = shard.close();
        shard.quiesce();
        closed.and(frozen).map(Some)
    }

    /// Uploads the splits that the repository lacks. Returns the shards by index, and adds the keys of all named
    /// objects to `needed`.
    fn write_shards(
        &self,
        plan: &Plan,
        uuid: &str,
        held: &mut [HeldShard],
        known: &mut ExistingObjects,
        needed: &mut HashSet<String>,
    ) -> Result<BTreeMap<String, Vec<ShardManifest>>> {
        let mut indices: BTreeMap<String, Vec<ShardManifest>> = BTreeMap::new();
        for shard in held {
            let written = match &shard.segments {
                Ok(segments) => match self.write_shard(plan, uuid, shard, segments, known) {
                    Err(error) if error.kind() == ErrorKind::ShardDamaged => Err(error.with_index(&*shard.index.name)),
                    other => Ok(Some(other?)),
                },
                Err(_) => Ok(None),
            };
            let written = match written {
                // The error appears only now; a partial snapshot continues with the other shards.
                Err(error) if plan.running.request.partial => {
                    plan.running.note(&shard.index.name, shard.number, |status| {
                        status.stage = ShardStage::Failure;
                        status.reason = Some(error.to_string());
                    });
                    shard.segments = Err(error);
                    None
                }
                written => written?,
            };
            let manifest = written.unwrap_or(ShardManifest {
                shard: shard.number,
                next_seq_no: 0,
                segments: Vec::new(),
                missing: true,
            });
            for segment in &manifest.segments {
                needed.insert(segment.split.key());
                needed.extend(segment.deletes.as_ref().map(|deletes| deletes.key()));
            }
            indices.entry(shard.index.name.to_string()).or_default().push(manifest);
        }
        Ok(indices)
    }

    fn write_shard(
        &self,
        plan: &Plan,
        uuid: &str,
        shard: &HeldShard,
        segments: &[FrozenSegment],
        known: &mut ExistingObjects,
    ) -> Result<ShardManifest> {
        let io = self.repositories.io()?;
        let (running, repository) = (&plan.running, &plan.repository);
        let start_ms = self.node.now_ms();
        let is_new = |segment: &&FrozenSegment| !known.splits.contains_key(&segment.id());
        let new: Vec<u64> = segments.iter().filter(is_new).map(FrozenSegment::size_bytes).collect();
        running.note(&shard.index.name, shard.number, |status| {
            status.stage = ShardStage::Started;
            status.start_ms = start_ms;
            status.incremental.files += new.len() as u64;
            status.incremental.bytes += new.iter().sum::<u64>();
            status.total.files = segments.len() as u64;
            status.total.bytes = segments.iter().map(FrozenSegment::size_bytes).sum();
        });
        let mut parts = Vec::with_capacity(segments.len());
        for segment in segments {
            running.cancel.check().map_err(|_| aborted(running))?;
            let split = match known.splits.get(&segment.id()) {
                Some(split) => split.clone(),
                None => {
                    let of_shard = (&*shard.index.name, shard.number);
                    let split = self.upload_split(repository, segment, running, of_shard)?;
                    self.repositories.verifications.forget(uuid, &split.key());
                    known.seen.insert(split.key());
                    known.splits.insert(segment.id(), split.clone());
                    split
                }
            };
            let deletes = match segment.deletes() {
                Some(words) => Some(io.block_on(repository.put_deletes(words.to_vec(), segment.deleted_count()))?),
                None => None,
            };
            parts.push(SnapshotSegment { split, deletes });
        }
        running.note(&shard.index.name, shard.number, |status| {
            status.stage = ShardStage::Finalize;
            status.time_ms = (self.node.now_ms() - start_ms).max(0) as u64;
        });
        Ok(ShardManifest {
            shard: shard.number,
            next_seq_no: shard.next_seq_no,
            segments: parts,
            missing: false,
        })
    }

    /// Writes the manifests of the indices and returns the manifest of the snapshot.
    fn manifest(
        &self,
        plan: &Plan,
        metadata: &[Arc<IndexMetadata>],
        held: &[HeldShard],
        shards: &BTreeMap<String, Vec<ShardManifest>>,
        known: &ExistingObjects,
    ) -> Result<SnapshotManifest> {
        let io = self.repositories.io()?;
        let running = &plan.running;
        let mut indices = BTreeMap::new();
        for (index, metadata) in plan.indices.iter().zip(metadata) {
            let empty = |slot: &Arc<ShardSlot>| ShardManifest {
                shard: slot.number,
                next_seq_no: 0,
                segments: Vec::new(),
                missing: false,
            };
            let manifest = IndexManifest {
                // The device of a shard is local to this node.
                index: IndexMetadata {
                    tiers: BTreeMap::new(),
                    ..IndexMetadata::clone(metadata)
                }
                .to_json(),
                shards: match shards.get(&*index.name) {
                    Some(shards) => shards.clone(),
                    None => index.shards.iter().map(empty).collect(),
                },
                filters: match shards.contains_key(&*index.name) {
                    true => known.tables.get(&*index.name).cloned().unwrap_or_default(),
                    false => Vec::new(),
                },
            };
            let entry = io.block_on(plan.repository.put_index(&index.metadata.uuid, &manifest))?;
            indices.insert(index.name.to_string(), entry);
        }
        let missing: Vec<MissingShard> = held
            .iter()
            .filter_map(|shard| {
                let error = shard.segments.as_ref().err()?;
                Some(MissingShard {
                    index: shard.index.name.to_string(),
                    shard: shard.number,
                    reason: error.to_string(),
                })
            })
            .collect();
        let records = plan.indices.iter().map(|index| {
            let records = running.shards_of(&index.name);
            (index.name.to_string(), records.iter().map(status::record_of).collect())
        });
        Ok(SnapshotManifest {
            name: running.name.clone(),
            uuid: running.uuid.clone(),
            firn: env!("CARGO_PKG_VERSION").to_owned(),
            start_ms: running.start_ms,
            end_ms: self.node.now_ms(),
            outcome: match missing.is_empty() {
                true => SnapshotOutcome::Success,
                false => SnapshotOutcome::Partial,
            },
            indices,
            data_streams: plan
                .data_streams
                .iter()
                .map(|stream| (stream.name.clone(), stream.to_json()))
                .collect(),
            global: running
                .request
                .include_global_state
                .then(|| GlobalState::of(&plan.metadata).to_json()),
            metadata: running.request.metadata.clone(),
            missing,
            shards: records.collect(),
        })
    }
}

/// Whether an index is mounted, so that it has no local segments to save.
pub(super) fn is_mounted(index: &IndexMetadata) -> bool {
    let kind = index.settings.typed.get("index.store.type");
    kind.and_then(|kind| kind.as_str()) == Some("snapshot")
}

/// The next sequence number of a shard, and its frozen segments.
type Frozen = (u64, Vec<FrozenSegment>);

fn freeze(shard: &Shard) -> Result<Frozen> {
    let segments = shard.freeze()?;
    // Writes after the freeze only make it larger.
    let next_seq_no = shard.stats().max_seq_no.map_or(0, |last| last + 1);
    Ok((next_seq_no, segments))
}

/// A scratch file that is deleted on drop. After a crash, the next start removes it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    disk: Arc<dyn Disk>,
}

/// A scratch folder that is deleted on drop.
pub(super) struct ScratchFolder {
    pub(super) path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl ScratchFolder {
    /// Creates an empty folder in the scratch folder.
    pub(super) fn new(disk: &Arc<dyn Disk>, path_data: &Path, name: &str) -> Result<Self> {
        let path = scratch_dir(path_data).join(name);
        disk.create_dir_all(&path)?;
        Ok(Self {
            path,
            disk: Arc::clone(disk),
        })
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // If this fails, the next start removes the folder.
        let _ = self.disk.remove_dir_all(&self.path);
    }
}

impl Scratch {
    /// Names a file in the scratch folder, and creates that folder if it is missing.
    pub(super) fn new(disk: &Arc<dyn Disk>, path_data: &Path, name: &str) -> Result<Self> {
        let folder = scratch_dir(path_data);
        disk.create_dir_all(&folder)?;
        Ok(Self {
            path: folder.join(name),
            disk: Arc::clone(disk),
        })
    }

    /// Creates the file for writing.
    pub(super) fn create(&self) -> Result<AppendWriter> {
        Ok(AppendWriter::create(&*self.disk, &self.path)?)
    }

    /// Opens the file for an upload.
    pub(super) fn file(&self) -> LocalFile {
        LocalFile::new(&self.disk, &self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may never have been created.
        let _ = self.disk.remove_file(&self.path);
    }
}

/// `PATH_DATA/scratch`.
pub(crate) fn scratch_dir(path_data: &Path) -> PathBuf {
    path_data.join("scratch")
}
