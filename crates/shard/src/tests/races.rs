//! Tests of concurrency: flushes, refreshes, merges, writes, and a shard that is stopped
//! while they run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use firn_storage::sim::Failure;

use super::*;
use crate::state::TOMBSTONES_MAX;

/// Longer than any step here takes; a deadlock shows as a timeout.
const PATIENCE: Duration = Duration::from_secs(20);

fn create(disk: &SimDisk, dir: &Path, sync_threads: usize) -> Arc<Harness> {
    let mut config = config(Arc::new(disk.clone()), dir);
    config.syncer = Arc::new(Syncer::new(sync_threads));
    Arc::new(Harness {
        shard: Shard::create(config.clone()).unwrap(),
        compiled: compiled(),
        config,
    })
}

/// Runs `once` before the first step of the disk that `is_it` picks.
fn on_step(
    disk: &SimDisk,
    is_it: impl Fn(Step) -> bool + Send + Sync + 'static,
    once: impl Fn() + Send + Sync + 'static,
) {
    disk.set_hook(Some(Arc::new(move |disk: &SimDisk, step| {
        if is_it(step) {
            disk.set_hook(None);
            once();
        }
    })));
}

/// Whether a flush has made its cut and is now syncing.
fn is_committing(shard: &Shard) -> bool {
    shard.commit_lock.try_lock().is_none() && shard.state.try_lock().is_some() && shard.wal().generation() > 1
}

fn commits(disk: &SimDisk, dir: &Path) -> Vec<u64> {
    firn_segment::commit_point::numbers(disk, dir).unwrap()
}

#[test]
fn a_callback_of_the_log_may_call_the_shard() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 1);
    let applied = harness.shard.apply(vec![harness.index_op(Some("a"), "{}")]).unwrap();
    let (sender, answers) = mpsc::channel();
    let waiting = Arc::clone(&harness);
    on_step(
        &disk,
        |step| step == Step::SyncFile,
        move || {
            let (shard, sender) = (Arc::clone(&waiting.shard), sender.clone());
            let position = applied.durable.unwrap();
            waiting.shard.wait_durable(
                position,
                Box::new(move |outcome| {
                    shard.set_durability(Durability::Request, 0, 1 << 20);
                    sender
                        .send((outcome, shard.needs_refresh(), shard.needs_flush()))
                        .unwrap();
                }),
            );
        },
    );
    let flushing = Arc::clone(&harness);
    let flush = std::thread::spawn(move || flushing.shard.flush());
    let (outcome, needs_refresh, _) = answers.recv_timeout(PATIENCE).expect("the flush hangs");
    outcome.unwrap();
    assert!(needs_refresh);
    assert!(flush.join().unwrap().unwrap());
}

#[test]
fn flags_are_read_without_a_lock() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(None, "{}");
    let (sender, answers) = mpsc::channel();
    let _held = harness.shard.state.lock();
    let shard = Arc::clone(&harness.shard);
    std::thread::spawn(move || {
        let answer = (shard.needs_refresh(), shard.has_uncommitted(), shard.needs_flush());
        sender.send((answer, shard.failure().is_none())).unwrap();
    });
    let answer = answers
        .recv_timeout(PATIENCE)
        .expect("a question waits for the shard's lock");
    assert_eq!(answer, ((true, true, false), true));
}

#[test]
fn a_flush_does_not_write_buffers_created_meanwhile() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(Some("before"), "{}");
    let writing = Arc::clone(&harness);
    // The log is trimmed after the commit.
    on_step(
        &disk,
        |step| step == Step::Remove,
        move || {
            writing.index(Some("meanwhile"), "{}");
        },
    );
    harness.shard.flush().unwrap();
    harness.shard.refresh().unwrap();
    assert_eq!(harness.documents().len(), 2);
    harness.shard.flush().unwrap();
    let again = Harness::open(Arc::new(disk.kill()), &dir).unwrap();
    assert_eq!(again.documents().len(), 2);
}

#[test]
fn documents_updated_during_a_refresh_never_vanish() {
    const DOCS: u32 = 12;
    let folder = tempfile::tempdir().unwrap();
    let harness = Harness::create(Arc::new(RealDisk), &folder.path().join("shard"));
    let update = |number| {
        let id = format!("{number}");
        harness.index_op(Some(&id), r#"{"message":"some words","tag":"x"}"#)
    };
    harness.shard.apply((0..DOCS).map(update).collect()).unwrap();
    harness.shard.refresh().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1_u32.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                for number in 0..DOCS {
                    harness.shard.apply(vec![update(number)]).unwrap();
                }
                if turn.is_multiple_of(100) {
                    harness.shard.merge_tick().unwrap();
                }
            }
        });
        for round in 0..300 {
            harness.shard.refresh().unwrap();
            let snapshot = harness.shard.snapshot();
            let found: u32 = snapshot
                .segments
                .iter()
                .map(|segment| segment.max_doc - segment.deleted_count)
                .sum();
            if found != DOCS {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, DOCS, "after {round} refreshes");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    harness.shard.refresh().unwrap();
    assert!(!harness.shard.needs_refresh());
    assert_eq!(harness.documents().len(), DOCS as usize);
}

#[test]
fn a_stopped_shard_gives_up_its_merge_and_leaves_its_folder_to_the_next() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    for number in 0..3 {
        harness.index(Some(&format!("{number}")), r#"{"message":"some words"}"#);
        harness.shard.flush().unwrap();
    }
    let (in_merge, merging) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    on_step(
        &disk,
        |step| step == Step::Append,
        move || {
            in_merge.send(()).unwrap();
            may_go_on.lock().recv_timeout(PATIENCE).unwrap();
        },
    );
    let old = Arc::clone(&harness);
    let merge = std::thread::spawn(move || old.shard.force_merge(1, false));
    merging.recv_timeout(PATIENCE).unwrap();
    harness.shard.abandon();
    let (is_quiet, quiet) = mpsc::channel();
    let old = Arc::clone(&harness);
    std::thread::spawn(move || {
        old.shard.quiesce();
        is_quiet.send(()).unwrap();
    });
    assert!(
        quiet.recv_timeout(Duration::from_millis(100)).is_err(),
        "a merge still writes"
    );
    go_on.send(()).unwrap();
    quiet.recv_timeout(PATIENCE).expect("the merge does not give up");
    assert_eq!(merge.join().unwrap().unwrap_err().kind(), ErrorKind::IndexClosed);
    let next = Harness::open(Arc::new(disk.clone()), &dir).unwrap();
    next.index(Some("more"), "{}");
    next.shard.flush().unwrap();
    assert!(harness.shard.flush().is_err() && harness.shard.refresh().is_err());
    harness.shard.quiesce();
    assert_eq!(next.reopen().documents().len(), 4);
}

#[test]
fn a_stopped_shard_commits_nothing() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(Some("a"), "{}");
    let (observed, stopping) = (Arc::clone(&harness), Arc::clone(&harness));
    on_step(
        &disk,
        move |step| step == Step::SyncFile && is_committing(&observed.shard),
        move || stopping.shard.abandon(),
    );
    assert_eq!(harness.shard.flush().unwrap_err().kind(), ErrorKind::IndexClosed);
    harness.shard.quiesce();
    assert_eq!(commits(&disk, &dir), [1]);
    let next = Harness::open(Arc::new(disk), &dir).unwrap();
    assert_eq!(next.documents().len(), 1);
}

#[test]
fn a_failed_sync_of_a_segment_is_not_tried_again() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(Some("a"), "{}");
    let (observed, failing) = (Arc::clone(&harness), disk.clone());
    on_step(
        &disk,
        move |step| step == Step::SyncFile && is_committing(&observed.shard),
        move || {
            failing.fail(Failure {
                after: 0,
                only: Some(Step::SyncFile),
                kind: std::io::ErrorKind::Other,
                lasting: false,
            });
        },
    );
    harness.shard.flush().unwrap_err();
    assert!(harness.shard.failure().is_some());
    assert!(harness.shard.flush().is_err());
    harness.shard.abandon();
    harness.shard.quiesce();
    for seed in 0..10 {
        let next = Harness::open(Arc::new(disk.crash(seed)), &dir).unwrap();
        assert_eq!(next.documents().len(), 1);
    }
}

#[test]
fn a_flush_that_fails_loses_no_count_and_makes_no_files() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(Some("a"), "{}");
    // The first rename is that of the log's next file, the second that of the commit point.
    for after in [1, 0, 0] {
        disk.fail(Failure {
            after,
            only: Some(Step::Rename),
            kind: std::io::ErrorKind::StorageFull,
            lasting: false,
        });
        assert_eq!(harness.shard.flush().unwrap_err().kind(), ErrorKind::DiskFull);
        assert!(harness.shard.has_uncommitted() && harness.shard.failure().is_none());
        assert_eq!(
            (harness.shard.stats().wal_ops, harness.shard.wal().generation()),
            (1, 2)
        );
    }
    disk.heal();
    assert!(harness.shard.flush().unwrap());
    assert_eq!(harness.shard.stats().wal_ops, 0);
    assert_eq!(commits(&disk, &dir), [2]);
}

#[test]
fn a_damaged_segment_stops_no_other_merge() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    for number in 0..4 {
        harness.index(Some(&format!("{number}")), r#"{"message":"some words"}"#);
        harness.shard.flush().unwrap();
    }
    let folder = dir.join("segments/_1");
    let file = disk.list(&folder).unwrap().remove(0).name;
    disk.damage(&folder.join(file), |bytes| bytes[0] ^= 1).unwrap();
    assert_eq!(harness.shard.merge_tick().unwrap_err().kind(), ErrorKind::ShardDamaged);
    assert!(harness.shard.merge_tick().unwrap());
    assert_eq!(harness.shard.stats().segment_count, 2);
    assert!(!harness.shard.merge_tick().unwrap());
    let error = harness.shard.force_merge(1, false).unwrap_err();
    assert!(error.reason().contains("_1"), "{error}");
}

#[test]
fn a_damaged_uncommitted_segment_is_rebuilt_from_the_wal() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    for number in 0..4 {
        harness.index(Some(&format!("{number}")), r#"{"message":"some words"}"#);
    }
    harness.shard.refresh().unwrap();
    let folder = dir.join("segments/_1");
    let entries = disk.list(&folder).unwrap();
    let store = entries.iter().find(|entry| entry.name.ends_with(".store")).unwrap();
    disk.damage(&folder.join(&store.name), |bytes| bytes[0] ^= 1).unwrap();
    let error = harness.shard.verify().unwrap_err();
    assert!(error.reason().contains("the block at offset 0"), "{error}");
    assert_eq!(harness.shard.flush().unwrap_err().kind(), ErrorKind::ShardDamaged);
    assert!(harness.shard.failure().is_some());
    drop(harness);
    let harness = Harness::open(Arc::new(disk), &dir).unwrap();
    assert_eq!(harness.documents().len(), 4);
    harness.shard.flush().unwrap();
    harness.shard.verify().unwrap();
}

#[test]
fn tombstones_are_bounded() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    for batch in 0..11 {
        let ops = (0..10_000)
            .map(|number| delete_op(&format!("{batch}-{number}")))
            .collect();
        harness.shard.apply(ops).unwrap();
    }
    let state = harness.shard.state.lock();
    let count = state.tombstones.len();
    assert!((TOMBSTONES_MAX / 2..=TOMBSTONES_MAX).contains(&count), "{count}");
    assert!(state.tombstones.contains_key("10-9999"), "the newest stay");
}

#[test]
fn flushes_that_keep_failing_stop_the_shard() {
    let (disk, dir) = sim();
    let harness = create(&disk, &dir, 0);
    harness.index(Some("a"), "{}");
    disk.fail(Failure {
        after: 1,
        only: Some(Step::Rename),
        kind: std::io::ErrorKind::Other,
        lasting: true,
    });
    let failed = (1..100)
        .take_while(|_| harness.shard.failure().is_none())
        .inspect(|_| assert!(harness.shard.flush().is_err()))
        .count();
    assert_eq!(failed, 8);
    disk.heal();
    harness.shard.abandon();
    harness.shard.quiesce();
    assert_eq!(Harness::open(Arc::new(disk), &dir).unwrap().documents().len(), 1);
}
