//! Tests of the catalog on a disk that fails.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use firn_storage::disk::RealDisk;
use redb::StorageBackend;
use redb::backends::FileBackend;
use serde_json::json;

use super::*;

/// Disk that is full after some steps.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// Steps that still succeed; negative: all succeed.
    steps_left: Arc<AtomicI64>,
    /// Whether only one step fails.
    once: bool,
    failures: Arc<AtomicU64>,
}

impl Disk {
    fn step(&self) -> io::Result<()> {
        let left = self.steps_left.load(Ordering::Relaxed);
        if left < 0 {
            return Ok(());
        }
        if left > 0 {
            self.steps_left.store(left - 1, Ordering::Relaxed);
            return Ok(());
        }
        if self.once {
            self.steps_left.store(-1, Ordering::Relaxed);
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        Err(io::ErrorKind::StorageFull.into())
    }

    fn fail_after(&self, steps: i64) {
        self.steps_left.store(steps, Ordering::Relaxed);
    }

    fn make_room(&self) {
        self.steps_left.store(-1, Ordering::Relaxed);
    }

    fn catalog(&self, path: &Path) -> Catalog {
        let disk = self.clone();
        let open: Opener = Box::new(move |path| {
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .unwrap();
            builder().create_with_backend(Backend {
                file: FileBackend::new(file)?,
                disk: disk.clone(),
            })
        });
        Catalog::open_with(&(Arc::new(RealDisk) as Arc<dyn firn_storage::disk::Disk>), path, open).unwrap()
    }
}

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    disk: Disk,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.step()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.step()?;
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

fn with_setting(before: &Metadata, value: u64) -> Metadata {
    let mut after = before.clone();
    after.version += 1;
    after.cluster_uuid = "uuid".to_owned();
    after
        .cluster_settings
        .insert("search.max_buckets".to_owned(), json!(value));
    after
}

fn check(once: bool) {
    for step in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.redb");
        let disk = Disk {
            once,
            ..Disk::default()
        };
        disk.make_room();
        let mut catalog = disk.catalog(&path);
        let first = with_setting(&catalog.load().unwrap(), 1);
        catalog.store(&Metadata::default(), &first).unwrap();

        disk.fail_after(step);
        let second = with_setting(&first, 2);
        let outcome = catalog.store(&first, &second);
        let failed = disk.failures.load(Ordering::Relaxed) > 0;
        disk.make_room();
        let now = match &outcome {
            Ok(()) => &second,
            Err(failure) => {
                assert!(failed);
                assert_eq!(
                    failure.error.kind(),
                    firn_model::ErrorKind::DiskFull,
                    "step {step}: {failure:?}"
                );
                if !failure.maybe_stored {
                    assert_eq!(catalog.load().unwrap(), first, "step {step}");
                }
                &first
            }
        };
        // Once the disk has space, the next change is stored normally.
        let third = with_setting(now, 3);
        catalog.store(now, &third).unwrap();
        assert_eq!(catalog.load().unwrap(), third, "step {step}");
        drop(catalog);
        assert_eq!(
            Catalog::open(&(Arc::new(RealDisk) as Arc<dyn firn_storage::disk::Disk>), &path)
                .unwrap()
                .load()
                .unwrap(),
            third,
            "step {step}"
        );
        if !failed {
            assert!(step > 2, "some step must have failed");
            return;
        }
    }
    panic!("a change takes fewer steps");
}

#[test]
fn one_error_does_not_end_the_catalog() {
    check(true);
}

#[test]
fn changes_succeed_again_after_a_full_disk() {
    check(false);
}

#[test]
fn a_failed_sync_of_an_earlier_process_loses_no_later_change() {
    use firn_storage::sim::{Failure, Operation, SimDisk};
    let path = Path::new("/catalog.redb");
    let open = |disk: &SimDisk| Catalog::open(&(Arc::new(disk.clone()) as Arc<dyn firn_storage::disk::Disk>), path);
    for seed in 0..40 {
        let disk = SimDisk::new();
        let mut catalog = open(&disk).unwrap();
        firn_storage::disk::Disk::sync_dir(&disk, Path::new("/")).unwrap();
        let first = with_setting(&catalog.load().unwrap(), 1);
        catalog.store(&Metadata::default(), &first).unwrap();
        disk.fail(Failure {
            after: 0,
            only: Some(Operation::SyncFile),
            kind: io::ErrorKind::Other,
            lasting: true,
        });
        catalog.store(&first, &with_setting(&first, 2)).unwrap_err();
        drop(catalog);

        let next = disk.kill();
        let mut catalog = open(&next).unwrap();
        let found = catalog.load().unwrap();
        let third = with_setting(&found, 3);
        catalog.store(&found, &third).unwrap();
        drop(catalog);
        let after = next.crash(seed);
        assert_eq!(open(&after).unwrap().load().unwrap(), third, "seed {seed}");
    }
}
