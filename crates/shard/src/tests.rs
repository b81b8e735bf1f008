//! Tests of a shard against a model: random operations, restarts, crashes at every step, damage, failures.

mod clustering;
mod killed;
mod moving;
mod purge;
mod races;
mod replay;
mod restored;
mod tenants;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::document::{Effect, Expectation, Written};
use firn_model::ids::AutoId;
use firn_model::mapping::Mapping;
use firn_model::settings::{Durability, IndexSettings};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::{Disk, RealDisk};
use firn_storage::sim::{Operation as Step, SimDisk};
use firn_storage::wal::Syncer;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::live_segments::OpenSegment;
use crate::mapper::{CompiledMapping, MappedDocument, Unmapped, map_document};

type Documents = BTreeMap<String, String>;

fn compiled() -> Arc<CompiledMapping> {
    let mapping = Mapping::parse(&json!({"properties": {
        "@timestamp": {"type": "date"},
        "n": {"type": "long"},
        "tag": {"type": "keyword"},
        "tenant": {"type": "keyword"},
        "message": {"type": "text"},
    }}))
    .unwrap();
    let settings = IndexSettings::parse(&json!({})).unwrap();
    Arc::new(CompiledMapping::new(Arc::new(mapping), &settings).unwrap())
}

fn config(disk: Arc<dyn Disk>, dir: &Path) -> ShardConfig {
    let mut config = ShardConfig::new("test", "uuid-of-test", 0, dir, disk, Arc::new(Syncer::new(0)));
    config.merge_factor = 3;
    config.segment_docs_max = 40;
    config.tenant_field = Some("tenant".into());
    config.cluster_docs_min = 20;
    config.own_docs_min = 15;
    config
}

/// Shard with the components to write to it.
struct Harness {
    shard: Arc<Shard>,
    compiled: Arc<CompiledMapping>,
    config: ShardConfig,
}

impl Harness {
    fn create(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        let config = config(disk, dir);
        Self {
            shard: Shard::create(config.clone()).unwrap(),
            compiled: compiled(),
            config,
        }
    }

    fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self> {
        let compiled = compiled();
        let config = config(disk, dir);
        let shard = Shard::open(config.clone(), &|source| map(&compiled, source))?;
        Ok(Self {
            shard,
            compiled,
            config,
        })
    }

    fn reopen(self) -> Self {
        let Self { shard, config, .. } = self;
        // As if all writes had been acknowledged; others may be lost.
        shard.wal().sync_blocking(shard.wal().end()).unwrap();
        drop(shard);
        Self::open(config.disk, &config.dir).unwrap()
    }

    fn index_op(&self, id: Option<&str>, source: &str) -> ShardOp {
        ShardOp::Index {
            id: id.map(str::to_owned),
            create: false,
            document: Box::new(map(&self.compiled, &Bytes::copy_from_slice(source.as_bytes())).unwrap()),
            expect: Expectation::Any,
            routing: None,
        }
    }

    fn index(&self, id: Option<&str>, source: &str) -> Written {
        self.write(self.index_op(id, source)).unwrap()
    }

    fn delete(&self, id: &str) -> Result<Written> {
        self.write(delete_op(id))
    }

    fn write(&self, op: ShardOp) -> Result<Written> {
        let mut applied = self.shard.apply(vec![op])?;
        if let Some(position) = applied.durable {
            self.shard.wait_durable(position, Box::new(|result| result.unwrap()));
        }
        applied.results.remove(0)
    }

    fn made_id(&self, seq_no: u64) -> String {
        AutoId {
            index_tag: self.config.index_tag,
            shard: 0,
            seq_no,
        }
        .encode()
    }

    /// Returns every searchable document; fails if an id is there twice.
    fn documents(&self) -> Documents {
        let mut documents = Documents::new();
        for segment in &self.shard.snapshot().segments {
            let open = {
                let state = self.shard.state.lock();
                let live = state
                    .segments
                    .iter()
                    .find(|live| live.generation() == segment.generation);
                live.map(|live| Arc::clone(&live.open)).unwrap()
            };
            if let Some(counted) = &segment.tenants {
                assert_eq!(**counted, tenants::count(&open));
            }
            for doc in (0..segment.max_doc).filter(|doc| segment.is_alive(*doc)) {
                let (source, id, _) = open.stored(doc).unwrap();
                let id = id.unwrap_or_else(|| self.made_id(open.seq_no(doc)));
                let old = documents.insert(id.clone(), String::from_utf8(source.to_vec()).unwrap());
                assert_eq!(old, None, "[{id}] is there twice");
            }
        }
        documents
    }
}

fn map(compiled: &Arc<CompiledMapping>, source: &Bytes) -> Result<MappedDocument> {
    map_document(compiled, source, None, Unmapped::Flatten).map(|mapped| mapped.document)
}

fn delete_op(id: &str) -> ShardOp {
    ShardOp::Delete {
        id: id.to_owned(),
        expect: Expectation::Any,
        routing: None,
    }
}

fn sim() -> (SimDisk, PathBuf) {
    let disk = SimDisk::new();
    // The folder of indices is durable before the first shard is created.
    disk.create_dir_all(Path::new("/data/indices")).unwrap();
    for dir in ["/", "/data"] {
        disk.sync_dir(Path::new(dir)).unwrap();
    }
    (disk, PathBuf::from("/data/indices/uuid/0"))
}

#[test]
fn versions_and_conflicts() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    let first = shard.index(Some("a"), r#"{"n":1}"#);
    assert_eq!((first.effect, first.version, first.seq_no), (Effect::Created, 1, 0));
    let second = shard.index(Some("a"), r#"{"n":2}"#);
    assert_eq!((second.effect, second.version, second.seq_no), (Effect::Updated, 2, 1));
    shard.shard.refresh().unwrap();
    let conditional = |seq_no, source: &str| ShardOp::Index {
        id: Some("a".to_owned()),
        create: false,
        document: Box::new(map(&shard.compiled, &Bytes::copy_from_slice(source.as_bytes())).unwrap()),
        expect: Expectation::SeqNo {
            seq_no,
            primary_term: 1,
        },
        routing: Some("r".to_owned()),
    };
    let error = shard.write(conditional(0, "{}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionConflict);
    assert_eq!(
        error.reason(),
        "[a]: version conflict, required seqNo [0], primary term [1]. current document has seqNo [1] and primary term [1]"
    );
    assert_eq!(shard.write(conditional(1, r#"{"n":"x"}"#)).unwrap().version, 3);
    let read = shard.shard.get("a", true).unwrap().unwrap();
    assert_eq!((read.version, read.seq_no, read.routing.as_deref()), (3, 2, Some("r")));
    assert_eq!(read.ignored, ["n"]);
    assert_eq!(shard.shard.get("a", false).unwrap().unwrap().version, 2);
    let ShardOp::Index { document, .. } = shard.index_op(None, "{}") else {
        unreachable!()
    };
    let create = ShardOp::Index {
        id: Some("a".to_owned()),
        create: true,
        document,
        expect: Expectation::Any,
        routing: None,
    };
    let error = shard.write(create).unwrap_err();
    assert_eq!(
        error.reason(),
        "[a]: version conflict, document already exists (current version [3])"
    );
    assert_eq!(shard.delete("a").unwrap().version, 4);
    assert_eq!(shard.delete("a").unwrap().effect, Effect::NotFound);
    assert_eq!(shard.index(Some("a"), "{}").version, 6);
    shard.shard.refresh().unwrap();
    let shard = shard.reopen();
    assert_eq!(shard.shard.get("a", true).unwrap().unwrap().version, 6);
}

#[test]
fn external_versions() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    let write = |expect| {
        let ShardOp::Index { document, .. } = shard.index_op(None, "{}") else {
            unreachable!()
        };
        shard.write(ShardOp::Index {
            id: Some("a".to_owned()),
            create: false,
            document,
            expect,
            routing: None,
        })
    };
    assert_eq!(write(Expectation::External(5)).unwrap().version, 5);
    assert!(write(Expectation::External(5)).is_err());
    assert_eq!(write(Expectation::ExternalGte(5)).unwrap().version, 5);
    assert_eq!(write(Expectation::External(9)).unwrap().version, 9);
    shard.shard.flush().unwrap();
    assert!(write(Expectation::ExternalGte(8)).is_err());
}

#[test]
fn made_ids_can_be_read_updated_and_deleted() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    let ids: Vec<String> = (0..10)
        .map(|number| shard.made_id(shard.index(None, &format!(r#"{{"n":{number}}}"#)).seq_no))
        .collect();
    let read = |shard: &Harness, id: &str| shard.shard.get(id, true).unwrap().map(|found| found.source);
    assert_eq!(read(&shard, &ids[3]).unwrap(), r#"{"n":3}"#);
    assert_eq!(shard.index(Some(&ids[3]), r#"{"n":33}"#).effect, Effect::Updated);
    assert_eq!(shard.delete(&ids[4]).unwrap().effect, Effect::Deleted);
    let future = shard.made_id(1_000);
    assert!(shard.write(shard.index_op(Some(&future), "{}")).is_err());
    let shard = shard.reopen();
    assert_eq!(read(&shard, &ids[3]).unwrap(), r#"{"n":33}"#);
    assert_eq!(read(&shard, &ids[4]), None);
    shard.shard.force_merge(1, false).unwrap();
    assert_eq!(read(&shard, &ids[3]).unwrap(), r#"{"n":33}"#);
    assert_eq!(read(&shard, &ids[9]).unwrap(), r#"{"n":9}"#);
    assert_eq!(shard.delete(&ids[9]).unwrap().effect, Effect::Deleted);
    shard.shard.refresh().unwrap();
    assert_eq!(shard.documents().len(), 8);
}

#[test]
fn segments_know_their_times() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    shard.index(Some("a"), r#"{"@timestamp":"2024-01-01T00:00:00Z"}"#);
    shard.index(Some("b"), r#"{"@timestamp":"2024-01-02T00:00:00Z"}"#);
    shard.index(Some("c"), r#"{"n":1}"#);
    shard.shard.refresh().unwrap();
    shard.delete("a").unwrap();
    shard.index(Some("d"), r#"{"@timestamp":"2024-01-03T00:00:00Z"}"#);
    shard.shard.force_merge(1, false).unwrap();
    let snapshot = shard.shard.snapshot();
    let [segment] = &snapshot.segments[..] else {
        panic!("{} segments", snapshot.segments.len())
    };
    assert_eq!((segment.max_doc, segment.without_time_count), (3, 1));
    assert_eq!(segment.time_range_ms.unwrap().1, 1_704_240_000_000);
    assert!(segment.committed);
}

/// Runs one random step on the shard and on the model.
fn step(rng: &mut fastrand::Rng, shard: &Harness, model: &mut Documents, counter: &mut u32) {
    let mut ops = Vec::new();
    let mut made = Vec::new();
    let mut next = model.clone();
    for _ in 0..rng.usize(1..8) {
        let id = format!("id-{}", rng.u32(0..30));
        *counter += 1;
        let tenant = match rng.u32(0..40) {
            0 => r#"["a","b"]"#.to_owned(),
            1..4 => "null".to_owned(),
            _ => format!(r#""{}""#, ["a", "b", "c", "longer"][rng.usize(0..4)]),
        };
        let source = format!(
            r#"{{"n":{counter},"tag":"t{}","tenant":{tenant},"message":"some words {counter}","@timestamp":{}}}"#,
            *counter % 7,
            // Roughly in order, with repetitions.
            1_700_000_000_000_u64 + u64::from(*counter / 3 + rng.u32(0..9)) * 1000
        );
        match rng.u32(0..10) {
            0..5 => {
                ops.push(shard.index_op(Some(&id), &source));
                next.insert(id, source);
            }
            5..8 => {
                made.push((ops.len(), source.clone()));
                ops.push(shard.index_op(None, &source));
            }
            8 => {
                ops.push(delete_op(&id));
                next.remove(&id);
            }
            _ => {
                if let Some(id) = model.keys().nth(rng.usize(0..model.len().max(1))).cloned() {
                    ops.push(delete_op(&id));
                    next.remove(&id);
                }
            }
        }
    }
    let applied = shard.shard.apply(ops).unwrap();
    for (index, source) in made {
        let seq_no = applied.results[index].as_ref().unwrap().seq_no;
        next.insert(shard.made_id(seq_no), source);
    }
    *model = next;
}

#[test]
fn behaves_as_a_map() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (disk, dir) = sim();
        let mut shard = Harness::create(Arc::new(disk), &dir);
        let mut model = Documents::new();
        let mut counter = 0;
        for _ in 0..60 {
            match rng.u32(0..20) {
                0..12 => step(&mut rng, &shard, &mut model, &mut counter),
                12..15 => {
                    shard.shard.refresh().unwrap();
                    assert_eq!(shard.documents(), model, "seed {seed}");
                }
                15 => assert!(shard.shard.flush().is_ok()),
                16 => assert!(shard.shard.merge_tick().is_ok()),
                17 => shard.shard.force_merge(rng.usize(1..3), rng.bool()).unwrap(),
                18 => shard.shard.write_out_buffers().unwrap(),
                _ => {
                    if rng.bool() {
                        shard.shard.close().unwrap();
                    }
                    shard = shard.reopen();
                }
            }
            if let Some((id, source)) = model.iter().nth(rng.usize(0..model.len().max(1))) {
                let read = shard.shard.get(id, true).unwrap();
                assert_eq!(read.unwrap().source, source.as_bytes(), "seed {seed}");
            }
            assert_eq!(shard.shard.stats().doc_count, model.len() as u64, "seed {seed}");
        }
        shard.shard.refresh().unwrap();
        assert_eq!(shard.documents(), model, "seed {seed}");
        shard.shard.verify().unwrap();
    }
}

/// State at a power loss: the disk, the number of acknowledged batches, and the number of batches
/// passed to the shard.
struct Cut {
    disk: SimDisk,
    acknowledged: usize,
    applied: usize,
}

#[test]
fn survives_a_cut_at_every_sync() {
    for seed in 0..6 {
        let mut rng = fastrand::Rng::with_seed(1_000 + seed);
        let (disk, dir) = sim();
        let shard = Harness::create(Arc::new(disk.clone()), &dir);
        let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
        let progress = Arc::new(Mutex::new((0usize, 0usize)));
        let hook = {
            let (cuts, progress) = (Arc::clone(&cuts), Arc::clone(&progress));
            let crash_seed = Mutex::new(seed << 32);
            move |disk: &SimDisk, step: Step| {
                if matches!(step, Step::SyncFile | Step::SyncDir | Step::Rename | Step::Remove) {
                    let mut crash_seed = crash_seed.lock();
                    *crash_seed += 1;
                    let (acknowledged, applied) = *progress.lock();
                    cuts.lock().push(Cut {
                        disk: disk.crash(*crash_seed),
                        acknowledged,
                        applied,
                    });
                }
            }
        };
        disk.set_hook(Some(Arc::new(hook)));
        let mut states = vec![Documents::new()];
        let mut counter = 0;
        for _ in 0..40 {
            match rng.u32(0..10) {
                0..7 => {
                    let mut model = states.last().unwrap().clone();
                    progress.lock().1 = states.len();
                    step(&mut rng, &shard, &mut model, &mut counter);
                    states.push(model);
                    let end = shard.shard.wal().end();
                    let acknowledged = states.len() - 1;
                    let progress = Arc::clone(&progress);
                    shard.shard.wait_durable(
                        end,
                        Box::new(move |result| {
                            result.unwrap();
                            progress.lock().0 = acknowledged;
                        }),
                    );
                }
                7 => assert!(shard.shard.refresh().is_ok()),
                8 => assert!(shard.shard.flush().is_ok()),
                _ => {
                    shard.shard.merge_tick().unwrap();
                    if rng.bool() {
                        shard.shard.force_merge(1, false).unwrap();
                    }
                }
            }
        }
        disk.set_hook(None);
        let cuts = std::mem::take(&mut *cuts.lock());
        assert!(cuts.len() > 40, "only {} cuts", cuts.len());
        for (number, cut) in cuts
            .into_iter()
            .enumerate()
            .filter(|(number, _)| number % 3 == seed as usize % 3)
        {
            let shard = Harness::open(Arc::new(cut.disk.clone()), &dir)
                .unwrap_or_else(|error| panic!("seed {seed} cut {number}: {error}"));
            let found = shard.documents();
            let allowed = &states[cut.acknowledged..=cut.applied];
            assert!(
                allowed.contains(&found),
                "seed {seed} cut {number}: acknowledged {} of {} batches\n{found:?}\n{allowed:?}",
                cut.acknowledged,
                cut.applied
            );
            // Reopening without a clean close gives the same.
            let again = shard.reopen();
            assert_eq!(again.documents(), found, "seed {seed} cut {number}");
        }
    }
}

#[test]
fn errors_name_the_damaged_file() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    for number in 0..50 {
        shard.index(Some(&format!("{number}")), &format!(r#"{{"n":{number}}}"#));
    }
    shard.shard.flush().unwrap();
    shard.delete("7").unwrap();
    shard.shard.flush().unwrap();
    for number in 0..50 {
        shard.index(Some(&format!("{number}")), &format!(r#"{{"n":{number}}}"#));
    }
    drop(shard);
    let list = |folder: &Path| disk.list(folder).unwrap();
    let commit = list(&dir)
        .into_iter()
        .find(|entry| entry.name.starts_with("commit-"))
        .unwrap();
    let deletes = list(&dir.join("segments"))
        .into_iter()
        .find(|entry| !entry.is_dir)
        .unwrap();
    let wal = list(&dir.join("wal")).pop().unwrap();
    for (path, at) in [
        (dir.join(&commit.name), commit.len / 2),
        (dir.join("segments").join(&deletes.name), 0),
        (dir.join("wal").join(&wal.name), wal.len / 2),
    ] {
        let damaged = disk.kill();
        damaged.damage(&path, |bytes| bytes[at as usize] ^= 0x55).unwrap();
        let Err(error) = Harness::open(Arc::new(damaged), &dir) else {
            panic!("{} opened", path.display())
        };
        assert_eq!(error.kind(), ErrorKind::ShardDamaged, "{error}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(Harness::open(Arc::new(disk), &dir).unwrap().documents().len(), 50);
}

#[test]
fn damaged_segments_are_found() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    for number in 0..20 {
        shard.index(Some(&format!("{number}")), r#"{"message":"some words"}"#);
    }
    shard.shard.flush().unwrap();
    drop(shard);
    let folder = disk.list(&dir.join("segments")).unwrap().remove(0).name;
    let folder = dir.join("segments").join(folder);
    for entry in disk.list(&folder).unwrap() {
        let path = folder.join(&entry.name);
        let cut = disk.kill();
        cut.damage(&path, |bytes| bytes.truncate(bytes.len() - 1)).unwrap();
        if entry.name == "checksums.bin" {
            // It is derived from the other files, and is rebuilt.
            Harness::open(Arc::new(cut.clone()), &dir)
                .unwrap()
                .shard
                .verify()
                .unwrap();
            assert_eq!(cut.len(&path).unwrap(), entry.len);
            continue;
        }
        let Err(error) = Harness::open(Arc::new(cut), &dir) else {
            panic!("{} opened", path.display())
        };
        assert_eq!(error.kind(), ErrorKind::ShardDamaged, "{error}");
        let flipped = disk.kill();
        flipped
            .damage(&path, |bytes| {
                let middle = bytes.len() / 3;
                bytes[middle] ^= 1;
            })
            .unwrap();
        let found = Harness::open(Arc::new(flipped), &dir).and_then(|shard| shard.shard.verify());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::ShardDamaged, "{}", path.display());
    }
}

#[test]
fn two_threads_write_one_shard() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("shard");
    let shard = Arc::new(Harness::create(Arc::new(RealDisk), &dir));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let shard = Arc::clone(&shard);
            scope.spawn(move || {
                for batch in 0..30 {
                    let ops = (0..20)
                        .map(|number| {
                            let source = format!(r#"{{"n":{number},"tag":"{thread}-{batch}"}}"#);
                            // Both threads write to the same ids.
                            let id = (number % 2 == 0).then(|| format!("shared-{}", number / 2));
                            shard.index_op(id.as_deref(), &source)
                        })
                        .collect();
                    let applied = shard.shard.apply(ops).unwrap();
                    assert!(applied.results.iter().all(Result::is_ok));
                    if batch % 10 == 3 {
                        shard.shard.refresh().unwrap();
                    }
                    if batch % 10 == 7 {
                        shard.shard.flush().unwrap();
                        shard.shard.merge_tick().unwrap();
                    }
                }
            });
        }
    });
    shard.shard.refresh().unwrap();
    let documents = shard.documents();
    assert_eq!(documents.len(), 2 * 30 * 10 + 10);
    let shard = Arc::into_inner(shard).unwrap().reopen();
    assert_eq!(shard.documents(), documents);
    shard.shard.force_merge(1, false).unwrap();
    assert_eq!(shard.documents(), documents);
    assert_eq!(shard.shard.stats().segment_count, 1);
}

#[test]
fn a_full_disk_stops_writes_and_a_reopen_goes_on() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    for number in 0..10 {
        shard.index(Some(&format!("{number}")), "{}");
    }
    disk.set_capacity(disk.used_bytes() + 100);
    assert_eq!(shard.shard.refresh().unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(shard.shard.failure().unwrap().kind(), ErrorKind::DiskFull);
    assert!(shard.shard.apply(vec![shard.index_op(None, "{}")]).is_err());
    disk.set_capacity(u64::MAX);
    let shard = shard.reopen();
    assert_eq!(shard.documents().len(), 10);
    shard.index(Some("more"), "{}");
}

#[test]
fn a_closed_shard_refuses() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    shard.index(None, "{}");
    shard.shard.close().unwrap();
    let error = shard.shard.apply(vec![delete_op("a")]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::IndexClosed);
    assert_eq!(shard.reopen().documents().len(), 1);
}
