//! Tests of the cache content after restarts and crashes.

use super::*;
use proptest::prelude::*;

#[test]
fn a_restart_forgets_nothing() {
    let bed = Bed::new(200);
    let splits = [object(1, 60), object(2, 60)];
    bed.read(&splits[0], Terms, 0..10);
    bed.read(&splits[1], Columns, 7..40);
    for _ in 0..3 {
        bed.read(&splits[0], Terms, 0..1);
    }
    let before = bed.cache.stats();
    let Bed { disk, file, cache } = bed;
    drop(cache);
    let bed = Bed::on(disk, file, 200);
    bed.check();
    let after = bed.cache.stats();
    assert_eq!((after.used_bytes, after.regions), (before.used_bytes, before.regions));
    for kind in PartKind::ALL {
        assert_eq!(after.kind(kind).cached_bytes, before.kind(kind).cached_bytes);
    }
    assert_eq!(after.total().requested_bytes, 0);
    bed.read(&splits[0], Terms, 0..10);
    bed.read(&splits[1], Columns, 7..40);
    assert_eq!(splits.iter().map(|split| split.1.count()).sum::<usize>(), 2);
}

#[test]
fn a_folder_has_one_cache_that_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let options = RegionCacheOptions {
        size_bytes: 100 * PAGE,
        ..RegionCacheOptions::default()
    };
    let open = || RegionCache::open(Arc::new(crate::disk::RealDisk), &folder.path().join("regions"), options);
    let (split, store) = object(1, 400);
    let cache = open().unwrap();
    for start in (0..400).step_by(25) {
        let range = start * PAGE..(start + 3) * PAGE;
        assert_eq!(
            block_on(cache.read(&split, Terms, range)).unwrap(),
            truth(&store, &(start..start + 3))
        );
    }
    assert_eq!(open().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    let used = cache.stats().used_bytes;
    drop(cache);
    let cache = open().unwrap();
    assert_eq!(cache.stats().used_bytes, used);
    let before = store.count();
    assert_eq!(
        block_on(cache.read(&split, Terms, 25 * PAGE..28 * PAGE)).unwrap(),
        truth(&store, &(25..28))
    );
    assert_eq!(store.count(), before);
    let data = folder.path().join("regions/regions.data");
    let taken = std::os::unix::fs::MetadataExt::blocks(&data.metadata().unwrap()) * 512;
    assert!(taken <= 100 * PAGE + REGION_BYTES, "{taken} bytes");
}

#[test]
fn a_smaller_cache_keeps_what_fits() {
    let bed = Bed::new(200);
    let split = object(1, 160);
    bed.read(&split, Terms, 0..160);
    let Bed { disk, file, cache } = bed;
    drop(cache);
    let bed = Bed::on(disk, file, 50);
    bed.check();
    assert_eq!(bed.cache.stats().used_bytes, 48 * PAGE);
    assert_eq!(bed.cache.stats().evictions, 0, "counters start with the process");
    bed.read(&split, Terms, 0..160);
    bed.check();
}

#[test]
fn without_its_journal_the_file_begins_anew() {
    let bed = Bed::new(200);
    let split = object(1, 60);
    bed.read(&split, Terms, 0..60);
    let bed = Bed::on(SimDisk::new(), bed.file.clone(), 200);
    assert_eq!(bed.file.taken(), 0);
    bed.read(&split, Terms, 0..60);
    assert_eq!(split.1.count(), 2);
    bed.check();
}

#[test]
fn without_its_file_the_journal_is_not_believed() {
    let bed = Bed::new(200);
    let split = object(1, 60);
    bed.read(&split, Terms, 0..60);
    bed.cache.flush();
    let bed = Bed::on(bed.disk.kill(), MemoryFile::new(), 200);
    bed.read(&split, Terms, 0..60);
    bed.check();
    assert_eq!(bed.cache.stats().damaged_pages, 60);
}

#[test]
fn the_journal_does_not_grow_without_end() {
    let bed = Bed::new(16);
    let split = object(1, 200 * REGION_PAGES);
    for round in 0..200 {
        for region in 0..200 {
            let page = region * REGION_PAGES + round % REGION_PAGES;
            bed.read(&split, Terms, page..page + 1);
        }
    }
    assert!(bed.cache.stats().evictions > 39_000);
    assert!(bed.disk.used_bytes() < 2 << 20, "{} bytes", bed.disk.used_bytes());
}

/// Step in the life of a cache.
#[derive(Debug, Clone)]
enum Step {
    Read {
        split: usize,
        start: u64,
        len: u64,
    },
    Ahead {
        split: usize,
        start: u64,
        len: u64,
    },
    Pin {
        split: usize,
        is_pinned: bool,
    },
    Clear {
        split: usize,
    },
    Quota {
        pages: Option<u64>,
    },
    Flush,
    /// Bytes of the file and of the journal are lost or torn, as after a power loss.
    Crash {
        seed: u64,
    },
    /// An old journal with a current file: the process was killed before it wrote the journal.
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0usize..3, 0u64..100, 1u64..40);
    let step = prop_oneof![
        8 => place().prop_map(|(split, start, len)| Step::Read { split, start, len }),
        4 => place().prop_map(|(split, start, len)| Step::Ahead { split, start, len }),
        1 => (0usize..3, any::<bool>()).prop_map(|(split, is_pinned)| Step::Pin { split, is_pinned }),
        1 => (0usize..3).prop_map(|split| Step::Clear { split }),
        1 => prop::option::of(0u64..40).prop_map(|pages| Step::Quota { pages }),
        2 => Just(Step::Flush),
        2 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
        2 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..60)
}

/// Returns the file after a power loss: each page is unchanged, zero, half written, or another page.
fn torn(memory: &mut Memory, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let pages: Vec<Vec<u8>> = memory.pages.values().cloned().collect();
    memory.pages.retain(|_, _| random.u8(..8) > 0);
    for page in memory.pages.values_mut() {
        match random.u8(..8) {
            0 => page.fill(0),
            1 => page[2048..].fill(0),
            2 => *page = pages[random.usize(..pages.len())].clone(),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In every case readers get correct bytes, and the file takes what the cache counts and at most its limit.
    #[test]
    fn readers_get_correct_bytes_in_every_case(steps in steps(), is_sparse: bool) {
        let tenant = firn_model::tenant::TenantId::parse("t").unwrap();
        let mut splits: Vec<_> = (1..4).map(|number| object(number, 100)).collect();
        let owned = CachedObject { owner: Some(tenant.clone()), ..splits[0].0.as_ref().clone() };
        splits[0].0 = Arc::new(owned);
        let pages = 60;
        let file = MemoryFile::new().copy(|memory| memory.is_sparse = is_sparse);
        let mut bed = Bed::on(SimDisk::new(), file, pages);
        for step in steps {
            match step {
                Step::Read { split, start, len } => bed.read(&splits[split], Columns, start..(start + len).min(100)),
                Step::Ahead { split, start, len } => bed.fetch(&splits[split], &[(Terms, start..start + len)]),
                Step::Pin { split, is_pinned: true } => bed.cache.pin(&[splits[split].0.id]),
                Step::Pin { split, .. } => bed.cache.unpin(&[splits[split].0.id]),
                Step::Clear { split } => bed.cache.clear(Some(&[splits[split].0.id].into())),
                Step::Quota { pages } => bed.cache.set_quota(&tenant, pages.map(|pages| pages * PAGE)),
                Step::Flush => bed.cache.flush(),
                Step::Crash { seed } => {
                    let file = bed.file.copy(|memory| torn(memory, seed));
                    bed = Bed::on(bed.disk.crash(seed), file, pages);
                    // Lost pages are counted until a read misses them.
                    bed.cache.check();
                    continue;
                }
                Step::Kill => bed = Bed::on(bed.disk.kill(), bed.file.copy(|_| ()), pages),
            }
            bed.cache.check();
        }
        let stats = bed.cache.stats();
        prop_assert!(stats.used_bytes <= stats.size_bytes);
        // A crash may leave this much space behind, until it is overwritten.
        let left_over = REGION_PAGES + 1;
        prop_assert!(bed.file.taken() <= pages.next_multiple_of(REGION_PAGES) + left_over);
    }
}
