//! Tests of copying a shard to another device during writes, with a power loss at every step.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::ShardCopy;

const FROM: &str = "/hot/indices/uuid/0";
const TO: &str = "/warm/indices/uuid/0";

/// Returns a disk with the folders of both devices, so that a crash image contains both.
fn devices() -> SimDisk {
    let disk = SimDisk::new();
    for dir in ["/hot/indices", "/warm/indices"] {
        disk.create_dir_all(Path::new(dir)).unwrap();
    }
    for dir in ["/", "/hot", "/warm"] {
        disk.sync_dir(Path::new(dir)).unwrap();
    }
    disk
}

/// Makes all writes so far durable.
fn acknowledge(shard: &Harness) {
    shard.shard.wal().sync_blocking(shard.shard.wal().end()).unwrap();
}

/// Copies in two rounds with writes, merges and deletes in between, until it ends or fails.
fn move_it(
    shard: &Harness,
    rng: &mut fastrand::Rng,
    model: &mut Documents,
    counter: &mut u32,
    stands_still: &AtomicBool,
) -> Result<()> {
    let mut copy = ShardCopy::begin(config(Arc::clone(&shard.config.disk), Path::new(TO)))?;
    for _ in 0..2 {
        copy.catch_up(&shard.shard, &|| Ok(()))?;
        for _ in 0..5 {
            step(rng, shard, model, counter);
        }
        shard.shard.force_merge(rng.usize(1..3), false)?;
    }
    step(rng, shard, model, counter);
    acknowledge(shard);
    stands_still.store(true, Ordering::Relaxed);
    shard.shard.flush()?;
    shard.shard.abandon();
    shard.shard.quiesce();
    copy.finish(&shard.shard, &|| Ok(()))
}

fn filled(disk: &SimDisk, rng: &mut fastrand::Rng, model: &mut Documents, counter: &mut u32) -> Harness {
    let shard = Harness::create(Arc::new(disk.clone()), Path::new(FROM));
    for _ in 0..12 {
        step(rng, &shard, model, counter);
    }
    shard.shard.flush().unwrap();
    shard
}

#[test]
fn one_copy_is_complete_after_a_power_loss_at_any_step() {
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let disk = devices();
        let (mut model, mut counter) = (Documents::new(), 0);
        let shard = filled(&disk, &mut rng, &mut model, &mut counter);
        let stands_still = Arc::new(AtomicBool::new(false));
        let cuts: Arc<Mutex<Vec<(SimDisk, bool)>>> = Arc::default();
        let hook = {
            let (cuts, crash_seed) = (Arc::clone(&cuts), Mutex::new(seed << 32));
            let stands_still = Arc::clone(&stands_still);
            move |disk: &SimDisk, step: Step| {
                if matches!(step, Step::SyncFile | Step::SyncDir | Step::Rename | Step::Remove) {
                    *crash_seed.lock() += 1;
                    cuts.lock()
                        .push((disk.crash(*crash_seed.lock()), stands_still.load(Ordering::Relaxed)));
                }
            }
        };
        disk.set_hook(Some(Arc::new(hook)));
        move_it(&shard, &mut rng, &mut model, &mut counter, &stands_still).unwrap();
        disk.set_hook(None);

        // Before the switch the catalog names the old folder, and a folder without a commit point is not a shard.
        let cuts = std::mem::take(&mut *cuts.lock());
        assert!(cuts.len() > 30, "only {} cuts", cuts.len());
        let mut was_whole = false;
        let opened = |disk: &Arc<dyn Disk>, dir: &str, number: usize| {
            Harness::open(Arc::clone(disk), Path::new(dir))
                .unwrap_or_else(|error| panic!("seed {seed} cut {number}: {error}"))
                .documents()
        };
        for (number, (cut, stands_still)) in cuts.into_iter().enumerate() {
            if !stands_still && number % 3 != 0 {
                continue;
            }
            let cut: Arc<dyn Disk> = Arc::new(cut);
            let found = opened(&cut, FROM, number);
            if stands_still {
                assert_eq!(found, model, "seed {seed} cut {number}");
            }
            if Shard::exists(&*cut, Path::new(TO)).unwrap() {
                assert_eq!(opened(&cut, TO, number), model, "seed {seed} cut {number}");
                was_whole = true;
            }
        }
        assert!(was_whole, "no cut came between the copy and the switch");
        // After the switch, unsynced data is lost, and the copy alone must be complete, even if its first start is cut
        // repeatedly.
        let after = disk.crash(seed);
        after.remove_dir_all(Path::new(FROM)).unwrap();
        let cuts: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
        let recorded = Arc::clone(&cuts);
        after.set_hook(Some(Arc::new(move |disk: &SimDisk, _| {
            recorded.lock().push(disk.crash(seed))
        })));
        let after: Arc<dyn Disk> = Arc::new(after);
        drop(Harness::open(Arc::clone(&after), Path::new(TO)).unwrap());
        for (number, cut) in std::mem::take(&mut *cuts.lock()).into_iter().enumerate() {
            let cut: Arc<dyn Disk> = Arc::new(cut);
            assert_eq!(opened(&cut, TO, number), model, "seed {seed} start {number}");
        }
        let copy = Harness::open(after, Path::new(TO)).unwrap();
        assert_eq!(copy.documents(), model, "seed {seed}");
        step(&mut rng, &copy, &mut model, &mut counter);
        let copy = copy.reopen();
        assert_eq!(copy.documents(), model, "seed {seed}");
        copy.shard.verify().unwrap();
    }
}

#[test]
fn a_copy_that_fails_leaves_the_shard_as_it_was() {
    let mut rng = fastrand::Rng::with_seed(7);
    for after in [1, 9, 30, 70] {
        let disk = devices();
        let (mut model, mut counter) = (Documents::new(), 0);
        let shard = filled(&disk, &mut rng, &mut model, &mut counter);
        let mut copy = ShardCopy::begin(config(Arc::new(disk.clone()), Path::new(TO))).unwrap();
        let left = std::cell::Cell::new(after);
        let stop = || match left.replace(left.get() - 1) {
            1 => Err(firn_model::Error::new(ErrorKind::Cancelled, "stopped")),
            _ => Ok(()),
        };
        let stopped = copy.catch_up(&shard.shard, &stop);
        assert_eq!(stopped.is_err(), left.get() == 0);
        assert!(!Shard::exists(&disk, Path::new(TO)).unwrap());
        shard.shard.refresh().unwrap();
        assert_eq!(shard.documents(), model);
        // The next attempt starts from the beginning.
        move_it(&shard, &mut rng, &mut model, &mut counter, &AtomicBool::default()).unwrap();
        let copy = Harness::open(Arc::new(disk), Path::new(TO)).unwrap();
        assert_eq!(copy.documents(), model);
    }
}

#[test]
fn damage_is_not_carried_to_another_device() {
    let mut rng = fastrand::Rng::with_seed(3);
    let disk = devices();
    let (mut model, mut counter) = (Documents::new(), 0);
    let shard = filled(&disk, &mut rng, &mut model, &mut counter);
    let segments = Path::new(FROM).join("segments");
    let folder = disk
        .list(&segments)
        .unwrap()
        .into_iter()
        .find(|entry| entry.is_dir)
        .unwrap();
    let folder = segments.join(folder.name);
    let file = disk
        .list(&folder)
        .unwrap()
        .into_iter()
        .max_by_key(|file| file.len)
        .map(|file| folder.join(file.name))
        .unwrap();
    disk.damage(&file, |bytes| bytes[5] ^= 1).unwrap();
    let mut copy = ShardCopy::begin(config(Arc::new(disk.clone()), Path::new(TO))).unwrap();
    let error = copy.catch_up(&shard.shard, &|| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
    assert!(!Shard::exists(&disk, Path::new(TO)).unwrap());
}
