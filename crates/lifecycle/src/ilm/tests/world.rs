//! Simulated node of metadata and numbers of events; a test can end its process at any point.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use firn_engine::snapshot::{
    DamagedObject, SnapshotInfo, SnapshotState, Verification, VerificationState, VerifySnapshot,
};
use firn_model::metadata::{Command, IlmCommand, IndexMetadata, Metadata, Outcome, RolloverFacts};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::super::{Effects, Ilm, IlmParts, IndexSize, MountedAs, WaitEnd};

pub(super) const HOUR_MS: i64 = 3_600_000;
pub(super) const START_MS: i64 = 1_767_225_600_000;

/// State that survives the end of the process.
pub(super) struct World {
    metadata: Mutex<Arc<Metadata>>,
    ids: AtomicU64,
    pub(super) now_ms: AtomicI64,
    /// Events and segments, by uuid of the index.
    disk: Mutex<BTreeMap<String, (u64, u64)>>,
    /// Snapshot and its number of events, by repository and name.
    pub(super) snapshots: Mutex<BTreeMap<(String, String), (SnapshotInfo, u64)>>,
    /// Moments until the process ends; negative: it does not.
    moments_left: AtomicI64,
    has_ended: AtomicBool,
    /// The next snapshot lacks its shard.
    pub(super) is_next_snapshot_broken: AtomicBool,
    /// Number of events that mounted indices lack.
    pub(super) lost_in_mounts: AtomicU64,
    /// Shards of every index that are not on their preferred tier yet.
    pub(super) shards_to_move: AtomicU64,
    /// Why they wait.
    pub(super) move_waits_for: Mutex<Option<String>>,
    /// Bytes verified between two checks, of [`SNAPSHOT_BYTES`]; 0: all of them by the first check.
    pub(super) read_back_speed: AtomicU64,
    /// Damaged objects of the store, until a snapshot writes them again.
    pub(super) damage: Mutex<Vec<DamagedObject>>,
    /// Ended verifications.
    pub(super) ended: Mutex<Vec<VerifySnapshot>>,
}

/// Bytes of every snapshot.
pub(super) const SNAPSHOT_BYTES: u64 = 1000;

impl World {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            metadata: Mutex::default(),
            ids: AtomicU64::new(0),
            now_ms: AtomicI64::new(START_MS),
            disk: Mutex::default(),
            snapshots: Mutex::default(),
            moments_left: AtomicI64::new(-1),
            has_ended: AtomicBool::new(false),
            is_next_snapshot_broken: AtomicBool::new(false),
            lost_in_mounts: AtomicU64::new(0),
            shards_to_move: AtomicU64::new(0),
            move_waits_for: Mutex::default(),
            read_back_speed: AtomicU64::new(0),
            damage: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> Arc<Metadata> {
        Arc::clone(&self.metadata.lock())
    }

    pub(super) fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Ends the process after a number of moments: before or after one of its effects.
    pub(super) fn end_after(&self, moments: i64) {
        self.moments_left.store(moments, Ordering::Relaxed);
        self.has_ended.store(false, Ordering::Relaxed);
    }

    /// Restarts the process; returns whether it had ended.
    pub(super) fn restart(&self) -> bool {
        self.moments_left.store(-1, Ordering::Relaxed);
        self.has_ended.swap(false, Ordering::Relaxed)
    }

    fn moment(&self) -> Result<()> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Err(Error::internal("the process has ended"));
        }
        if self.moments_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.has_ended.store(true, Ordering::Relaxed);
            return Err(Error::internal("the process ends"));
        }
        Ok(())
    }

    /// Changes metadata like an engine.
    pub(super) fn apply(&self, mut command: Command) -> Result<Outcome> {
        let mut metadata = self.metadata.lock();
        let now_ms = self.now_ms.load(Ordering::Relaxed);
        if let Command::Rollover { target, facts, .. } = &mut command {
            let written = metadata.data_streams.get(target.as_str());
            let written = written
                .and_then(|stream| metadata.write_index(stream, now_ms))
                .unwrap_or(target);
            let aliased = metadata.indices.values().find(|index| {
                let alias = index.aliases.get(target.as_str());
                alias.is_some_and(|alias| alias.is_write_index != Some(false))
            });
            let index = metadata.indices.get(written).or(aliased);
            let docs = index.map_or(0, |index| self.docs_of(index));
            *facts = RolloverFacts {
                doc_count: docs,
                shard_doc_count_max: docs,
                ..RolloverFacts::default()
            };
        }
        let (next, outcome) = metadata.apply(&command, now_ms, &mut || {
            format!("{:022}", self.ids.fetch_add(1, Ordering::Relaxed))
        })?;
        for (name, index) in &next.indices {
            // After a crash, metadata is read from the disk.
            let read = IndexMetadata::from_json(&index.to_json())?;
            assert_eq!(read, **index, "{name}");
        }
        *metadata = next;
        Ok(outcome)
    }

    fn docs_of(&self, index: &IndexMetadata) -> u64 {
        let disk = self.disk.lock();
        disk.get(&index.uuid).map_or(0, |(docs, _)| *docs)
    }

    /// Writes events to the write index of a data stream, or to an index.
    pub(super) fn write(&self, target: &str, docs: u64) {
        let metadata = self.state();
        let now_ms = self.now_ms.load(Ordering::Relaxed);
        let stream = metadata.data_streams.get(target);
        let name = stream
            .and_then(|stream| metadata.write_index(stream, now_ms))
            .unwrap_or(target);
        let index = &metadata.indices[name];
        assert_ne!(
            index.settings.typed.get("index.blocks.write"),
            Some(&json!("true")),
            "{name} takes writes"
        );
        let mut disk = self.disk.lock();
        let (events, segments) = disk.entry(index.uuid.clone()).or_default();
        *events += docs;
        *segments += 1;
    }

    /// Returns the events that a search of a data stream finds.
    pub(super) fn found_in(&self, stream: &str) -> u64 {
        let metadata = self.state();
        let indices = metadata.data_streams.get(stream).map(|stream| stream.indices.clone());
        indices
            .unwrap_or_default()
            .iter()
            .map(|name| self.docs_of(&metadata.indices[name]))
            .sum()
    }

    /// Starts a fresh process on the surviving state.
    pub(super) fn process(self: &Arc<Self>) -> Ilm {
        let clock = Arc::clone(self);
        let ids = Arc::clone(self);
        Ilm::new(IlmParts {
            effects: Arc::new(RecordedEffects(Arc::clone(self), Mutex::default())),
            now_ms: Arc::new(move || clock.now_ms.load(Ordering::Relaxed)),
            random: Arc::new(move || ids.ids.fetch_add(1, Ordering::Relaxed)),
            type_of: |_| "an_exception",
        })
    }

    /// Executes all due work, until nothing is due.
    pub(super) fn run(self: &Arc<Self>, ilm: &Ilm) {
        let mut occasion = WaitEnd::Poll;
        for _ in 0..20 {
            let Ok(due) = now(ilm.due(occasion)) else { return };
            for (name, lane) in &due {
                now(ilm.advance(name, *lane, occasion));
            }
            let _ = now(ilm.remove_orphans());
            if due.is_empty() {
                return;
            }
            occasion = WaitEnd::Between;
        }
        panic!("it never comes to rest");
    }

    pub(super) fn put_policy(&self, name: &str, phases: Value) {
        let policy = json!({"phases": phases});
        let name = name.to_owned();
        self.apply(Command::Ilm(IlmCommand::PutPolicy { name, policy }))
            .unwrap();
    }

    /// Creates a data stream whose indices follow a policy.
    pub(super) fn create_stream(&self, stream: &str, policy: &str) {
        self.apply(Command::PutIndexTemplate {
            name: stream.to_owned(),
            body: json!({
                "index_patterns": [stream],
                "data_stream": {},
                "template": {"settings": {"index.lifecycle.name": policy}},
            }),
            create: false,
        })
        .unwrap();
        self.apply(Command::CreateDataStream {
            name: stream.to_owned(),
        })
        .unwrap();
    }

    pub(super) fn create_index(&self, name: &str, settings: Value, aliases: Option<Value>) {
        self.apply(Command::CreateIndex {
            name: name.to_owned(),
            settings,
            mappings: None,
            aliases,
        })
        .unwrap();
    }

    /// Returns phase, action and step of an index.
    pub(super) fn at(&self, name: &str) -> String {
        let metadata = self.state();
        let execution = metadata.indices[name].execution.as_ref();
        execution.map_or_else(String::new, |execution| {
            let key = &execution.key;
            format!("{}/{}/{}", key.phase, key.action, key.step)
        })
    }

    pub(super) fn info(&self, name: &str) -> Value {
        let execution = self.state().indices[name].execution.clone();
        execution
            .and_then(|execution| execution.step_info.clone())
            .unwrap_or_default()
    }
}

/// Returns the result of a future that never waits.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the world waits for nothing"),
    }
}

/// Effects with a moment before and one after each. The map holds the bytes that this process has verified.
struct RecordedEffects(Arc<World>, Mutex<BTreeMap<VerifySnapshot, u64>>);

impl RecordedEffects {
    fn does<T>(&self, effect: impl FnOnce(&World) -> Result<T>) -> Result<T> {
        self.0.moment()?;
        let done = effect(&self.0)?;
        self.0.moment()?;
        Ok(done)
    }
}

#[async_trait]
impl Effects for RecordedEffects {
    async fn metadata(&self) -> Result<Arc<Metadata>> {
        match self.0.has_ended.load(Ordering::Relaxed) {
            true => Err(Error::internal("the process has ended")),
            false => Ok(self.0.state()),
        }
    }

    async fn execute(&self, command: Command) -> Result<Outcome> {
        if let Command::Ilm(IlmCommand::Replace { new, .. }) = &command {
            let new = Arc::clone(&self.0.state().indices[new]);
            let read = self.1.lock();
            let mut whole = read.iter().filter(|(_, bytes)| **bytes == SNAPSHOT_BYTES);
            assert!(
                whole.any(|(request, _)| new.text_setting(SNAPSHOT) == Some(&request.snapshot)),
                "nothing goes before its snapshot was read back"
            );
        }
        self.does(|world| world.apply(command))
    }

    async fn force_merge(&self, index: &str, segments: u64) -> Result<()> {
        self.does(|world| {
            let uuid = world.state().indices[index].uuid.clone();
            if let Some((_, has)) = world.disk.lock().get_mut(&uuid) {
                *has = segments.min(*has);
            }
            Ok(())
        })
    }

    async fn size(&self, index: &str) -> Result<IndexSize> {
        let uuid = self.0.state().indices[index].uuid.clone();
        let (docs, segments) = self.0.disk.lock().get(&uuid).copied().unwrap_or_default();
        Ok(IndexSize {
            shard_docs_max: docs,
            shard_segments_max: segments,
            shards_to_move: Some(self.0.shards_to_move.load(Ordering::Relaxed)),
            move_waits_for: self.0.move_waits_for.lock().clone(),
        })
    }

    async fn count(&self, index: &str) -> Result<u64> {
        Ok(self.0.docs_of(&self.0.state().indices[index]))
    }

    async fn snapshot(&self, repository: &str, name: &str) -> Result<Option<SnapshotInfo>> {
        let key = (repository.to_owned(), name.to_owned());
        Ok(self.0.snapshots.lock().get(&key).map(|(info, _)| info.clone()))
    }

    async fn create_snapshot(&self, repository: &str, name: &str, index: &str) -> Result<SnapshotInfo> {
        self.does(|world| {
            let key = (repository.to_owned(), name.to_owned());
            assert!(!world.snapshots.lock().contains_key(&key), "a name is used once");
            let is_broken = world.is_next_snapshot_broken.swap(false, Ordering::Relaxed);
            let info = SnapshotInfo {
                name: name.to_owned(),
                uuid: name.to_owned(),
                repository: repository.to_owned(),
                indices: vec![index.to_owned()],
                data_streams: Vec::new(),
                include_global_state: false,
                metadata: None,
                state: if is_broken {
                    SnapshotState::Failed
                } else {
                    SnapshotState::Success
                },
                start_ms: 0,
                end_ms: Some(0),
                total_shards: 1,
                successful_shards: u32::from(!is_broken),
                failures: Vec::new(),
                index_details: BTreeMap::new(),
            };
            world.damage.lock().clear();
            let docs = world.docs_of(&world.state().indices[index]);
            world.snapshots.lock().insert(key, (info.clone(), docs));
            Ok(info)
        })
    }

    async fn delete_snapshot(&self, repository: &str, name: &str) -> Result<()> {
        self.does(|world| {
            let metadata = world.state();
            let mut mounted = metadata
                .indices
                .values()
                .filter_map(|index| index.text_setting(SNAPSHOT));
            if mounted.any(|mounted| mounted == name) {
                return Err(Error::new(ErrorKind::Conflict, "an index is mounted from it"));
            }
            let key = (repository.to_owned(), name.to_owned());
            world.snapshots.lock().remove(&key);
            Ok(())
        })
    }

    async fn verify(&self, request: &VerifySnapshot) -> Result<Verification> {
        self.does(|world| {
            let key = (request.repository.clone(), request.snapshot.clone());
            if !world.snapshots.lock().contains_key(&key) {
                return Err(Error::new(ErrorKind::SnapshotMissing, "it is gone"));
            }
            let mut all = self.1.lock();
            let read = all.entry(request.clone()).or_default();
            *read = match world.read_back_speed.load(Ordering::Relaxed) {
                0 => SNAPSHOT_BYTES,
                speed => (*read + speed).min(SNAPSHOT_BYTES),
            };
            let damage = world.damage.lock().clone();
            let state = match (*read == SNAPSHOT_BYTES, damage.is_empty()) {
                (false, _) => VerificationState::Running,
                (true, true) => VerificationState::Whole,
                (true, false) => VerificationState::Damaged(damage),
            };
            let now = Verification {
                bytes_verified: *read,
                bytes_total: SNAPSHOT_BYTES,
                objects_verified: 0,
                objects_total: 1,
                state,
            };
            if matches!(now.state, VerificationState::Damaged(_)) {
                all.remove(request);
            }
            Ok(now)
        })
    }

    async fn end_verification(&self, request: &VerifySnapshot) -> Result<()> {
        self.1.lock().remove(request);
        self.0.ended.lock().push(request.clone());
        Ok(())
    }

    async fn mount(&self, mount: MountedAs) -> Result<()> {
        self.does(|world| {
            let key = (mount.repository.clone(), mount.snapshot.clone());
            let docs = world.snapshots.lock()[&key].1;
            let settings = json!({"index.blocks.write": "true", "index.hidden": "true"});
            world.apply(Command::CreateIndex {
                name: mount.name.clone(),
                settings,
                mappings: None,
                aliases: None,
            })?;
            let mut metadata = world.metadata.lock();
            let mut next = Metadata::clone(&metadata);
            let mut index = IndexMetadata::clone(&next.indices[&mount.name]);
            for (name, value) in [
                ("index.store.type", "snapshot"),
                ("index.store.snapshot.repository_name", &mount.repository),
                (SNAPSHOT, &mount.snapshot),
                ("index.store.snapshot.index_name", &mount.index),
                ("index.store.snapshot.partial", &mount.partial.to_string()),
            ] {
                index.settings.typed.insert(name.to_owned(), value.into());
            }
            let mut index = IndexMetadata::from_json(&index.to_json())?;
            let lost = world.lost_in_mounts.load(Ordering::Relaxed);
            world.disk.lock().insert(index.uuid.clone(), (docs - lost, 1));
            index.name.clone_from(&mount.name);
            next.indices.insert(Arc::new(index));
            *metadata = Arc::new(next);
            Ok(())
        })
    }
}

const SNAPSHOT: &str = "index.store.snapshot.snapshot_name";
