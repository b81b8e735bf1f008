//! Tests of a shard that is turned into splits and restored.

use firn_segment::frozen_segment::FrozenSegment;
use firn_segment::splits::{WholeSplit, write_split};
use firn_storage::split::SplitRef;

use super::*;
use crate::RestoredSegment;

fn event(number: u64) -> String {
    json!({
        "@timestamp": 1_700_000_000_000u64 + number * 1000,
        "n": number,
        "tenant": format!("t{}", number % 2),
        "message": format!("event {number}"),
    })
    .to_string()
}

/// Returns a disk, and the folder of the restored shard on it.
fn other() -> (Arc<dyn Disk>, PathBuf) {
    let (disk, _) = sim();
    (Arc::new(disk), PathBuf::from("/data/indices/copy/0"))
}

fn filled(disk: Arc<dyn Disk>) -> Harness {
    let shard = Harness::create(disk, Path::new("/data/indices/uuid/0"));
    for number in 0..150 {
        let id = (number % 3 == 0).then(|| format!("id-{number}"));
        shard.index(id.as_deref(), &event(number));
    }
    shard.delete("id-30").unwrap();
    shard.index(Some("id-60"), &event(1000));
    shard
}

fn to_restore(segment: &FrozenSegment) -> (SplitRef, RestoredSegment) {
    let mut object = Vec::new();
    let split = write_split(segment, &mut object, &|| Ok(())).unwrap();
    let restored = RestoredSegment {
        split: split.clone(),
        bytes: Arc::new(WholeSplit::new(object.into(), split.salt)),
        deletes: segment.deletes(),
    };
    (split, restored)
}

#[test]
fn a_restored_shard_holds_the_same_and_goes_on() {
    let (disk, dir) = other();
    let shard = filled(Arc::clone(&disk));
    let frozen = shard.shard.freeze().unwrap();
    shard.shard.refresh().unwrap();
    let expect = shard.documents();
    let segments: Vec<RestoredSegment> = frozen.iter().map(|segment| to_restore(segment).1).collect();
    assert!(segments.iter().any(|segment| segment.deletes.is_some()));
    let copy = config(Arc::clone(&disk), &dir);
    Shard::restore(&copy, &segments, 0, &|| Ok(())).unwrap();
    let error = Shard::restore(&copy, &segments, 0, &|| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceAlreadyExists);
    let copy = Harness::open(disk, &dir).unwrap();
    assert_eq!(copy.documents(), expect);
    assert_eq!(copy.index(Some("id-0"), &event(7)).effect, Effect::Updated);
    copy.shard.force_merge(1, false).unwrap();
    copy.shard.refresh().unwrap();
    assert_eq!(copy.documents().len(), expect.len());
    let copy = copy.reopen();
    assert_eq!(copy.documents()["id-0"], event(7));
}

#[test]
fn a_restore_that_is_cut_short_leaves_no_shard() {
    let (disk, dir) = other();
    let shard = filled(Arc::clone(&disk));
    let segments: Vec<RestoredSegment> = shard
        .shard
        .freeze()
        .unwrap()
        .iter()
        .map(|one| to_restore(one).1)
        .collect();
    let copy = config(Arc::clone(&disk), &dir);
    for steps in [0u32, 1, 3, 6] {
        let left = std::cell::Cell::new(steps);
        let stop = || match left.replace(left.get().saturating_sub(1)) {
            0 => Err(firn_model::Error::new(ErrorKind::Cancelled, "stopped")),
            _ => Ok(()),
        };
        assert_eq!(
            Shard::restore(&copy, &segments, 0, &stop).unwrap_err().kind(),
            ErrorKind::Cancelled
        );
        assert!(!Shard::exists(&*disk, &copy.dir).unwrap());
    }
    Shard::restore(&copy, &segments, 500, &|| Ok(())).unwrap();
    let copy = Harness::open(disk, &dir).unwrap();
    assert_eq!(copy.index(None, &event(1)).seq_no, 500);
}

#[test]
fn a_segment_taken_by_a_merge_can_still_be_written() {
    let (disk, _) = other();
    let shard = filled(disk);
    let frozen = shard.shard.freeze().unwrap();
    let before: Vec<SplitRef> = frozen.iter().map(|segment| to_restore(segment).0).collect();
    shard.shard.force_merge(1, false).unwrap();
    shard.shard.flush().unwrap();
    let after: Vec<SplitRef> = frozen.iter().map(|segment| to_restore(segment).0).collect();
    assert_eq!(before, after);
    let merged = shard.shard.freeze().unwrap();
    assert!(merged.len() < frozen.len());
    assert!(
        merged
            .iter()
            .all(|segment| before.iter().all(|split| split.segment != segment.id()))
    );
}

/// Prepared hashes are derived from columns: a split leaves them out, and a restore writes the same again.
#[test]
fn a_restore_prepares_the_hashes_of_a_merge_again() {
    let (disk, dir) = other();
    let source = Path::new("/data/indices/uuid/0");
    let shard = Harness::create(Arc::clone(&disk), source);
    for number in 0..4200 {
        shard.index(None, &json!({"n": number, "tag": format!("tag-{number}")}).to_string());
    }
    shard.shard.force_merge(1, false).unwrap();
    let frozen = shard.shard.freeze().unwrap();
    let segments: Vec<RestoredSegment> = frozen.iter().map(|segment| to_restore(segment).1).collect();
    let copy = config(Arc::clone(&disk), &dir);
    Shard::restore(&copy, &segments, 0, &|| Ok(())).unwrap();
    let file_in = |dir: &Path| {
        let folder = disk.list(&dir.join("segments")).unwrap().remove(0).name;
        disk.read(&dir.join("segments").join(folder).join("distinct.bin"))
            .unwrap()
    };
    let (made, restored) = (file_in(source), file_in(&dir));
    assert!(made.len() > 4200 * 5 / 2);
    assert!(made == restored);
    let copy = Harness::open(disk, &dir).unwrap();
    copy.shard.verify().unwrap();
}
