//! Tests that a parallel replay of a WAL gives the same shard as before the crash.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firn_testkit::seed;

use super::*;

/// Returns the config of a shard that many windows and threads replay.
fn parallel(disk: Arc<dyn Disk>, dir: &Path) -> ShardConfig {
    let mut config = config(disk, dir);
    config.replay_window_bytes = 300;
    config.buffers_max = 4;
    config.replay_threads = ReplayThreads::new(3);
    config
}

/// Returns the results of reads by id: version, sequence number, source.
fn read_all(shard: &Shard, ids: &[String]) -> Vec<Option<(u64, u64, Bytes)>> {
    let read = |id: &String| {
        let found = shard.get(id, true).unwrap();
        found.map(|document| (document.version, document.seq_no, document.source))
    };
    ids.iter().map(read).collect()
}

#[test]
fn a_parallel_replay_gives_the_same_shard() {
    let mut rng = fastrand::Rng::with_seed(seed("parallel_replay"));
    for round in 0..20 {
        let (disk, dir) = sim();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let harness = Harness::create(Arc::clone(&disk), &dir);
        let (mut model, mut counter) = (Documents::new(), 0);
        for _ in 0..rng.usize(1..60) {
            step(&mut rng, &harness, &mut model, &mut counter);
        }
        let stats = harness.shard.stats();
        let mut ids: Vec<String> = (0..30).map(|number| format!("id-{number}")).collect();
        ids.extend((0..stats.max_seq_no.map_or(0, |last| last + 1)).map(|seq_no| harness.made_id(seq_no)));
        let before = read_all(&harness.shard, &ids);
        let compiled = compiled();
        harness.shard.wal().sync_blocking(harness.shard.wal().end()).unwrap();
        drop(harness);

        let config = parallel(disk, &dir);
        let shard = Shard::open(config.clone(), &|source| map(&compiled, source)).unwrap();
        assert_eq!(read_all(&shard, &ids), before, "round {round}");
        assert_eq!(shard.stats().max_seq_no, stats.max_seq_no, "round {round}");
        let harness = Harness {
            shard,
            compiled,
            config,
        };
        let documents = harness.documents();
        assert_eq!(documents, model, "round {round}");
    }
}

#[test]
fn several_threads_map_at_the_same_time() {
    let (disk, dir) = sim();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let harness = Harness::create(Arc::clone(&disk), &dir);
    for number in 0..200 {
        harness.index(None, &format!(r#"{{"n":{number},"message":"some words"}}"#));
    }
    drop(harness);
    let compiled = compiled();
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shard = Shard::open(parallel(disk, &dir), &|source| {
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Long enough for the other threads to arrive, even on a busy machine.
        for _ in 0..20_000 {
            if most.load(Ordering::SeqCst) >= 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        running.fetch_sub(1, Ordering::SeqCst);
        map(&compiled, source)
    })
    .unwrap();
    assert_eq!(most.into_inner(), 4, "one reader and three threads");
    assert_eq!(shard.stats().doc_count, 200);
}

#[test]
fn a_replay_ends_with_a_failure_of_the_node_and_stores_events_that_do_not_fit() {
    let (disk, dir) = sim();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let harness = Harness::create(Arc::clone(&disk), &dir);
    for number in 0..50 {
        harness.index(None, &format!(r#"{{"n":{number},"message":"some words"}}"#));
    }
    drop(harness);
    let compiled = compiled();
    let mapped = AtomicUsize::new(0);
    let failing = |kind| {
        Shard::open(
            parallel(Arc::clone(&disk), &dir),
            &|source| match mapped.fetch_add(1, Ordering::SeqCst) % 50 {
                30 => Err(Error::new(kind, "no")),
                _ => map(&compiled, source),
            },
        )
    };
    for kind in [ErrorKind::DiskFull, ErrorKind::Internal, ErrorKind::Rejected] {
        mapped.store(0, Ordering::SeqCst);
        assert_eq!(failing(kind).err().map(|error| error.kind()), Some(kind));
    }
    mapped.store(0, Ordering::SeqCst);
    let shard = failing(ErrorKind::StrictDynamicMapping).unwrap();
    assert_eq!(shard.stats().doc_count, 50, "as source without fields");
}
