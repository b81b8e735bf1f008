//! Tests of the simulated disk: what survives a power loss.

use std::path::Path;

use super::{Failure, Operation, SimDisk};
use crate::disk::Disk;

#[test]
fn synced_bytes_and_names_survive_and_nothing_else_must() {
    let mut unsynced_seen = [false; 2];
    for seed in 0..200 {
        let disk = SimDisk::new();
        let dir = Path::new("a");
        disk.create_dir_all(dir).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        let file = disk.create_append(&dir.join("synced")).unwrap();
        file.append(b"durable").unwrap();
        file.sync().unwrap();
        disk.sync_dir(dir).unwrap();
        file.append(b"perhaps").unwrap();
        let other = disk.create_append(&dir.join("unsynced")).unwrap();
        other.append(b"x").unwrap();
        other.sync().unwrap();

        let crashed = disk.crash(seed);
        let bytes = crashed.read(&dir.join("synced")).unwrap();
        assert!(bytes.starts_with(b"durable"), "seed {seed}: {bytes:?}");
        unsynced_seen[usize::from(crashed.exists(&dir.join("unsynced")).unwrap())] = true;
        assert_eq!(
            crashed.read(&dir.join("synced")).unwrap(),
            disk.crash(seed).read(&dir.join("synced")).unwrap()
        );
    }
    assert_eq!(unsynced_seen, [true, true]);
}

#[test]
fn a_replaced_file_is_old_or_new() {
    let path = Path::new("f");
    let disk = SimDisk::new();
    disk.write_atomic(path, b"old").unwrap();
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let into = seen.clone();
    disk.set_hook(Some(std::sync::Arc::new(move |disk: &SimDisk, _| {
        for seed in 0..20 {
            into.lock().push(disk.crash(seed).read(path).unwrap());
        }
    })));
    disk.write_atomic(path, b"new!").unwrap();
    for bytes in seen.lock().iter() {
        assert!(&bytes[..] == b"old" || &bytes[..] == b"new!", "{bytes:?}");
    }
    assert_eq!(&disk.crash(1).read(path).unwrap()[..], b"new!");
}

#[test]
fn a_failed_sync_loses_its_bytes_for_good() {
    let disk = SimDisk::new();
    let path = Path::new("f");
    let file = disk.create_append(path).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.append(b"one").unwrap();
    file.sync().unwrap();
    file.append(b"two").unwrap();
    let kind = std::io::ErrorKind::Other;
    disk.fail(Failure {
        after: 0,
        only: Some(Operation::SyncFile),
        kind,
        lasting: false,
    });
    file.sync().unwrap_err();
    file.sync().unwrap();
    assert_eq!(&disk.read(path).unwrap()[..], b"onetwo");
    assert_eq!(&disk.crash(3).read(path).unwrap()[..], b"one\0\0\0");
}

#[test]
fn a_full_disk_says_so() {
    let disk = SimDisk::new();
    disk.set_capacity(10);
    let file = disk.create_append(Path::new("f")).unwrap();
    file.append(b"12345678").unwrap();
    assert_eq!(
        file.append(b"12345678").unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    assert_eq!(file.len(), 10);
    assert_eq!(disk.available_bytes(Path::new("")).unwrap(), 0);
}

#[test]
fn a_file_written_in_place_keeps_what_was_synced_and_may_tear_the_rest() {
    let path = Path::new("f");
    let disk = SimDisk::new();
    let file = disk.open_random(path).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    file.write_at(&[2; 4096], 2048).unwrap();
    let mut torn = false;
    for seed in 0..200 {
        let bytes = disk.crash(seed).read(path).unwrap();
        assert_eq!(bytes.len(), 8192);
        assert!(bytes[..2048].iter().chain(&bytes[6144..]).all(|byte| *byte == 1));
        assert!(
            bytes[2048..6144]
                .chunks(512)
                .all(|sector| sector == [1; 512] || sector == [2; 512])
        );
        torn |= bytes[2048..6144].contains(&1) && bytes[2048..6144].contains(&2);
    }
    assert!(torn);
    file.sync().unwrap();
    assert_eq!(disk.crash(7).read(path).unwrap()[2048..6144], [2; 4096]);
}

#[test]
fn a_failed_sync_loses_pages_that_are_not_written_again() {
    let path = Path::new("f");
    let disk = SimDisk::new();
    let file = disk.open_random(path).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    file.write_at(&[2; 8192], 0).unwrap();
    disk.fail(Failure {
        after: 0,
        only: Some(Operation::SyncFile),
        kind: std::io::ErrorKind::Other,
        lasting: false,
    });
    file.sync().unwrap_err();
    file.write_at(&[3; 1], 4096).unwrap();
    file.sync().unwrap();
    let mut bytes = [0; 8192];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8192);
    assert_eq!((bytes[0], bytes[4096], bytes[4097]), (2, 3, 2));
    let crashed = disk.crash(3).read(path).unwrap();
    assert_eq!((crashed[0], crashed[4096], crashed[4097]), (1, 3, 2));
}

#[test]
fn a_file_written_in_place_is_open_once() {
    let disk = SimDisk::new();
    let file = disk.open_random(Path::new("f")).unwrap();
    let busy = disk.open_random(Path::new("f")).unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
    // The process is dead, and the operating system released its locks.
    disk.kill().open_random(Path::new("f")).unwrap();
    drop(file);
    disk.open_random(Path::new("f")).unwrap();
}

#[test]
fn no_write_in_place_takes_more_than_there_is() {
    let disk = SimDisk::new();
    disk.set_capacity(10);
    let file = disk.open_random(Path::new("f")).unwrap();
    file.write_at(&[1; 8], 0).unwrap();
    for outcome in [file.write_at(&[2; 8], 6), file.set_len(11)] {
        assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
    assert_eq!(&disk.read(Path::new("f")).unwrap()[..], [1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
}
