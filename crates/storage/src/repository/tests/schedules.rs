//! Randomized schedules of two writers with clones, rewrites, deletions, sweeps, kills and store faults. A store that
//! decodes the log watches every write and every removal: no object that a snapshot names is ever removed, and a
//! snapshot is complete from its commit on.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use tokio::task::JoinHandle;

use super::*;
use crate::repository::manifest::{index_key, snapshot_key};
use crate::repository::references::content_of;

/// Number of schedules.
const SCHEDULES: u64 = 250;
/// Number of distinct splits: so few that snapshots share them.
const SPLITS: u8 = 5;
/// Concurrent tasks until the next kill.
const TASKS: usize = 10;
/// Kills per schedule.
const ROUNDS: usize = 3;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Event counts over all schedules.
#[derive(Debug, Default)]
struct Seen {
    committed: AtomicUsize,
    condemned: AtomicUsize,
    removed: AtomicUsize,
    clones: AtomicUsize,
    replaced: AtomicUsize,
    killed: AtomicUsize,
    violations: parking_lot::Mutex<Vec<String>>,
}

impl Seen {
    fn note(count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Store with random delays and faults that tracks the objects in use.
#[derive(Debug)]
struct Watched {
    inner: Arc<Store>,
    random: parking_lot::Mutex<fastrand::Rng>,
    /// Objects that each snapshot of the log names.
    in_use: parking_lot::Mutex<BTreeMap<String, BTreeSet<String>>>,
    seen: Arc<Seen>,
}

impl Watched {
    fn new(seed: u64, seen: &Arc<Seen>) -> Arc<Self> {
        Arc::new(Self {
            inner: Store::new(),
            random: parking_lot::Mutex::new(fastrand::Rng::with_seed(seed)),
            in_use: parking_lot::Mutex::default(),
            seen: Arc::clone(seen),
        })
    }

    fn chance(&self, one_in: u32) -> bool {
        self.random.lock().u32(..one_in) == 0
    }

    async fn wait(&self) {
        let turns = self.random.lock().u32(..4);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn fault(&self, key: &str) -> Result<(), ObjectError> {
        match self.chance(150) {
            true => Err(ObjectError::new(ObjectErrorKind::Unavailable, key, "a fault")),
            false => Ok(()),
        }
    }

    fn decoded<T: serde::de::DeserializeOwned>(&self, kind: &str, key: &str) -> Option<T> {
        let objects = self.inner.objects.lock();
        body::decode(kind, &objects.get(key)?.0).ok()
    }

    /// Returns all objects that a snapshot names; `Err`: the missing one.
    fn whole(&self, entry: &SnapshotEntry) -> Result<BTreeSet<String>, String> {
        let mut named = BTreeSet::from([snapshot_key(&entry.manifest)]);
        let manifest = snapshot_key(&entry.manifest);
        let manifest: SnapshotManifest = self.decoded("snapshot", &manifest).ok_or(manifest)?;
        for index in manifest.indices.values() {
            let key = index_key(&index.manifest);
            let index: IndexManifest = self.decoded("index", &key).ok_or_else(|| key.clone())?;
            named.insert(key);
            named.extend(content_of(&index).map(|(key, _)| key));
        }
        match named.iter().find(|key| !self.inner.has(key)) {
            Some(gone) => Err(gone.clone()),
            None => Ok(named),
        }
    }

    fn watch_commit(&self, commit: &Commit) {
        for change in &commit.changes {
            match change {
                Change::Add(entry) => match self.whole(entry) {
                    Ok(named) => {
                        Seen::note(&self.seen.committed);
                        self.in_use.lock().insert(entry.name.clone(), named);
                    }
                    Err(gone) => self.violation(format!("[{}] is committed without [{gone}]", entry.name)),
                },
                Change::Remove(name) => {
                    self.in_use.lock().remove(name);
                }
                _ => {}
            }
        }
    }

    fn watch_removal(&self, key: &str) {
        for (snapshot, named) in self.in_use.lock().iter() {
            if named.contains(key) {
                self.violation(format!("[{key}] is removed, which [{snapshot}] names"));
            }
        }
        Seen::note(&self.seen.removed);
    }

    fn violation(&self, what: String) {
        self.seen.violations.lock().push(what);
    }
}

#[async_trait]
impl Objects for Watched {
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.inner.read(key, range).await
    }

    async fn read_all(&self, key: &str, len_max: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.wait().await;
        self.inner.read_all(key, len_max).await
    }

    async fn read_end(&self, key: &str, len: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.inner.read_end(key, len).await
    }

    async fn info(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.wait().await;
        self.inner.info(key).await
    }

    async fn write(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Option<String>, ObjectError> {
        self.wait().await;
        self.fault(key)?;
        self.inner.now_ms.fetch_add(1, Ordering::Relaxed);
        let written = self.inner.write(key, bytes, mode).await?;
        if let Some(commit) = key.starts_with("log/").then(|| self.decoded("commit", key)).flatten() {
            self.watch_commit(&commit);
        }
        // The write is done, but its answer is lost.
        self.fault(key)?;
        Ok(written)
    }

    async fn upload_reporting(
        &self,
        key: &str,
        file: &LocalFile,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        self.inner.upload_reporting(key, file, sent).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.wait().await;
        self.inner.list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.wait().await;
        // Occasionally a removal takes so long that all other tasks continue.
        let turns = if self.chance(8) { 400 } else { 0 };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        self.fault(key)?;
        if self.inner.has(key) && !key.starts_with("pending/") {
            self.watch_removal(key);
        }
        self.inner.delete(key).await?;
        self.fault(key)
    }
}

/// State of one schedule.
struct World {
    store: Arc<Watched>,
    random: fastrand::Rng,
    names: usize,
    ids: Arc<AtomicU64>,
}

impl World {
    fn new(seed: u64, seen: &Arc<Seen>) -> Self {
        Self {
            store: Watched::new(seed, seen),
            random: fastrand::Rng::with_seed(!seed),
            names: 0,
            ids: Arc::default(),
        }
    }

    /// Opens a repository as a process of a writer. Its clock jumps, so that live marks are sometimes considered dead.
    fn process(&mut self, id: &str) -> Arc<Repository> {
        let ids = Arc::clone(&self.ids);
        let clock = parking_lot::Mutex::new(self.random.fork());
        let writer = Writer {
            id: id.to_owned(),
            instances: Arc::default(),
            fresh_id: Arc::new(move || format!("{:022}", ids.fetch_add(1, Ordering::Relaxed))),
            now_ms: Arc::new(move || if clock.lock().u32(..8) == 0 { 2 * DAY_MS } else { 1000 }),
        };
        Repository::new("r", Arc::clone(&self.store) as _, false, writer)
    }

    fn sibling(&self, of: &Arc<Repository>) -> Arc<Repository> {
        Repository::new("r", Arc::clone(&self.store) as _, false, of.writer.clone())
    }

    fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{what}-{}", self.names)
    }

    /// Starts a random task of a writer at a random time.
    fn begin(&mut self, repository: &Arc<Repository>) -> JoinHandle<()> {
        let repository = Arc::clone(repository);
        let later = self.random.u32(..60);
        let seen = Arc::clone(&self.store.seen);
        let some: Vec<u8> = (1..=SPLITS).filter(|_| self.random.bool()).collect();
        let (what, chosen) = (self.random.u32(..10), self.random.usize(..));
        let name = self.name("s");
        tokio::spawn(async move {
            for _ in 0..later {
                tokio::task::yield_now().await;
            }
            // A failure because of a fault or another writer is acceptable.
            let _ = match what {
                0..=2 => create(&repository, &name, &some, &seen).await,
                3 => match any(&repository, chosen).await {
                    Some(source) => clone(&repository, &source, &name, &seen).await,
                    None => Ok(()),
                },
                4..=5 => match any(&repository, chosen).await {
                    Some(old) => replace(&repository, &old, &some, &seen).await,
                    None => Ok(()),
                },
                6..=8 => match any(&repository, chosen).await {
                    Some(victim) => repository.remove_snapshots(&[victim]).await.map(|_| ()),
                    None => Ok(()),
                },
                _ => repository.cleanup().await.map(|_| ()),
            };
        })
    }

    async fn run(&mut self) {
        for round in 0..ROUNDS {
            let mut processes = vec![self.process("a"), self.process("b")];
            // One repository is registered again while other tasks use it.
            let again = processes[self.random.usize(..2)].clone();
            processes.push(self.sibling(&again));
            let mut tasks = Vec::new();
            for _ in 0..TASKS {
                let chosen = processes[self.random.usize(..processes.len())].clone();
                tasks.push(self.begin(&chosen));
            }
            drop((processes, again));
            let is_last = round + 1 == ROUNDS;
            if !is_last {
                for _ in 0..self.random.u32(..300) {
                    tokio::task::yield_now().await;
                }
                for task in tasks.iter().filter(|task| !task.is_finished()) {
                    Seen::note(&self.store.seen.killed);
                    task.abort();
                }
            }
            for task in tasks {
                let ended = task.await;
                assert!(ended.is_ok_and(|()| true) || !is_last, "a task of the last round");
            }
        }
    }
}

async fn any(repository: &Repository, chosen: usize) -> Option<String> {
    let state = repository.state().await.ok()?;
    let count = state.snapshots.len();
    state.snapshots.keys().nth(chosen.checked_rem(count)?).cloned()
}

/// Creates a snapshot as the engine does: it names objects of earlier snapshots again.
async fn create(repository: &Repository, name: &str, splits: &[u8], seen: &Seen) -> firn_model::Result<()> {
    let writing = repository.begin_writing().await?;
    let made = create_on(repository, name, splits, writing.basis.clone(), seen).await;
    repository.end_writing(writing).await?;
    made
}

async fn create_on(
    repository: &Repository,
    name: &str,
    splits: &[u8],
    mut basis: WriteDependencies,
    seen: &Seen,
) -> firn_model::Result<()> {
    let mut known = HashSet::new();
    for entry in basis.state().snapshots.values() {
        // A snapshot that is being removed cannot be read.
        let Ok(manifest) = repository.manifest(entry).await else {
            continue;
        };
        for index in manifest.indices.values() {
            let index = repository.index(index).await;
            known.extend(index.iter().flat_map(content_of).map(|(key, _)| key));
        }
    }
    for _ in 0..16 {
        for id in splits {
            if known.insert(split(*id).key()) {
                repository.put(&split(*id).key(), vec![*id; 10].into()).await?;
            }
        }
        let (entry, index) = manifests(repository, name, splits).await?;
        let mut needed = keys_of(splits);
        needed.insert(index);
        match repository.add_snapshot(&entry, &needed, &basis).await? {
            Added::Committed => return Ok(()),
            Added::Condemned(condemned) => {
                Seen::note(&seen.condemned);
                known.retain(|key| !condemned.keys.contains(key));
                basis = repository.wait_for_sweeps(condemned).await?;
            }
        }
    }
    panic!("sweeps keep removing needed objects");
}

async fn clone(repository: &Repository, source: &str, name: &str, seen: &Seen) -> firn_model::Result<()> {
    let renamed = |mut manifest: SnapshotManifest| {
        manifest.name = name.to_owned();
        manifest.uuid = format!("uuid-{name}");
        Ok(manifest)
    };
    repository.clone_snapshot(source, renamed).await?;
    Seen::note(&seen.clones);
    Ok(())
}

/// Replaces the splits of a snapshot, as the engine does when it removes documents.
async fn replace(repository: &Repository, name: &str, splits: &[u8], seen: &Seen) -> firn_model::Result<()> {
    let writing = repository.begin_writing().await?;
    let replaced = replace_on(repository, name, splits, writing.basis.clone(), seen).await;
    repository.end_writing(writing).await?;
    match replaced? {
        Some(old) => repository.sweep_replaced(old).await.map(|_| ()),
        None => Ok(()),
    }
}

/// Returns the snapshot's previous entry; `None`: it has changed or was removed.
async fn replace_on(
    repository: &Repository,
    name: &str,
    splits: &[u8],
    mut basis: WriteDependencies,
    seen: &Seen,
) -> firn_model::Result<Option<SnapshotEntry>> {
    let Some(old) = basis.state().snapshots.get(name).cloned() else {
        return Ok(None);
    };
    let before = repository.manifest(&old).await?;
    let mut referenced = HashSet::new();
    for index in before.indices.values() {
        referenced.extend(repository.index(index).await?.keys());
    }
    let mut written = HashSet::new();
    for _ in 0..16 {
        for id in splits.iter().filter(|id| !referenced.contains(&split(**id).key())) {
            if written.insert(split(*id).key()) {
                repository.put(&split(*id).key(), vec![*id; 10].into()).await?;
            }
        }
        let (entry, index) = manifests(repository, name, splits).await?;
        let needed = written.iter().cloned().chain([index]).collect();
        match repository
            .replace_snapshot(&old, entry.manifest, &needed, &basis)
            .await?
        {
            Replaced::Committed(new) => {
                Seen::note(&seen.replaced);
                // The same splits give the same manifest.
                return Ok(Some(old).filter(|old| *old != new));
            }
            Replaced::Gone => return Ok(None),
            Replaced::Condemned(condemned) => {
                Seen::note(&seen.condemned);
                written.retain(|key| !condemned.keys.contains(key));
                basis = repository.wait_for_sweeps(condemned).await?;
            }
        }
    }
    panic!("sweeps keep removing needed objects");
}

/// Checks that a new reader can read every existing snapshot completely.
async fn check_all(world: &mut World) {
    let reader = world.process("reader");
    let state = reader.state().await.expect("the log");
    for entry in state.snapshots.values() {
        let manifest = reader.manifest(entry).await.expect("its manifest");
        for index in manifest.indices.values() {
            for (key, _) in content_of(&reader.index(index).await.expect("its index")) {
                assert!(world.store.inner.has(&key), "[{}] lacks [{key}]", entry.name);
            }
        }
    }
    let names: Vec<&String> = state.snapshots.keys().collect();
    let in_use = world.store.in_use.lock();
    assert_eq!(names, in_use.keys().collect::<Vec<_>>());
}

#[test]
fn no_object_in_use_is_removed_in_any_schedule() {
    let first = firn_testkit::seed("schedules of writers and sweeps");
    let seen = Arc::new(Seen::default());
    for seed in (0..SCHEDULES).map(|number| first.wrapping_add(number)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(seed, &seen);
            world.run().await;
            let violations = std::mem::take(&mut *seen.violations.lock());
            assert!(violations.is_empty(), "repeat with FIRN_SEED={seed}: {violations:#?}");
            check_all(&mut world).await;
        });
    }
    // Checks that the schedules covered all events.
    let counts = [
        &seen.committed,
        &seen.condemned,
        &seen.removed,
        &seen.clones,
        &seen.replaced,
        &seen.killed,
    ];
    for count in counts {
        assert!(count.load(Ordering::Relaxed) > 20, "{seen:?}");
    }
}
