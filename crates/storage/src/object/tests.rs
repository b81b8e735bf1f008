//! Conformance suite of every store, and tests of the guard against a failing store.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::*;

fn guard() -> Guard {
    let retry = RetryPolicy::with_pauses(3, Duration::from_millis(1), Duration::from_millis(4), 11);
    Guard::new(Limit::new(8), retry)
}

fn guarded(store: impl Requests + 'static) -> Guarded {
    Guarded::new(Arc::new(store), guard())
}

/// Checks the guarantees of [`Objects`].
pub(super) async fn conforms(objects: &Guarded) {
    let body = Bytes::from_static(b"0123456789");

    let etag = objects
        .write("a/one", body.clone(), PutMode::Create)
        .await
        .expect("create");
    let exists = objects.write("a/one", Bytes::from_static(b"x"), PutMode::Create).await;
    assert_eq!(kind(exists), ObjectErrorKind::Exists);
    assert_eq!(objects.read("a/one", 2..5).await.expect("range"), "234");
    assert_eq!(objects.read("a/one", 0..10).await.expect("whole range"), body);
    assert_eq!(kind(objects.read("a/one", 5..11).await), ObjectErrorKind::Corrupt);

    let (bytes, info) = objects.read_all("a/one", 10).await.expect("all");
    assert_eq!((bytes, info.len, &info.etag), (body.clone(), 10, &etag));
    assert_eq!(kind(objects.read_all("a/one", 9).await), ObjectErrorKind::Refused);
    let (bytes, info) = objects.read_end("a/one", 3).await.expect("end");
    assert_eq!((bytes, info.len), (Bytes::from_static(b"789"), 10));
    let (bytes, _) = objects.read_end("a/one", 100).await.expect("a longer end");
    assert_eq!(bytes, body);
    let info = objects.info("a/one").await.expect("info");
    assert_eq!((info.key.as_str(), info.len, &info.etag), ("a/one", 10, &etag));

    let etag = etag.expect("etags are needed to replace");
    let replace = PutMode::Replace(etag.clone());
    let other = Bytes::from_static(b"another");
    let next = objects
        .write("a/one", other.clone(), replace.clone())
        .await
        .expect("replace");
    assert_ne!(next.as_ref(), Some(&etag));
    assert_eq!(
        kind(objects.write("a/one", body.clone(), replace.clone()).await),
        ObjectErrorKind::Changed
    );
    assert_eq!(
        kind(objects.write("a/none", body.clone(), replace).await),
        ObjectErrorKind::Changed
    );
    assert_eq!(objects.read_all("a/one", 10).await.expect("replaced").0, other);
    objects
        .write("a/one", body.clone(), PutMode::Overwrite)
        .await
        .expect("overwrite");

    for key in ["a/two", "ab/three", "b"] {
        objects.write(key, body.clone(), PutMode::Overwrite).await.expect(key);
    }
    let keys = async |prefix: &str| -> Vec<String> {
        let found = objects.list(prefix).await.expect("a list");
        found.into_iter().map(|info| info.key).collect()
    };
    assert_eq!(keys("").await, ["a/one", "a/two", "ab/three", "b"]);
    assert_eq!(keys("a").await, ["a/one", "a/two", "ab/three"]);
    assert_eq!(keys("a/").await, ["a/one", "a/two"]);
    assert_eq!(keys("a/t").await, ["a/two"]);
    assert!(keys("c/").await.is_empty());

    for key in ["a/one", "a/one", "a/none"] {
        objects.delete(key).await.expect("gone");
    }
    for missing in ["a/one", "c/d/e"] {
        assert_eq!(kind(objects.info(missing).await), ObjectErrorKind::NotFound);
        assert_eq!(kind(objects.read(missing, 0..1).await), ObjectErrorKind::NotFound);
        assert_eq!(kind(objects.read_all(missing, 9).await), ObjectErrorKind::NotFound);
    }
    assert_eq!(keys("a/").await, ["a/two"]);

    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let content: Vec<u8> = (0..11_u32 << 20).map(|at| (at * 7 / 13) as u8).collect();
    file.write_all(&content).expect("its content");
    for round in 0..2 {
        let sent = AtomicU64::new(0);
        let note = |bytes| {
            sent.fetch_add(bytes, Ordering::Relaxed);
        };
        let uploaded = objects.upload_reporting("up/load", &local(file.path()), &note).await;
        uploaded.expect("an upload");
        assert_eq!(sent.into_inner(), file.path().metadata().expect("a file").len());
        let (bytes, _) = objects.read_all("up/load", 12 << 20).await.expect("all of it");
        assert!(bytes == content, "round {round}");
    }
}

pub(super) fn kind<T: std::fmt::Debug>(outcome: Result<T, ObjectError>) -> ObjectErrorKind {
    outcome.expect_err("this should fail").kind
}

fn local(path: &std::path::Path) -> LocalFile {
    LocalFile::new(&(Arc::new(crate::disk::RealDisk) as Arc<dyn crate::disk::Disk>), path)
}

/// Uses S3's minimum part size, so that an upload has several parts.
fn with_parts(store: Arc<dyn Requests>) -> Guarded {
    let mut guard = guard();
    guard.part_len = Some(5 << 20);
    Guarded::new(store, guard)
}

#[tokio::test]
async fn memory_conforms() {
    conforms(&with_parts(Arc::new(MemoryObjects::new()))).await;
}

fn place(folder: &Path) -> FsPlace {
    FsPlace::new(folder, folder, 0o022).expect("it lies in itself")
}

fn fs(folder: &Path) -> FsObjects {
    FsObjects::open(place(folder)).expect("open")
}

#[tokio::test]
async fn files_conform() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = fs(&folder.path().join("repository"));
    conforms(&with_parts(Arc::new(store))).await;
    let incoming = std::fs::read_dir(folder.path().join("repository/.incoming")).expect("the folder");
    assert_eq!(incoming.count(), 0, "no incoming file remains");
}

#[tokio::test]
async fn keys_cannot_leave_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = guarded(fs(&folder.path().join("repository")));
    std::fs::write(folder.path().join("secret"), "secret").expect("a file");
    for key in [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "",
        "a//b",
        ".incoming/x",
        "a\0b",
    ] {
        assert_eq!(kind(objects.read_all(key, 99).await), ObjectErrorKind::Refused, "{key}");
        let write = objects.write(key, Bytes::from_static(b"x"), PutMode::Overwrite);
        assert_eq!(kind(write.await), ObjectErrorKind::Refused, "{key}");
    }
}

#[tokio::test]
async fn a_readonly_folder_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("one"), "1").expect("a file");
    let objects = guarded(FsObjects::open_readonly(place(folder.path())).expect("open"));
    assert_eq!(objects.read_all("one", 9).await.expect("read").0, "1");
    let write = objects.write("two", Bytes::new(), PutMode::Overwrite);
    assert_eq!(kind(write.await), ObjectErrorKind::Unsupported);
    assert_eq!(kind(objects.delete("one").await), ObjectErrorKind::Unsupported);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

/// Of concurrent writers that create the same file, or replace the same content, exactly one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_writers_at_once_one_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = guarded(fs(folder.path()));
    for objects in [files, guarded(MemoryObjects::new())] {
        for round in 0..20 {
            let key = format!("race/{round}");
            assert_eq!(winners(&objects, &key, &PutMode::Create).await, 1);
            let etag = objects.info(&key).await.expect("the winner's").etag.expect("its etag");
            assert_eq!(winners(&objects, &key, &PutMode::Replace(etag)).await, 1);
        }
    }
}

async fn winners(objects: &Guarded, key: &str, mode: &PutMode) -> usize {
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (objects, key, mode) = (objects.clone(), key.to_owned(), mode.clone());
            tokio::spawn(async move {
                objects
                    .write(&key, Bytes::from(format!("{mode:?} {writer}")), mode)
                    .await
            })
        })
        .collect();
    let mut winners = 0;
    for writer in writers {
        match writer.await.expect("no panic") {
            Ok(_) => winners += 1,
            Err(error) => assert!(
                matches!(error.kind, ObjectErrorKind::Exists | ObjectErrorKind::Changed),
                "{error}"
            ),
        }
    }
    winners
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Fine,
    /// The store does not answer.
    Silent,
    /// The store is busy.
    Busy,
    /// The store executes the request, and its answer is lost.
    LostAnswer,
}

/// Store whose first requests have these outcomes; later ones succeed.
#[derive(Debug)]
struct Unlucky {
    store: MemoryObjects,
    fates: Mutex<VecDeque<Fate>>,
}

impl Unlucky {
    fn new(fates: impl IntoIterator<Item = Fate>) -> Self {
        Self {
            store: MemoryObjects::new(),
            fates: Mutex::new(fates.into_iter().collect()),
        }
    }

    async fn meet<T>(&self, request: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
        let fate = self.fates.lock().pop_front().unwrap_or(Fate::Fine);
        match fate {
            Fate::Silent => return Err(ObjectError::new(ObjectErrorKind::Unavailable, "", "silent")),
            Fate::Busy => return Err(ObjectError::new(ObjectErrorKind::Busy, "", "busy")),
            Fate::Fine | Fate::LostAnswer => {}
        }
        let outcome = request.await;
        if fate == Fate::LostAnswer {
            return Err(ObjectError::new(ObjectErrorKind::Unavailable, "", "time-out"));
        }
        outcome
    }
}

#[async_trait]
impl Requests for Unlucky {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.meet(self.store.get(key, want)).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.meet(self.store.head(key)).await
    }
    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        self.meet(self.store.put(key, bytes, mode)).await
    }
    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        self.meet(self.store.begin_parts(key)).await
    }
    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError> {
        self.meet(self.store.put_part(key, upload, number, part_len, bytes))
            .await
    }
    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError> {
        self.meet(self.store.complete_parts(key, upload, parts)).await
    }
    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        self.meet(self.store.abort_parts(key, upload)).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.meet(self.store.list(prefix)).await
    }
    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.meet(self.store.delete(key)).await
    }
}

#[tokio::test]
async fn requests_to_a_busy_store_are_retried() {
    let objects = guarded(Unlucky::new([Fate::Busy, Fate::Busy, Fate::Fine]));
    objects
        .write("k", Bytes::from_static(b"1"), PutMode::Create)
        .await
        .expect("at last");
    let stats = objects.meter().stats(Operation::Put);
    assert_eq!(
        (stats.requests, stats.retries, stats.failures, stats.bytes),
        (3, 2, 2, 1)
    );
    assert_eq!(stats.latencies.iter().sum::<u64>(), 3);

    for (fate, expected) in [
        (Fate::Busy, ObjectErrorKind::Busy),
        (Fate::Silent, ObjectErrorKind::Unavailable),
    ] {
        let objects = guarded(Unlucky::new([fate; 99]));
        assert_eq!(kind(objects.read("k", 0..1).await), expected);
        assert_eq!(
            objects.meter().stats(Operation::Get).requests,
            4,
            "three retries, then no more"
        );
    }
}

/// An overloaded store is reachable: without requests firn could not detect that it has capacity again.
#[tokio::test]
async fn only_an_unreachable_store_gets_no_more_requests() {
    for (fate, requests) in [(Fate::Busy, 40), (Fate::Silent, 16)] {
        let objects = guarded(Unlucky::new([fate; 40]));
        for _ in 0..10 {
            objects.info("k").await.expect_err("the store fails");
        }
        let made = objects.meter().stats(Operation::Head).requests;
        // Probes are counted too.
        assert!((requests..=40).contains(&made), "{fate:?}: {made}");
        assert_eq!(made == 40, fate == Fate::Busy, "{fate:?}: {made}");
    }
    // The store recovers, and the breaker closes.
    let objects = guarded(Unlucky::new([Fate::Silent; 16]));
    for _ in 0..4 {
        objects.info("k").await.expect_err("the store does not answer");
    }
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    for _ in 0..4 {
        assert_eq!(kind(objects.info("k").await), ObjectErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_conditional_write_whose_answer_is_lost_is_resolved_by_what_is_there() {
    let body = || Bytes::from_static(b"mine");
    // The second attempt finds the object of the first.
    let objects = guarded(Unlucky::new([Fate::LostAnswer, Fate::Fine]));
    let etag = objects.write("k", body(), PutMode::Create).await.expect("it is mine");
    assert_eq!(etag, objects.info("k").await.expect("info").etag);
    // The same holds for a replacement.
    let objects = guarded(Unlucky::new([Fate::Fine, Fate::LostAnswer, Fate::Fine]));
    let etag = objects
        .write("k", Bytes::from_static(b"old"), PutMode::Create)
        .await
        .expect("old");
    let replace = PutMode::Replace(etag.expect("an etag"));
    objects.write("k", body(), replace).await.expect("it is mine");
    // Another writer's content is a conflict, even after a lost answer.
    let objects = guarded(Unlucky::new([Fate::Fine, Fate::LostAnswer, Fate::Fine]));
    objects
        .write("k", Bytes::from_static(b"theirs"), PutMode::Create)
        .await
        .expect("theirs");
    assert_eq!(
        kind(objects.write("k", body(), PutMode::Create).await),
        ObjectErrorKind::Exists
    );
    // All answers are lost, but the object exists.
    let lost = [
        Fate::LostAnswer,
        Fate::LostAnswer,
        Fate::LostAnswer,
        Fate::LostAnswer,
        Fate::Fine,
    ];
    let objects = guarded(Unlucky::new(lost));
    objects.write("k", body(), PutMode::Create).await.expect("it is mine");
    // The same content by another writer is a conflict if no answer was lost.
    let objects = guarded(Unlucky::new([]));
    objects.write("k", body(), PutMode::Create).await.expect("first");
    assert_eq!(
        kind(objects.write("k", body(), PutMode::Create).await),
        ObjectErrorKind::Exists
    );
}

#[tokio::test]
async fn an_upload_outlives_any_one_failure_of_its_requests() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&[7; 100]).expect("its content");
    // Requests: begin, five parts, complete.
    for at in 0..7 {
        for fate in [Fate::Busy, Fate::LostAnswer] {
            let mut fates = vec![Fate::Fine; at];
            fates.push(fate);
            let mut guard = guard();
            guard.part_len = Some(20);
            let objects = Guarded::new(Arc::new(Unlucky::new(fates)), guard);
            objects.upload("k", &local(file.path())).await.expect("an upload");
            let (bytes, _) = objects.read_all("k", 100).await.expect("all of it");
            assert_eq!(bytes, [7; 100].as_slice(), "{fate:?} at {at}");
        }
    }
}

#[tokio::test]
async fn a_failed_upload_leaves_nothing_visible_and_no_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = fs(&folder.path().join("r"));
    let path = folder.path().join("file");
    std::fs::write(&path, [7; 100]).expect("a file");
    let mut guard = guard();
    guard.part_len = Some(20);
    let objects = Guarded::new(Arc::new(store), guard);
    std::fs::create_dir_all(folder.path().join("r/k/below")).expect("a folder in the way");
    objects
        .upload("k", &local(&path))
        .await
        .expect_err("a folder cannot be replaced by a file");
    assert!(objects.list("").await.expect("a list").is_empty());
    assert_eq!(
        std::fs::read_dir(folder.path().join("r/.incoming"))
            .expect("the folder")
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_requests_than_the_limit_are_in_flight() {
    #[derive(Debug, Default)]
    struct Counting(Mutex<(usize, usize)>, MemoryObjects);
    impl Counting {
        async fn pass(&self) {
            {
                let mut counts = self.0.lock();
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.0.lock().0 -= 1;
        }
    }
    #[async_trait]
    impl Requests for Counting {
        async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
            self.1.get(key, want).await
        }
        async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
            self.pass().await;
            self.1.head(key).await
        }
        async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
            self.1.put(key, bytes, mode).await
        }
        async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
            self.1.begin_parts(key).await
        }
        async fn put_part(&self, key: &str, up: &str, at: usize, len: u64, b: Bytes) -> Result<String, ObjectError> {
            self.1.put_part(key, up, at, len, b).await
        }
        async fn complete_parts(&self, key: &str, up: &str, parts: Vec<String>) -> Result<(), ObjectError> {
            self.1.complete_parts(key, up, parts).await
        }
        async fn abort_parts(&self, key: &str, up: &str) -> Result<(), ObjectError> {
            self.1.abort_parts(key, up).await
        }
        async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
            self.1.list(prefix).await
        }
        async fn delete(&self, key: &str) -> Result<(), ObjectError> {
            self.1.delete(key).await
        }
    }
    let store = Arc::new(Counting::default());
    let limit = Limit::new(3);
    // Two repositories share the limit.
    let repositories = [(); 2].map(|()| {
        let mut guard = guard();
        guard.limit = limit.clone();
        Guarded::new(Arc::clone(&store) as Arc<dyn Requests>, guard)
    });
    let reads: Vec<_> = (0..30)
        .map(|at| {
            let objects = repositories[at % 2].clone();
            tokio::spawn(async move { kind(objects.info("k").await) })
        })
        .collect();
    for one in reads {
        assert_eq!(one.await.expect("no panic"), ObjectErrorKind::NotFound);
    }
    assert_eq!(store.0.lock().1, 3);
    assert_eq!(limit.in_flight(), 0);
}

#[tokio::test]
async fn restores_keep_their_pace_and_searches_do_not_wait() {
    let mut guard = guard();
    guard.restore_pace = Throttle::new(Some(100_000));
    let objects = Guarded::new(Arc::new(MemoryObjects::new()), guard);
    objects
        .write("k", vec![1; 20_000].into(), PutMode::Create)
        .await
        .expect("write");
    let restore = objects.for_restore();
    let timed = async |objects: &Guarded| {
        let started = Instant::now();
        for _ in 0..3 {
            objects.read("k", 0..20_000).await.expect("read");
        }
        started.elapsed()
    };
    let searched = timed(&objects).await;
    let restored = timed(&restore).await;
    assert!(
        restored >= Duration::from_millis(450),
        "60 kB at 100 kB/s took {restored:?}"
    );
    assert!(searched < restored, "{searched:?}");
}
