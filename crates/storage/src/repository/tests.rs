mod replacing;
mod schedules;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::object::{LocalFile, ObjectInfo, PutMode};
use crate::split::SplitRef;

/// In-memory store that can be cut off, and whose listings can be outdated.
#[derive(Debug, Default)]
struct Store {
    objects: parking_lot::Mutex<BTreeMap<String, (Bytes, i64)>>,
    /// Listings omit the log.
    is_stale: AtomicBool,
    /// Writes and deletes that still succeed; negative: unlimited.
    steps_left: AtomicI64,
    now_ms: AtomicI64,
    /// Number of metadata lookups.
    info_count: AtomicU64,
    /// Future reads of whole objects that return a wrong last byte.
    damaged_reads: AtomicU64,
    /// Listings fail.
    is_unlistable: AtomicBool,
    /// Creations overwrite existing objects.
    is_lax: AtomicBool,
    /// Manifests read so far, manifests being read now, and the maximum of concurrent manifest reads.
    manifest_reads: AtomicI64,
    reading: AtomicI64,
    reading_max: AtomicI64,
}

impl Store {
    fn new() -> Arc<Self> {
        let store = Self::default();
        store.steps_left.store(-1, Ordering::Relaxed);
        Arc::new(store)
    }

    fn keys(&self) -> Vec<String> {
        self.objects.lock().keys().cloned().collect()
    }

    fn has(&self, key: &str) -> bool {
        self.objects.lock().contains_key(key)
    }

    fn step(&self, key: &str) -> Result<(), ObjectError> {
        match self.steps_left.load(Ordering::Relaxed) {
            0 => Err(ObjectError::new(ObjectErrorKind::Unavailable, key, "cut off")),
            left => {
                if left > 0 {
                    self.steps_left.store(left - 1, Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Objects for Store {
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let (bytes, _) = self.read_all(key, u64::MAX).await?;
        Ok(bytes.slice(range.start as usize..range.end as usize))
    }

    async fn read_all(&self, key: &str, _len_max: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let is_manifest = key.starts_with("indices/") || key.starts_with("snapshots/");
        if is_manifest {
            self.manifest_reads.fetch_add(1, Ordering::Relaxed);
            let now = self.reading.fetch_add(1, Ordering::Relaxed) + 1;
            self.reading_max.fetch_max(now, Ordering::Relaxed);
        }
        tokio::task::yield_now().await;
        if is_manifest {
            self.reading.fetch_sub(1, Ordering::Relaxed);
        }
        let info = self.info(key).await?;
        let mut bytes = self.objects.lock()[key].0.to_vec();
        let left = self.damaged_reads.load(Ordering::Relaxed);
        if left > 0 {
            self.damaged_reads.store(left - 1, Ordering::Relaxed);
            bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1);
        }
        Ok((bytes.into(), info))
    }

    async fn read_end(&self, key: &str, _len: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.read_all(key, u64::MAX).await
    }

    async fn info(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.info_count.fetch_add(1, Ordering::Relaxed);
        let objects = self.objects.lock();
        let found = objects.get(key);
        let (bytes, modified_ms) = found.ok_or_else(|| ObjectError::new(ObjectErrorKind::NotFound, key, "none"))?;
        Ok(ObjectInfo {
            key: key.to_owned(),
            len: bytes.len() as u64,
            etag: None,
            modified_ms: *modified_ms,
        })
    }

    async fn write(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Option<String>, ObjectError> {
        tokio::task::yield_now().await;
        self.step(key)?;
        let mut objects = self.objects.lock();
        if mode == PutMode::Create && objects.contains_key(key) && !self.is_lax.load(Ordering::Relaxed) {
            return Err(ObjectError::new(ObjectErrorKind::Exists, key, "it exists"));
        }
        objects.insert(key.to_owned(), (bytes, self.now_ms.load(Ordering::Relaxed)));
        Ok(None)
    }

    async fn upload_reporting(
        &self,
        key: &str,
        file: &LocalFile,
        _: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        let bytes = file
            .len()
            .and_then(|len| file.read(0..len))
            .map_err(|error| ObjectError::new(ObjectErrorKind::Denied, key, error.to_string()))?;
        self.write(key, bytes, PutMode::Overwrite).await.map(|_| ())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        if self.is_unlistable.load(Ordering::Relaxed) {
            return Err(ObjectError::new(ObjectErrorKind::Unsupported, prefix, "no listings"));
        }
        let mut found = Vec::new();
        for key in self.keys() {
            let is_hidden = self.is_stale.load(Ordering::Relaxed) && key.starts_with("log/");
            if key.starts_with(prefix) && !is_hidden {
                found.push(self.info(&key).await?);
            }
        }
        Ok(found)
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        tokio::task::yield_now().await;
        self.step(key)?;
        self.objects.lock().remove(key);
        Ok(())
    }
}

fn open(store: &Arc<Store>, writer: &str) -> Arc<Repository> {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let store: Arc<dyn Objects> = Arc::clone(store) as _;
    Repository::new(
        "r",
        store,
        false,
        Writer {
            id: writer.to_owned(),
            instances: Arc::default(),
            fresh_id: Arc::new(|| format!("{:022}", IDS.fetch_add(1, Ordering::Relaxed))),
            now_ms: Arc::new(|| 1000),
        },
    )
}

fn split(id: u8) -> SplitRef {
    serde_json::from_value(json!({
        "id": format!("{id:02x}").repeat(32),
        "len": 4096,
        "salt": 1,
        "footer": {"start": 0, "end": 4096},
        "segment": format!("segment-{id}"),
        "docs": 1,
        "seq_no_range": [0, 0],
        "segment_bytes": 1000,
    }))
    .unwrap()
}

/// Uploads splits and manifests of a snapshot, without committing it.
async fn written(repository: &Repository, name: &str, splits: &[u8]) -> SnapshotEntry {
    for id in splits {
        let content = Bytes::from(vec![*id; 10]);
        repository.put(&split(*id).key(), content).await.unwrap();
    }
    let (entry, _) = manifests(repository, name, splits).await.unwrap();
    entry
}

/// Uploads the manifests of a snapshot and returns its entry and the key of its index.
async fn manifests(repository: &Repository, name: &str, splits: &[u8]) -> firn_model::Result<(SnapshotEntry, String)> {
    let segment = |id: &u8| SnapshotSegment {
        split: split(*id),
        deletes: None,
    };
    let index = IndexManifest {
        index: json!({"name": "logs"}),
        shards: vec![ShardManifest {
            shard: 0,
            next_seq_no: 7,
            segments: splits.iter().map(segment).collect(),
            missing: false,
        }],
        filters: Vec::new(),
    };
    let index = repository.put_index("uuid", &index).await?;
    let index_key = index.key();
    let manifest = SnapshotManifest {
        name: name.to_owned(),
        uuid: format!("uuid-{name}"),
        firn: "0".to_owned(),
        start_ms: 1,
        end_ms: 2,
        outcome: SnapshotOutcome::Success,
        indices: [("logs".to_owned(), index)].into(),
        data_streams: BTreeMap::new(),
        global: None,
        metadata: None,
        missing: Vec::new(),
        shards: BTreeMap::new(),
    };
    let entry = SnapshotEntry {
        name: name.to_owned(),
        uuid: manifest.uuid.clone(),
        start_ms: 1,
        manifest: repository.put_snapshot(&manifest).await?,
    };
    Ok((entry, index_key))
}

fn keys_of(splits: &[u8]) -> HashSet<String> {
    splits.iter().map(|id| split(*id).key()).collect()
}

async fn add(repository: &Repository, name: &str, splits: &[u8]) -> Added {
    let basis = basis(repository).await;
    let entry = written(repository, name, splits).await;
    repository.add_snapshot(&entry, &keys_of(splits), &basis).await.unwrap()
}

async fn basis(repository: &Repository) -> WriteDependencies {
    WriteDependencies::of(repository.state().await.unwrap())
}

async fn names(repository: &Repository) -> Vec<String> {
    repository.state().await.unwrap().snapshots.keys().cloned().collect()
}

#[tokio::test]
async fn two_writers_lose_nothing_of_each_other() {
    let store = Store::new();
    let mut tasks = Vec::new();
    for writer in ["a", "b"] {
        let repository = open(&store, writer);
        tasks.push(tokio::spawn(async move {
            for number in 0..40 {
                assert_eq!(
                    add(&repository, &format!("{writer}-{number:02}"), &[number]).await,
                    Added::Committed
                );
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let third = open(&store, "c");
    assert_eq!(names(&third).await.len(), 80);
    let state = third.state().await.unwrap();
    assert_eq!(
        state.number, 80,
        "the first commit names the repository and its snapshot"
    );
    assert_eq!(third.create().await.unwrap(), state.uuid);
}

#[tokio::test]
async fn a_listing_that_is_out_of_date_hides_nothing() {
    let store = Store::new();
    let first = open(&store, "a");
    for number in 0..40 {
        add(&first, &format!("s-{number:02}"), &[1]).await;
    }
    store.is_stale.store(true, Ordering::Relaxed);
    assert_eq!(names(&open(&store, "b")).await.len(), 40);
}

#[tokio::test]
async fn a_name_is_given_once() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "s", &[1]).await;
    let entry = written(&open(&store, "b"), "s", &[2]).await;
    let error = repository
        .add_snapshot(&entry, &keys_of(&[2]), &basis(&repository).await)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSnapshotName);
    assert!(error.reason().contains("already exists"), "{error}");
}

#[tokio::test]
async fn a_removed_snapshot_removes_only_objects_that_no_other_snapshot_names() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "one", &[1, 2]).await;
    add(&repository, "two", &[2, 3]).await;
    let missing = repository.remove_snapshots(&["three".to_owned()]).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::SnapshotMissing);
    let swept = repository.remove_snapshots(&["one".to_owned()]).await.unwrap();
    // Removed are the split, the index manifest and the snapshot manifest.
    assert_eq!(
        swept,
        Swept {
            objects: 3,
            bytes: 4096
        }
    );
    assert!(!store.has(&split(1).key()) && store.has(&split(2).key()));
    assert_eq!(names(&open(&store, "b")).await, ["two"]);
    repository.remove_snapshots(&["two".to_owned()]).await.unwrap();
    let left: Vec<String> = store
        .keys()
        .into_iter()
        .filter(|key| !key.starts_with("log/"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(repository.state().await.unwrap().sweeps.is_empty());
}

#[tokio::test]
async fn what_was_relied_on_and_is_swept_meanwhile_is_written_again() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1]).await;
    let before = basis(&other).await;
    let entry = written(&other, "new", &[1, 2]).await;
    one.remove_snapshots(&["old".to_owned()]).await.unwrap();
    assert!(
        !store.has(&split(1).key()),
        "the other writer has not committed, so no snapshot names it"
    );

    let needed = keys_of(&[1, 2]);
    let Added::Condemned(condemned) = other.add_snapshot(&entry, &needed, &before).await.unwrap() else {
        panic!("it names a swept object");
    };
    assert_eq!(condemned.keys, keys_of(&[1]));
    let after = other.wait_for_sweeps(condemned).await.unwrap();
    let again = written(&other, "new", &[1, 2]).await;
    assert_eq!(
        other.add_snapshot(&again, &needed, &after).await.unwrap(),
        Added::Committed
    );
    assert!(store.has(&split(1).key()));
}

#[tokio::test]
async fn a_sweep_that_was_open_already_and_ends_before_the_commit_is_heard_of() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1]).await;
    let state = one.state().await.unwrap();
    let begins = Change::SweepBegins {
        sweep: "s".to_owned(),
        keys: vec![split(1).key()],
    };
    one.try_commit(&state, vec![Change::Remove("old".to_owned()), begins])
        .await
        .unwrap()
        .unwrap();
    let writing = other.begin_writing().await.unwrap();
    let entry = written(&other, "new", &[1]).await;
    store.delete(&split(1).key()).await.unwrap();
    let state = one.state().await.unwrap();
    one.try_commit(&state, vec![Change::SweepEnds("s".to_owned())])
        .await
        .unwrap()
        .unwrap();
    let added = other
        .add_snapshot(&entry, &keys_of(&[1]), &writing.basis)
        .await
        .unwrap();
    assert!(matches!(added, Added::Condemned(condemned) if condemned.keys == keys_of(&[1])));
}

#[tokio::test]
async fn a_writer_that_is_killed_at_any_step_leaves_nothing_visible() {
    for steps in 0..50 {
        let store = Store::new();
        add(&open(&store, "b"), "retained", &[1, 9]).await;
        let killed = open(&store, "a");
        store.steps_left.store(steps, Ordering::Relaxed);
        let work = async {
            let writing = killed.begin_writing().await?;
            for id in [1, 2, 3] {
                killed.put(&split(id).key(), vec![id; 10].into()).await?;
            }
            let index = IndexManifest {
                index: json!({"name": "logs"}),
                shards: Vec::new(),
                filters: Vec::new(),
            };
            let index = killed.put_index("uuid", &index).await?;
            let mut manifest = killed.snapshot("retained").await?;
            manifest.name = "new".to_owned();
            manifest.indices = [("logs".to_owned(), index)].into();
            let entry = SnapshotEntry {
                name: "new".to_owned(),
                uuid: "u".to_owned(),
                start_ms: 1,
                manifest: killed.put_snapshot(&manifest).await?,
            };
            killed
                .add_snapshot(&entry, &keys_of(&[1, 2, 3]), &writing.basis)
                .await?;
            killed.end_writing(writing).await?;
            killed.remove_snapshots(&["retained".to_owned()]).await?;
            Ok::<(), Error>(())
        };
        let is_done = work.await.is_ok();
        drop(killed);
        store.steps_left.store(-1, Ordering::Relaxed);

        // After a restart it finds each snapshot complete or not at all, and cleans up.
        let again = open(&store, "a");
        let swept = again.cleanup().await.unwrap();
        for entry in again.state().await.unwrap().snapshots.values() {
            let manifest = again.manifest(entry).await.unwrap();
            for index in manifest.indices.values() {
                for (_, segment) in again.index(index).await.unwrap().segments() {
                    assert!(store.has(&segment.split.key()), "step {steps}");
                }
            }
        }
        let state = again.state().await.unwrap();
        let mut left = store.keys();
        // An interrupted test of the store is not content and has a separate key.
        left.retain(|key| !key.starts_with("log/") && !key.starts_with("tests-"));
        let left = left.into_iter();
        let garbage = again.unnamed(&state, left.map(|key| (key, 0)).collect()).await.unwrap();
        assert!(garbage.is_empty(), "step {steps}: {garbage:?} after {swept:?}");
        assert!(state.sweeps.is_empty(), "step {steps}");
        if is_done {
            assert!(steps > 10, "each write is a step");
            return;
        }
    }
    panic!("the operation has fewer steps");
}

#[tokio::test]
async fn what_another_writer_uploads_now_is_no_garbage() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    store.now_ms.store(1000, Ordering::Relaxed);
    one.put(&split(1).key(), vec![1].into()).await.unwrap();
    store.now_ms.store(2000, Ordering::Relaxed);
    let writing = other.begin_writing().await.unwrap();
    other.put(&split(2).key(), vec![2].into()).await.unwrap();
    one.cleanup().await.unwrap();
    assert!(!store.has(&split(1).key()) && store.has(&split(2).key()));
    other.end_writing(writing).await.unwrap();
    one.cleanup().await.unwrap();
    assert!(!store.has(&split(2).key()));
}

#[tokio::test]
async fn damage_is_named_and_never_taken_for_absence() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "s", &[1]).await;
    for key in store.keys() {
        let before = store.objects.lock()[&key].clone();
        let mut bytes = before.0.to_vec();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        store.objects.lock().insert(key.clone(), (bytes.into(), 0));
        let fresh = open(&store, "b");
        let read = async {
            let manifest = fresh.snapshot("s").await?;
            fresh.index(&manifest.indices["logs"]).await.map(|_| ())
        };
        match key.starts_with("splits/") || key.ends_with(".done") {
            true => read.await.unwrap(),
            false => {
                let error = read.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Repository, "{error}");
                assert!(error.to_string().contains(&key), "{error}");
                assert!(fresh.cleanup().await.is_err(), "no object may be removed");
                assert!(store.has(&split(1).key()));
            }
        }
        store.objects.lock().insert(key, before);
    }
}

#[tokio::test]
async fn damage_in_transit_is_read_again() {
    let store = Store::new();
    add(&open(&store, "one"), "s", &[1]).await;
    // Damages the commit, the snapshot and its index. Two damaged reads are tolerated, three are damage in the store.
    for stage in 0..3 {
        for (reads, is_read) in [(1, true), (2, true), (3, false)] {
            let damage_if = |is_now: bool| {
                if is_now {
                    store.damaged_reads.store(reads, Ordering::Relaxed);
                }
            };
            let repository = open(&store, "two");
            let read = async {
                damage_if(stage == 0);
                repository.state().await?;
                damage_if(stage == 1);
                let snapshot = repository.snapshot("s").await?;
                damage_if(stage == 2);
                let entry = snapshot.indices.values().next().expect("an index");
                repository.index(entry).await
            };
            let outcome: firn_model::Result<_> = read.await;
            assert_eq!(store.damaged_reads.load(Ordering::Relaxed), 0, "stage {stage}");
            match outcome {
                Ok(_) => assert!(is_read, "stage {stage}: damage was accepted"),
                Err(error) => assert!(
                    !is_read && error.to_string().contains("damaged"),
                    "stage {stage}: {error}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_readonly_repository_is_not_written() {
    let store = Store::new();
    add(&open(&store, "a"), "s", &[1]).await;
    let before = store.keys();
    let store_again: Arc<dyn Objects> = Arc::clone(&store) as _;
    let readonly = Repository::new("r", store_again, true, open(&store, "b").writer.clone());
    assert_eq!(names(&readonly).await, ["s"]);
    let error = readonly.remove_snapshots(&["s".to_owned()]).await.unwrap_err();
    assert_eq!(error.reason(), "[r] cannot delete snapshot in a readonly repository");
    assert!(readonly.begin_writing().await.is_err() && readonly.cleanup().await.is_err());
    assert_eq!(store.keys(), before);
}

#[tokio::test]
async fn those_who_ask_at_the_same_time_share_a_look_at_the_log() {
    let store = Store::new();
    let (repository, other) = (open(&store, "a"), open(&store, "b"));
    add(&repository, "one", &[1]).await;
    let looks = store.info_count.load(Ordering::Relaxed);
    let reads: Vec<_> = (0..20).map(|_| repository.state()).collect();
    for state in futures_util::future::join_all(reads).await {
        assert_eq!(state.unwrap().snapshots.len(), 1);
    }
    let looks = store.info_count.load(Ordering::Relaxed) - looks;
    assert!(looks <= 2, "{looks} looks");
    // A later call sees commits of the meantime.
    add(&other, "two", &[2]).await;
    assert_eq!(names(&repository).await, ["one", "two"]);
}

#[tokio::test]
async fn a_lost_commit_is_missed() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "one", &[1]).await;
    add(&repository, "two", &[2]).await;
    let last = repository.state().await.unwrap().number;
    for lost in 1..=last {
        let key = format!("log/{lost:010}.json");
        let commit = store.objects.lock().remove(&key).unwrap();
        let fresh = open(&store, "b");
        let error = fresh.state().await.unwrap_err();
        assert!(
            error.to_string().contains(&format!("object [{key}] is missing")),
            "{error}"
        );
        assert!(fresh.cleanup().await.is_err(), "no object may be removed");
        store.objects.lock().insert(key.clone(), commit);
        // Without a confirmation, as from earlier builds or after a failed write, only gaps are detected.
        let done = store.objects.lock().remove(&key.replace(".json", ".done")).unwrap();
        assert_eq!(names(&open(&store, "b")).await, ["one", "two"]);
        store.objects.lock().insert(key.replace(".json", ".done"), done);
    }
}

#[tokio::test]
async fn a_commit_that_cannot_be_read_again_condemns_everything() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1]).await;
    let before = basis(&other).await;
    let entry = written(&other, "new", &[1]).await;
    one.remove_snapshots(&["old".to_owned()]).await.unwrap();
    // The commit that began the sweep: it existed when the writer read the state, and is missing when the writer reads
    // it.
    other.state().await.unwrap();
    store.objects.lock().remove("log/0000000003.json").unwrap();
    let error = other.add_snapshot(&entry, &keys_of(&[1]), &before).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Repository);
    assert!(error.to_string().contains("log/0000000003.json"), "{error}");
}

#[tokio::test]
async fn a_manifest_in_the_place_of_another_is_found_out() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "one", &[1]).await;
    add(&repository, "two", &[2]).await;
    let of = |folder: &str| -> Vec<String> { store.keys().into_iter().filter(|key| key.starts_with(folder)).collect() };
    for folder in ["snapshots/", "indices/"] {
        let [first, second] = &of(folder)[..] else {
            panic!("two manifests")
        };
        let intact = store.objects.lock()[first].clone();
        let other = store.objects.lock()[second].clone();
        store.objects.lock().insert(first.clone(), other);
        let mut errors = Vec::new();
        for name in ["one", "two"] {
            let read = async {
                let snapshot = repository.snapshot(name).await?;
                repository.index(&snapshot.indices["logs"]).await
            };
            errors.extend(read.await.err());
        }
        assert_eq!(errors.len(), 1, "{folder}");
        assert!(errors[0].to_string().contains(first.as_str()), "{}", errors[0]);
        store.objects.lock().insert(first.clone(), intact);
    }
}

/// Opens a repository of the same process and data folder, as after a new registration.
fn open_sibling(store: &Arc<Store>, of: &Arc<Repository>) -> Arc<Repository> {
    let store: Arc<dyn Objects> = Arc::clone(store) as _;
    Repository::new("r", store, false, of.writer.clone())
}

#[tokio::test]
async fn sweeps_and_marks_of_a_living_instance_are_not_ended_by_its_sibling() {
    let store = Store::new();
    let one = open(&store, "a");
    add(&one, "old", &[1]).await;
    let state = one.state().await.unwrap();
    let begins = Change::SweepBegins {
        sweep: "s".to_owned(),
        keys: vec![split(1).key()],
    };
    one.try_commit(&state, vec![Change::Remove("old".to_owned()), begins])
        .await
        .unwrap()
        .unwrap();
    let writing = one.begin_writing().await.unwrap();
    store.now_ms.store(10, Ordering::Relaxed);
    one.put(&split(2).key(), vec![2].into()).await.unwrap();

    let sibling = open_sibling(&store, &one);
    sibling.cleanup().await.unwrap();
    assert!(store.has(&split(2).key()), "its sibling is writing it");
    assert!(
        sibling.state().await.unwrap().sweeps.contains_key("s"),
        "it may still remove objects"
    );
    one.end_writing(writing).await.unwrap();
    drop(one);
    sibling.cleanup().await.unwrap();
    assert!(sibling.state().await.unwrap().sweeps.is_empty());
    assert!(!store.has(&split(2).key()));
}

#[tokio::test]
async fn a_clone_of_what_is_removed_meanwhile_is_refused_and_leaves_no_mark() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1]).await;
    let renamed = |name: &'static str| {
        move |mut manifest: SnapshotManifest| {
            manifest.name = name.to_owned();
            manifest.uuid = format!("uuid-{name}");
            Ok(manifest)
        }
    };
    let marks = || store.keys().iter().filter(|key| key.starts_with("pending/")).count();
    // Not removed: it is an independent snapshot, and its writer has put a mark.
    other
        .clone_snapshot("old", |manifest| {
            assert_eq!(marks(), 1);
            renamed("copy")(manifest)
        })
        .await
        .unwrap();
    assert_eq!(marks(), 0);
    one.remove_snapshots(&["old".to_owned()]).await.unwrap();
    assert!(store.has(&split(1).key()));
    let missing = other.clone_snapshot("old", renamed("again")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::SnapshotMissing);
}

#[tokio::test]
async fn a_store_that_cannot_be_listed_is_read_from_its_log() {
    let store = Store::new();
    let repository = open(&store, "a");
    for number in 0..100 {
        add(&repository, &format!("s-{number:03}"), &[1]).await;
    }
    store.is_unlistable.store(true, Ordering::Relaxed);
    let looks = store.info_count.load(Ordering::Relaxed);
    assert_eq!(names(&open(&store, "b")).await.len(), 100);
    let looks = store.info_count.load(Ordering::Relaxed) - looks;
    assert!(looks < 20, "{looks} looks for commits");
    assert!(names(&open(&Store::new(), "b")).await.is_empty());
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_not_written() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "s", &[1]).await;
    store.is_lax.store(true, Ordering::Relaxed);
    let before = store.keys();
    let fresh = open(&store, "b");
    for refused in [
        fresh.begin_writing().await.map(|_| ()),
        fresh.cleanup().await.map(|_| ()),
        fresh.remove_snapshots(&["s".to_owned()]).await.map(|_| ()),
        fresh.clone_snapshot("s", Ok).await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Repository);
        assert!(error.to_string().contains("ignores conditional writes"), "{error}");
    }
    assert_eq!(store.keys(), before);
    // The test is repeated after a failure; after a success it runs only once.
    store.is_lax.store(false, Ordering::Relaxed);
    fresh.cleanup().await.unwrap();
    store.is_lax.store(true, Ordering::Relaxed);
    fresh.cleanup().await.unwrap();
}

#[tokio::test]
async fn a_sweep_reads_again_what_came_since_the_last_and_nothing_else() {
    let store = Store::new();
    let repository = open(&store, "a");
    for number in 0..60 {
        add(&repository, &format!("s-{number:02}"), &[number, number + 1]).await;
    }
    let reads = || store.manifest_reads.swap(0, Ordering::Relaxed);
    repository.remove_snapshots(&["s-00".to_owned()]).await.unwrap();
    assert!(reads() >= 120, "it reads every snapshot and index");
    assert!(!store.has(&split(0).key()) && store.has(&split(1).key()));
    add(&repository, "late", &[70]).await;
    repository.remove_snapshots(&["s-01".to_owned()]).await.unwrap();
    let again = reads();
    assert!(again <= 4, "{again} reads: only removed and new manifests may be read");
    assert!(!store.has(&split(1).key()) && store.has(&split(2).key()) && store.has(&split(70).key()));
}

#[tokio::test]
async fn large_manifests_are_read_sequentially() {
    let store = Store::new();
    let repository = open(&store, "a");
    for number in 0..20 {
        let entry = written(&repository, "s", &[number]).await;
        let mut manifest = repository.manifest(&entry).await.unwrap();
        let name = format!("s-{number:02}");
        manifest.name.clone_from(&name);
        // According to the entries: a million segments.
        let index = manifest.indices.get_mut("logs").unwrap();
        (index.shards, index.segments_per_shard_max) = (1000, 1000);
        let entry = SnapshotEntry {
            name,
            manifest: repository.put_snapshot(&manifest).await.unwrap(),
            ..entry
        };
        let added = repository
            .add_snapshot(&entry, &keys_of(&[number]), &basis(&repository).await)
            .await;
        assert_eq!(added.unwrap(), Added::Committed);
    }
    let state = repository.state().await.unwrap();
    let all: Vec<(String, u64)> = store.keys().into_iter().map(|key| (key, 0)).collect();
    let entries: Vec<_> = state.snapshots.values().cloned().collect();
    assert_eq!(repository.manifests(entries).await.len(), 20);
    assert!(store.reading_max.load(Ordering::Relaxed) > 10);
    repository.unnamed(&state, all.clone()).await.unwrap();
    // Snapshot manifests are cached now; only index manifests are read.
    repository.remembered.lock().forget_indices();
    store.reading_max.store(0, Ordering::Relaxed);
    repository.unnamed(&state, all).await.unwrap();
    assert_eq!(store.reading_max.load(Ordering::Relaxed), 1);
}
