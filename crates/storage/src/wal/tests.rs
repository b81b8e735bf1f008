//! Tests of the WAL: every acknowledged record survives every cut, once and in order; errors name damage.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use firn_model::ErrorKind;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::disk::RealDisk;
use crate::sim::{Failure, Operation, SimDisk};

const IDENTITY: u64 = 0x5eed;

fn dir() -> &'static Path {
    Path::new("shard/wal")
}

/// Creates a disk on which the log's parent directory is durable, as the log requires.
fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("shard")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    disk
}

/// Returns a record with its number, filled up to a length.
fn payload(number: u64, filler_bytes: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..filler_bytes).map(|position| (number as usize).wrapping_mul(31).wrapping_add(position) as u8));
    bytes
}

fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, payload(number, bytes.len() - 8), "the payload came back changed");
    number
}

/// Opens the log and returns it with the replayed numbers and their generations.
fn reopen(disk: &SimDisk, keep_from: u64) -> Result<(Wal, Vec<(u64, u64)>)> {
    let mut seen = Vec::new();
    let options = WalOptions {
        buffer_bytes: 2048,
        keep_from_generation: keep_from,
        ..WalOptions::default()
    };
    let wal = Wal::open(
        Arc::new(disk.clone()),
        dir(),
        IDENTITY,
        options,
        &Syncer::new(0),
        &mut |record| {
            seen.push((record.generation, number_of(record.payload)));
            Ok(())
        },
    )?;
    Ok((wal, seen))
}

#[test]
fn records_come_back_after_rotation_and_trimming() {
    let disk = new_disk();
    let (wal, seen) = reopen(&disk, 0).unwrap();
    assert_eq!((seen.len(), wal.generation(), wal.operations()), (0, 1, 0));
    wal.append(&[&payload(1, 0)]).unwrap();
    let second = payload(2, 3000);
    let position = wal.append(&[&second[..100], &second[100..]]).unwrap();
    wal.sync_blocking(position).unwrap();
    assert_eq!(wal.rotate().unwrap(), 2);
    wal.append(&[&payload(3, 10)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    assert_eq!(wal.operations(), 3);
    let (_, seen) = reopen(&disk.crash(1), 0).unwrap();
    assert_eq!(seen, [(1, 1), (1, 2), (2, 3)]);
    let size_before = wal.size_bytes();
    wal.trim(2).unwrap();
    wal.trim(9).unwrap();
    assert!(wal.size_bytes() + 3000 < size_before);
    let (wal, seen) = reopen(&disk.crash(1), 2).unwrap();
    assert_eq!((seen, wal.operations()), (vec![(2, 3)], 1));
    let missing = reopen(&disk, 7).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::ShardDamaged);
    assert!(missing.reason().contains("wal-0000000000000007.log"), "{missing}");
}

#[test]
fn empty_records_and_foreign_positions_are_refused() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    assert_eq!(wal.append(&[]).unwrap_err().kind(), ErrorKind::IllegalArgument);
    let beyond = Position {
        generation: 1,
        offset: 1 << 40,
        epoch: 0,
    };
    assert_eq!(wal.sync_blocking(beyond).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_log_of_another_shard_is_refused() {
    let disk = new_disk();
    reopen(&disk, 0).unwrap();
    let opened = Wal::open(
        Arc::new(disk),
        dir(),
        1,
        WalOptions::default(),
        &Syncer::new(0),
        &mut |_| Ok(()),
    );
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
    assert!(error.reason().contains("belongs to shard"), "{error}");
}

#[test]
fn one_sync_serves_all_who_wait() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    let positions: Vec<Position> = (0..50)
        .map(|number| wal.append(&[&payload(number, 9)]).unwrap())
        .collect();
    let before = disk.sync_count();
    let called = Arc::new(AtomicU64::new(0));
    for position in positions {
        let called = called.clone();
        wal.wait_durable(
            position,
            Box::new(move |outcome| {
                outcome.unwrap();
                called.fetch_add(1, Ordering::Relaxed);
            }),
        );
    }
    assert_eq!((disk.sync_count() - before, called.load(Ordering::Relaxed)), (1, 50));
}

#[test]
fn threads_append_and_wait_on_a_real_disk() {
    let home = tempfile::tempdir().unwrap();
    let syncer = Syncer::new(2);
    let path = home.path().join("wal");
    let open = |seen: &mut Vec<u64>| {
        Wal::open(
            Arc::new(RealDisk),
            &path,
            IDENTITY,
            WalOptions::default(),
            &syncer,
            &mut |record| {
                seen.push(number_of(record.payload));
                Ok(())
            },
        )
    };
    let wal = open(&mut Vec::new()).unwrap();
    let order = Mutex::new((0_u64, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (sender, receiver) = mpsc::channel();
                for step in 0..50 {
                    let position = {
                        let mut order = order.lock();
                        order.0 += 1;
                        let number = order.0;
                        order.1.push(number);
                        wal.append(&[&payload(number, step * 200)]).unwrap()
                    };
                    let sender = sender.clone();
                    wal.wait_durable(position, Box::new(move |outcome| sender.send(outcome).unwrap()));
                    if step % 10 == 9 {
                        wal.rotate().unwrap();
                    }
                }
                drop(sender);
                assert_eq!(receiver.iter().map(|outcome| outcome.unwrap()).count(), 50);
            });
        }
    });
    let mut seen = Vec::new();
    let again = open(&mut seen).unwrap();
    assert_eq!(seen, order.lock().1);
    assert_eq!(again.operations(), 200);
}

#[test]
fn asynchronous_durability_syncs_after_its_interval() {
    let disk = new_disk();
    let syncer = Syncer::new(1);
    let options = WalOptions {
        sync_interval: Some(Duration::from_millis(5)),
        ..WalOptions::default()
    };
    let wal = Wal::open(Arc::new(disk.clone()), dir(), IDENTITY, options, &syncer, &mut |_| {
        Ok(())
    })
    .unwrap();
    for number in 0..3 {
        wal.append(&[&payload(number, 10)]).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while reopen(&disk.crash(0), 0).unwrap().1.len() <= number as usize {
            assert!(std::time::Instant::now() < deadline, "record {number} was not synced");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_full_disk_is_survived() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    wal.append(&[&payload(1, 100)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    disk.set_capacity(disk.used_bytes() + 500);
    let lost = wal.append(&[&payload(2, 1000)]).unwrap();
    let (sender, outcomes) = mpsc::channel();
    wal.wait_durable(lost, Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(outcomes.recv().unwrap().unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(wal.append(&[&payload(3, 0)]).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(wal.failure().unwrap().kind(), ErrorKind::DiskFull);
    disk.set_capacity(disk.used_bytes());
    // Truncating the tail freed space for the next file's header.
    assert_eq!(wal.try_heal().unwrap(), 2);
    disk.set_capacity(u64::MAX);
    assert!(wal.failure().is_none());
    assert_eq!(wal.sync_blocking(lost).unwrap_err().kind(), ErrorKind::Internal);
    let appended = wal.append(&[&payload(4, 0)]).unwrap();
    wal.sync_blocking(appended).unwrap();
    assert_eq!(reopen(&disk.crash(5), 0).unwrap().1, [(1, 1), (2, 4)]);
    assert_eq!(wal.operations(), 2);
}

#[test]
fn a_failed_sync_is_never_trusted_again() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    wal.append(&[&payload(1, 100)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    let lost = wal.append(&[&payload(2, 100)]).unwrap();
    let kind = IoErrorKind::Other;
    disk.fail(Failure {
        after: 0,
        only: Some(Operation::SyncFile),
        kind,
        lasting: false,
    });
    assert_eq!(wal.sync_blocking(lost).unwrap_err().kind(), ErrorKind::Internal);
    assert!(wal.sync_blocking(lost).is_err(), "a second sync must not save it");
    wal.try_heal().unwrap();
    assert!(wal.sync_blocking(lost).is_err());
    wal.append(&[&payload(3, 100)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    for seed in 0..20 {
        assert_eq!(reopen(&disk.crash(seed), 0).unwrap().1, [(1, 1), (2, 3)]);
    }
}

/// Creates a log of two files with synced records; the last file ends in a sync mark.
fn small_log() -> (SimDisk, Vec<(u64, u64)>) {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    let mut numbers = Vec::new();
    for number in 0..6 {
        wal.append(&[&payload(number, 20)]).unwrap();
        wal.sync_blocking(wal.end()).unwrap();
        numbers.push((wal.generation(), number));
        if number == 2 {
            wal.rotate().unwrap();
        }
    }
    (disk, numbers)
}

fn files(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = disk.list(dir()).unwrap();
    let paths = entries.into_iter().map(|entry| dir().join(entry.name));
    paths
        .map(|path| (path.clone(), disk.read(&path).unwrap().to_vec()))
        .collect()
}

/// Returns the files with records, without their notes.
fn logs(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files(disk);
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "log"));
    files
}

/// Removes the notes, as a power loss may do, because they are never synced.
fn remove_notes(disk: &SimDisk) {
    for (path, _) in files(disk) {
        if path.extension().is_some_and(|extension| extension == "durable") {
            disk.remove_file(&path).unwrap();
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_or_harmless() {
    let (disk, numbers) = small_log();
    let mut refused = 0;
    for (path, bytes) in files(&disk) {
        for position in 0..bytes.len() {
            for bit in 0..8 {
                let copy = disk.kill();
                copy.damage(&path, |bytes| bytes[position] ^= 1 << bit).unwrap();
                let before = files(&copy);
                match reopen(&copy, 0) {
                    // These bytes hold no record: marks behind the last record.
                    Ok((_, seen)) => assert_eq!(seen, numbers, "byte {position} of {}", path.display()),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ShardDamaged);
                        assert!(error.reason().contains(&path.display().to_string()), "{error}");
                        assert!(error.reason().contains("at byte"), "{error}");
                        assert_eq!(files(&copy), before, "a refused log must not be changed");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 2000, "only {refused} flips were noticed");
}

#[test]
fn damage_names_the_byte() {
    let (disk, _) = small_log();
    let first = &logs(&disk)[0].0;
    // Offset of the second record's frame: after the header, the first mark, a record of 28 bytes, a mark.
    let offset = 44 + 32 + 36 + 32;
    disk.damage(first, |bytes| bytes[offset + 12] ^= 1).unwrap();
    let error = reopen(&disk, 0).unwrap_err();
    assert_eq!(
        error.reason(),
        format!(
            "write-ahead log [shard/wal/wal-0000000000000001.log] is damaged at byte {offset}: \
             a record's checksum differs"
        )
    );
}

#[test]
fn a_file_that_is_cut_short_is_noticed() {
    let (disk, numbers) = small_log();
    let files = logs(&disk);
    for len in 0..files[0].1.len() {
        let copy = disk.kill();
        copy.damage(&files[0].0, |bytes| bytes.truncate(len)).unwrap();
        match reopen(&copy, 0) {
            Ok((_, seen)) => assert_eq!(seen, numbers, "cut to {len}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ShardDamaged),
        }
    }
    // The last file ends in a mark, which holds no record.
    let records_end = files[1].1.len() - format::MARK_FRAME_BYTES as usize;
    for len in 44..files[1].1.len() {
        let copy = disk.kill();
        copy.damage(&files[1].0, |bytes| bytes.truncate(len)).unwrap();
        match reopen(&copy, 0) {
            Ok((_, seen)) => assert!(len >= records_end && seen == numbers, "cut to {len}"),
            Err(error) => {
                assert!(len < records_end, "cut to {len}: {error}");
                assert!(error.reason().contains(&files[1].0.display().to_string()), "{error}");
            }
        }
        // Without a note it looks like a torn tail.
        remove_notes(&copy);
        let (_, seen) = reopen(&copy, 0).unwrap();
        assert!(numbers.starts_with(&seen) && seen.len() >= 3, "cut to {len}");
    }
    let copy = disk.kill();
    copy.remove_file(&files[1].0).unwrap();
    let error = reopen(&copy, 1).unwrap_err();
    assert!(error.reason().contains("the file is missing, and"), "{error}");
    let copy = disk.kill();
    copy.remove_file(&files[0].0).unwrap();
    assert_eq!(reopen(&copy, 1).unwrap_err().kind(), ErrorKind::ShardDamaged);
}

#[test]
fn zeros_over_the_last_records_and_their_marks_are_noticed() {
    let (disk, _) = small_log();
    let last = logs(&disk).pop().unwrap();
    for from in 44..last.1.len() - format::MARK_FRAME_BYTES as usize {
        let copy = disk.kill();
        copy.damage(&last.0, |bytes| bytes[from..].fill(0)).unwrap();
        let error = reopen(&copy, 0).unwrap_err();
        assert!(
            error.reason().contains("bytes of the file were durable"),
            "from {from}: {error}"
        );
    }
}

#[test]
fn notes_go_with_their_file_and_do_not_grow_without_end() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    for number in 0..6000 {
        wal.append(&[&payload(number, 0)]).unwrap();
        wal.sync_blocking(wal.end()).unwrap();
    }
    let notes = durable_notes::path(dir(), 1);
    assert!(disk.read(&notes).unwrap().len() <= 64 << 10);
    assert!(durable_notes::read(&disk, dir(), IDENTITY, 1) > Some(6000 * 8));
    assert_eq!(
        durable_notes::read(&disk, dir(), IDENTITY + 1, 1),
        None,
        "another shard's"
    );
    wal.rotate().unwrap();
    wal.trim(2).unwrap();
    assert!(!disk.exists(&notes).unwrap());
    // A new file follows a torn note.
    wal.append(&[&payload(1, 0)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    let notes = durable_notes::path(dir(), 2);
    disk.damage(&notes, |bytes| bytes.truncate(bytes.len() - 1)).unwrap();
    wal.append(&[&payload(2, 0)]).unwrap();
    wal.sync_blocking(wal.end()).unwrap();
    assert_eq!(disk.read(&notes).unwrap().len(), 12);
}

#[test]
fn zeros_and_garbage_behind_the_end_are_cut() {
    let (disk, numbers) = small_log();
    let last = logs(&disk)[1].0.clone();
    let mut random = fastrand::Rng::with_seed(3);
    for tail_bytes in [1, 7, 8, 100, 5000] {
        for is_zero in [true, false] {
            let copy = disk.kill();
            let tail: Vec<u8> = (0..tail_bytes)
                .map(|_| if is_zero { 0 } else { random.u8(..) })
                .collect();
            copy.damage(&last, |bytes| bytes.extend_from_slice(&tail)).unwrap();
            let (wal, seen) = reopen(&copy, 0).unwrap();
            assert_eq!(seen, numbers);
            wal.append(&[&payload(77, 5)]).unwrap();
            wal.sync_blocking(wal.end()).unwrap();
            assert_eq!(reopen(&copy.crash(1), 0).unwrap().1.last(), Some(&(2, 77)));
        }
    }
}

#[test]
fn an_event_that_quotes_a_sync_mark_proves_nothing() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    // Everything that an attacker can know is correct; only the salt is wrong.
    let position = wal.append(&[&payload(1, 0)]).unwrap();
    wal.append(&[&format::mark_frame(0, position.offset + 8, position.offset + 8)])
        .unwrap();
    let path = dir().join("wal-0000000000000001.log");
    wal.sync_blocking(wal.end()).unwrap();
    let sound_bytes = disk.read(&path).unwrap().len() as u64;
    // Truncates the real mark and damages the first record: this looks like a torn tail.
    disk.set_len(&path, sound_bytes - 32).unwrap();
    remove_notes(&disk);
    disk.damage(&path, |bytes| bytes[position.offset as usize - 1] ^= 1)
        .unwrap();
    assert!(reopen(&disk, 0).unwrap().1.is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Sync,
    Rotate,
    Trim,
    Crash(u64),
    Kill,
    Fail {
        after: u64,
        kind: IoErrorKind,
        lasting: bool,
    },
    Heal,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..1500_usize).prop_map(Step::Append),
        4 => Just(Step::Sync),
        1 => Just(Step::Rotate),
        1 => Just(Step::Trim),
        1 => any::<u64>().prop_map(Step::Crash),
        1 => Just(Step::Kill),
        1 => (0..6_u64, prop_oneof![Just(IoErrorKind::Other), Just(IoErrorKind::StorageFull)], any::<bool>())
            .prop_map(|(after, kind, lasting)| Step::Fail { after, kind, lasting }),
        2 => Just(Step::Heal),
    ]
}

/// Expected content of the log, after any failure.
#[derive(Debug, Default)]
struct Expected {
    /// Acknowledged records with their generation, in order.
    acknowledged: Vec<(u64, u64)>,
    /// Appended later, neither acknowledged nor lost.
    open: Vec<(u64, u64)>,
    /// Generations below may be missing.
    keep_from: u64,
}

impl Expected {
    /// Checks that `seen` is every acknowledged record once and in order, then a part of the open ones.
    fn check(&self, seen: &[(u64, u64)]) {
        let is_retained = |entry: &&(u64, u64)| entry.0 >= self.keep_from;
        let seen: Vec<_> = seen.iter().filter(is_retained).copied().collect();
        let must: Vec<_> = self.acknowledged.iter().filter(is_retained).copied().collect();
        assert!(seen.starts_with(&must), "acknowledged {must:?}, found {seen:?}");
        let rest = &seen[must.len()..];
        assert!(
            self.open.starts_with(rest),
            "open {:?}, found {rest:?} behind the acknowledged",
            self.open
        );
    }

    fn acknowledge(&mut self) {
        self.acknowledged.append(&mut self.open);
    }
}

fn run(steps: &[Step]) {
    let expected = Arc::new(Mutex::new(Expected::default()));
    let cuts = Arc::new(AtomicU64::new(0));
    let hook: crate::sim::Hook = {
        let (expected, cuts) = (expected.clone(), cuts.clone());
        Arc::new(move |disk, _| {
            let cut = cuts.fetch_add(1, Ordering::Relaxed);
            let (_, seen) = reopen(&disk.crash(cut), 0).expect("every open after a power loss must succeed");
            expected.lock().check(&seen);
        })
    };
    let mut disk = new_disk();
    disk.set_hook(Some(hook.clone()));
    let (mut wal, _) = reopen(&disk, 0).unwrap();
    let mut next_number = 0;
    for step in steps {
        match step {
            Step::Append(filler_bytes) => {
                // The hook runs before the record is written, and the append may write.
                expected.lock().open.push((wal.generation(), next_number));
                let was_well = wal.failure().is_none();
                if wal.append(&[&payload(next_number, *filler_bytes)]).is_err() && !was_well {
                    // Refused before the file was touched.
                    expected.lock().open.pop();
                }
                next_number += 1;
            }
            Step::Sync => {
                if wal.failure().is_none() && wal.sync_blocking(wal.end()).is_ok() {
                    expected.lock().acknowledge();
                }
            }
            Step::Rotate => {
                // The rotation may have made everything durable before it failed.
                if wal.rotate().is_ok() || wal.sync_blocking(wal.end()).is_ok() {
                    expected.lock().acknowledge();
                }
            }
            Step::Trim => {
                expected.lock().keep_from = wal.generation();
                let _ = wal.trim(wal.generation());
            }
            Step::Crash(seed) => {
                disk = disk.crash(*seed);
                wal = go_on(&disk, &expected, &hook);
            }
            Step::Kill => {
                disk = disk.kill();
                wal = go_on(&disk, &expected, &hook);
            }
            Step::Fail { after, kind, lasting } => {
                disk.fail(Failure {
                    after: *after,
                    only: None,
                    kind: *kind,
                    lasting: *lasting,
                });
            }
            Step::Heal => {
                disk.heal();
                if wal.failure().is_some() && wal.try_heal().is_ok() {
                    expected.lock().open.clear();
                }
            }
        }
    }
    disk.heal();
    disk.set_hook(None);
    let (_, seen) = reopen(&disk.crash(99), 0).unwrap();
    expected.lock().check(&seen);
}

/// Opens the log after a crash; replayed records count as acknowledged from now on.
fn go_on(disk: &SimDisk, expected: &Mutex<Expected>, hook: &crate::sim::Hook) -> Wal {
    let keep_from = expected.lock().keep_from;
    let (_, seen) = reopen(&disk.kill(), 0).unwrap();
    {
        let mut expected = expected.lock();
        expected.check(&seen);
        let found = seen.iter().filter(|entry| entry.0 >= keep_from).count();
        let known = expected
            .acknowledged
            .iter()
            .filter(|entry| entry.0 >= keep_from)
            .count();
        expected.open.truncate(found - known);
    }
    disk.set_hook(Some(hook.clone()));
    let (wal, again) = reopen(disk, keep_from).unwrap();
    assert_eq!(again.len(), seen.iter().filter(|entry| entry.0 >= keep_from).count());
    expected.lock().acknowledge();
    wal
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_records_survive_every_cut(steps in proptest::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}

#[test]
fn a_trim_whose_sync_failed_leaves_no_gap() {
    let disk = new_disk();
    let (wal, _) = reopen(&disk, 0).unwrap();
    for number in 0..4 {
        wal.append(&[&payload(number, 9)]).unwrap();
        wal.rotate().unwrap();
    }
    let kind = IoErrorKind::Other;
    disk.fail(Failure {
        after: 0,
        only: Some(Operation::SyncDir),
        kind,
        lasting: false,
    });
    // The first removal waits for the sync of earlier processes' removals, the second for its own sync.
    wal.trim(5).unwrap_err();
    disk.fail(Failure {
        after: 1,
        only: Some(Operation::SyncDir),
        kind,
        lasting: false,
    });
    wal.trim(5).unwrap_err();
    for keep_from in [0, 5] {
        let killed = disk.kill();
        killed.set_hook(Some(Arc::new(|disk: &SimDisk, _| {
            for seed in 0..20 {
                reopen(&disk.crash(seed), 0).unwrap();
            }
        })));
        let (wal, _) = reopen(&killed, keep_from).unwrap();
        wal.trim(5).unwrap();
        assert_eq!(reopen(&killed, 5).unwrap().1, []);
    }
}

fn open_with(disk: &SimDisk, syncer: &Syncer, sync_interval: Option<Duration>) -> (Wal, usize) {
    let mut seen = 0;
    let options = WalOptions {
        sync_interval,
        ..WalOptions::default()
    };
    let wal = Wal::open(Arc::new(disk.clone()), dir(), IDENTITY, options, syncer, &mut |_| {
        seen += 1;
        Ok(())
    });
    (wal.unwrap(), seen)
}

#[test]
fn who_rotates_calls_no_callback() {
    let disk = new_disk();
    let syncer = Syncer::new(1);
    let wal = Arc::new(open_with(&disk, &syncer, None).0);
    let position = wal.append(&[&payload(1, 10)]).unwrap();
    let (sender, callers) = mpsc::channel();
    let in_sync = {
        let wal = wal.clone();
        move |disk: &SimDisk, operation| {
            if operation == Operation::SyncFile {
                disk.set_hook(None);
                let sender = sender.clone();
                wal.wait_durable(
                    position,
                    Box::new(move |outcome| {
                        sender.send((outcome, std::thread::current().id())).unwrap();
                    }),
                );
            }
        }
    };
    disk.set_hook(Some(Arc::new(in_sync)));
    wal.rotate().unwrap();
    let (outcome, caller) = callers.recv_timeout(Duration::from_secs(10)).unwrap();
    outcome.unwrap();
    assert_ne!(caller, std::thread::current().id());
    // An empty current file is not rotated.
    assert_eq!((wal.rotate().unwrap(), wal.rotate().unwrap()), (2, 2));
}

#[test]
fn a_callback_that_panics_ends_no_thread() {
    let disk = new_disk();
    let syncer = Syncer::new(1);
    let (wal, _) = open_with(&disk, &syncer, None);
    let (sender, outcomes) = mpsc::channel();
    for number in 0..3 {
        let position = wal.append(&[&payload(number, 10)]).unwrap();
        wal.wait_durable(position, Box::new(|_| panic!("for the test")));
        let sender = sender.clone();
        wal.wait_durable(position, Box::new(move |outcome| sender.send(outcome).unwrap()));
        outcomes.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    }
}

#[test]
fn an_abandoned_log_writes_no_byte() {
    let disk = new_disk();
    let syncer = Syncer::new(1);
    // The record waits for a thread of the syncer.
    let (old, _) = open_with(&disk, &syncer, Some(Duration::from_millis(50)));
    let position = old.append(&[&payload(1, 10)]).unwrap();
    old.abandon(firn_model::Error::new(ErrorKind::IndexClosed, "closed"));
    let before = files(&disk);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(files(&disk), before);
    for refused in [
        old.append(&[&payload(2, 10)]).map(|_| ()),
        old.sync_blocking(position),
        old.try_heal().map(|_| ()),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::IndexClosed);
    }
    assert_eq!(open_with(&disk, &syncer, None).1, 0, "nothing was durable");
}

#[test]
fn a_closed_log_writes_no_byte() {
    let disk = new_disk();
    let syncer = Syncer::new(1);
    let (old, _) = open_with(&disk, &syncer, Some(Duration::from_millis(50)));
    old.append(&[&payload(1, 10)]).unwrap();
    old.close(firn_model::Error::new(ErrorKind::IndexClosed, "closed"));
    // The appended record is durable, as asynchronous durability promised.
    let (new, seen) = open_with(&disk.crash(1), &syncer, None);
    assert_eq!(seen, 1);
    drop(new);
    let (new, _) = open_with(&disk, &syncer, None);
    new.append(&[&payload(2, 10)]).unwrap();
    new.sync_blocking(new.end()).unwrap();
    let before = files(&disk);
    std::thread::sleep(Duration::from_millis(100));
    for refused in [
        old.append(&[&payload(3, 10)]).map(|_| ()),
        old.rotate().map(|_| ()),
        old.try_heal().map(|_| ()),
        old.trim(9),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::IndexClosed);
    }
    old.close(firn_model::Error::internal("again"));
    assert_eq!(files(&disk), before);
    assert_eq!(open_with(&disk, &syncer, None).1, 2);
}
