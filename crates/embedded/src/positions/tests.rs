use std::path::PathBuf;

use firn_storage::sim::SimDisk;

use super::*;

struct Log {
    positions: SourcePositions,
    partitions: Arc<Partitions>,
}

fn open(disk: &SimDisk) -> Log {
    let partitions = Arc::new(Partitions::default());
    let syncer = Syncer::new(0);
    let (disk, path) = (Arc::new(disk.clone()), PathBuf::from("/data"));
    let positions = SourcePositions::open(disk, &path, "cluster", &syncer, Arc::clone(&partitions));
    Log { positions, partitions }
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn origin(partition: &str, first: u64, last: u64) -> Origin {
    Origin {
        source: "s".into(),
        partition: partition.into(),
        first_offset: first,
        last_offset: last,
        offsets: Vec::new(),
        dead_letters: 0,
        filtered: 0,
        more_follows: false,
        note: None,
    }
}

fn intent(partition: &str, first: u64, last: u64, shard: u32) -> Intent {
    Intent {
        source: "s".to_owned(),
        partition: partition.to_owned(),
        epoch: 1,
        first_offset: first,
        last_offset: last,
        shards: vec![TargetShard {
            index_uuid: "uuid".to_owned(),
            index: "logs".to_owned(),
            shard,
        }],
        ranges: vec![(first, last, 0)],
        ..Intent::default()
    }
}

impl Log {
    fn turn(&self, partition: &str) -> Turn {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.positions.turn(&origin(partition, 0, 0))).unwrap()
    }

    fn record(&self, turn: &Turn, intent: Intent) {
        let recorded = self.positions.record(turn, intent).unwrap();
        self.positions
            .wait_durable(recorded, Box::new(|durable| durable.unwrap()));
    }

    fn needs(&self, partition: &str, shard: u32) -> bool {
        let key = mark_key(&origin(partition, 0, 0));
        self.partitions.needs_mark(&key, "uuid", shard)
    }
}

const TOTALS: SourceTotals = SourceTotals {
    indexed: 8,
    filtered: 1,
    dead_lettered: 1,
};

#[test]
fn a_log_that_is_written_anew_knows_what_is_complete() {
    let disk = disk();
    let log = open(&disk);
    let turn = log.turn("a");
    log.record(&turn, intent("a", 0, 9, 0));
    turn.recorded();
    turn.complete(Some(9), TOTALS);
    let open_turn = log.turn("b");
    log.record(&open_turn, intent("b", 5, 7, 1));
    open_turn.recorded();
    // Complete only in memory: after a restart the bulk comes again, so its marks are needed.
    assert!(log.needs("a", 0) && !log.needs("a", 1) && log.needs("b", 1));
    log.positions.rewrite(log.positions.log().unwrap()).unwrap();
    assert!(!log.needs("a", 0) && log.needs("b", 1));
    drop((turn, open_turn));
    let after = disk.crash(3);
    drop(log);
    let log = open(&after);
    assert!(!log.needs("a", 0) && log.needs("b", 1), "marks after a power loss");
    let found = log.positions.of_source("s").unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|at| (&*at.partition, at.resume_offset, at.complete_offset))
        .collect();
    assert_eq!(found, [("a", 10, Some(9)), ("b", 5, None)]);
    assert_eq!(log.positions.of_source("s").unwrap()[0].totals, TOTALS);
    assert!(log.positions.of_source("other").unwrap().is_empty());
}

#[test]
fn marks_of_the_bulk_before_are_needed_until_the_next_intent_is_durable() {
    let disk = disk();
    let log = open(&disk);
    let turn = log.turn("a");
    log.record(&turn, intent("a", 0, 9, 0));
    turn.recorded();
    turn.complete(Some(9), TOTALS);
    log.positions.record(&turn, intent("a", 10, 19, 1)).unwrap();
    assert!(log.needs("a", 0) && log.needs("a", 1));
    turn.recorded();
    assert!(!log.needs("a", 0) && log.needs("a", 1));
}

#[test]
fn a_forgotten_partition_is_gone_with_its_letters_and_stays_away() {
    let disk = disk();
    let log = open(&disk);
    for partition in ["a", "a#rejected-0", "a#alerts", "ab", "b"] {
        let turn = log.turn(partition);
        let noted = Intent {
            note: Some("read to 10".into()),
            ..intent(partition, 0, 9, 0)
        };
        log.record(&turn, noted);
        turn.recorded();
        turn.complete(Some(9), TOTALS);
    }
    let names = |log: &Log| -> Vec<String> {
        let positions = log.positions.of_source("s").unwrap();
        assert!(positions.iter().all(|at| at.note.as_deref() == Some("read to 10")));
        positions.into_iter().map(|at| at.partition).collect()
    };
    let busy = log.turn("b");
    let forget = |log: &Log, source: &str| {
        let wanted = ["a", "b", "unknown"].map(str::to_owned);
        log.positions.forget(source, &wanted).unwrap()
    };
    assert_eq!(forget(&log, "other"), 0);
    assert_eq!(forget(&log, "s"), 1, "a partition that is being written stays");
    drop(busy);
    assert_eq!(names(&log), ["ab", "b"]);
    assert!(!log.needs("a", 0) && log.needs("b", 0));
    log.positions.close(Error::internal("closed"));
    let after = disk.crash(3);
    drop(log);
    let log = open(&after);
    assert_eq!(names(&log), ["ab", "b"]);
    // What is read again after all starts anew.
    log.record(
        &log.turn("a"),
        Intent {
            note: Some("read to 10".into()),
            ..intent("a", 3, 4, 0)
        },
    );
    log.positions.rewrite(log.positions.log().unwrap()).unwrap();
    log.positions.close(Error::internal("closed"));
    let log = open(&after);
    assert_eq!(names(&log), ["a", "ab", "b"]);
    assert_eq!(forget(&log, "s"), 2);
    log.positions.rewrite(log.positions.log().unwrap()).unwrap();
    log.positions.close(Error::internal("closed"));
    assert_eq!(names(&open(&after)), ["ab"]);
}

#[test]
fn a_damaged_log_refuses_bulks_and_needs_every_mark() {
    let disk = disk();
    let log = open(&disk);
    for last in 0..3 {
        log.record(&log.turn("a"), intent("a", 0, last, 0));
    }
    log.positions.close(Error::internal("closed"));
    drop(log);
    let folder = PathBuf::from("/data").join(FOLDER);
    let files = disk.list(&folder).unwrap();
    let (file, mut bytes, first) = files
        .iter()
        .find_map(|file| {
            let file = folder.join(&file.name);
            let bytes = disk.read(&file).unwrap().to_vec();
            let first = bytes.windows(4).position(|bytes| bytes == b"{\"s\"")?;
            Some((file, bytes, first))
        })
        .unwrap();
    bytes[first] ^= 1;
    disk.write_atomic(&file, &bytes).unwrap();
    let log = open(&disk);
    let error = log.positions.of_source("s").unwrap_err();
    assert!(error.reason().contains("is damaged"), "{}", error.reason());
    assert!(log.needs("a", 7));
}

/// Each event of a bulk goes to a random shard, each attempt comes to a random event on each shard, and sends another number of
/// events: what an intent says is settled is what was applied or rejected.
#[test]
fn intents_know_what_all_attempts_applied() {
    let seed = firn_testkit::seed("intents_know_what_all_attempts_applied");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let mut settled: BTreeMap<u64, Settled> = BTreeMap::new();
        let mut intent = intent("a", 0, 59, 0);
        (intent.ranges, intent.shards) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let reach: Vec<Option<u64>> = (0..3).map(|_| random.bool().then(|| random.u64(0..60))).collect();
            let mut marks: Vec<Option<ShardOutcome>> = vec![None; 3];
            for offset in 0..random.u64(1..60) {
                assert_eq!(
                    intent.settled(offset),
                    settled.get(&offset).cloned(),
                    "{offset} of {intent:?}"
                );
                if settled.contains_key(&offset) {
                    continue;
                }
                let shard = random.usize(0..3);
                intent.add(offset, shard as u32);
                if reach[shard].is_none_or(|reach| reach < offset) {
                    continue;
                }
                let mark = marks[shard].get_or_insert(ShardOutcome {
                    last_offset: 0,
                    rejected: Vec::new(),
                });
                mark.last_offset = offset;
                let is_rejected = random.u8(0..8) == 0;
                if is_rejected {
                    mark.rejected.push(offset);
                }
                let outcome = if is_rejected {
                    Settled::Rejected
                } else {
                    Settled::Applied
                };
                settled.insert(offset, outcome);
            }
            intent = intent.next_attempt(&marks);
        }
    }
}
