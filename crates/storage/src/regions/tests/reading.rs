//! Tests of reads: returned bytes, and requests to the store.

use super::*;

#[test]
fn what_was_fetched_is_not_fetched_again() {
    let bed = Bed::new(100);
    let split = object(1, 50);
    bed.read(&split, Terms, 3..5);
    bed.read(&split, Terms, 3..5);
    bed.read(&split, Terms, 4..5);
    assert_eq!(split.1.requests(), [3 * PAGE..5 * PAGE]);
    // A read across regions, of which one part is cached.
    bed.read(&split, Columns, 0..40);
    assert_eq!(
        split.1.count(),
        2,
        "the two pages that are cached are not worth two requests"
    );
    bed.read(&split, Columns, 0..40);
    assert_eq!(split.1.count(), 2);
    bed.check();
    assert_eq!(bed.cache.cached_bytes(split.0.id), 40 * PAGE);
}

#[test]
fn ranges_are_widened_to_pages_and_end_with_the_object() {
    let bed = Bed::new(100);
    let split = object(1, 5);
    let bytes = block_on(bed.cache.read(&split.0, Terms, 4100..4101)).unwrap();
    assert_eq!(bytes, truth(&split.1, &(1..2)));
    assert!(block_on(bed.cache.read(&split.0, Terms, 7..7)).unwrap().is_empty());
    let error = block_on(bed.cache.read(&split.0, Terms, 0..5 * PAGE + 1)).unwrap_err();
    assert_eq!(error.kind, ObjectErrorKind::Corrupt);
    // A prefetch ignores pages beyond the end.
    bed.fetch(&split, &[(Terms, 4..9)]);
    assert_eq!(split.1.requests()[1..], [4 * PAGE..5 * PAGE]);
}

#[test]
fn what_is_fetched_ahead_is_what_was_foretold() {
    let bed = Bed::new(1000);
    let split = object(1, 400);
    bed.read(&split, Terms, 100..101);
    let wanted = [
        (Terms, 100..102),
        (Postings, 105..106),
        (Columns, 200..300),
        (Columns, 250..310),
        (Postings, 390..391),
    ];
    let cost = bed.cache.missing(&split.0, &in_bytes(&wanted));
    let foretold = Cost {
        requests: 3,
        bytes: (5 + 110 + 1) * PAGE,
    };
    assert_eq!(cost, foretold);
    assert_eq!(split.1.count(), 1, "the estimate fetches nothing");
    bed.fetch(&split, &wanted);
    assert_eq!(
        split.1.requests()[1..],
        [101 * PAGE..106 * PAGE, 200 * PAGE..310 * PAGE, 390 * PAGE..391 * PAGE]
    );
    assert_eq!(bed.cache.missing(&split.0, &in_bytes(&wanted)), Cost::default());
    for (kind, pages) in wanted {
        bed.read(&split, kind, pages);
    }
    assert_eq!(split.1.count(), 4);
    bed.check();
}

#[test]
fn hits_are_what_was_there_before_the_question() {
    let bed = Bed::new(1000);
    let split = object(1, 400);
    // First request: prefetched, then read. The gap was not requested.
    bed.fetch(&split, &[(Terms, 0..2), (Postings, 4..5)]);
    bed.read(&split, Terms, 0..2);
    bed.read(&split, Postings, 4..5);
    let stats = bed.cache.stats();
    let terms = stats.kind(Terms);
    assert_eq!(
        (terms.requested_bytes, terms.hit_bytes, terms.missed_bytes),
        (2 * PAGE, 0, 2 * PAGE)
    );
    assert_eq!(
        (terms.fetched_bytes, terms.cached_bytes),
        (4 * PAGE, 4 * PAGE),
        "with the gap"
    );
    assert_eq!(stats.kind(Postings).missed_bytes, PAGE);
    // Second request.
    bed.fetch(&split, &[(Terms, 0..2), (Postings, 4..5)]);
    bed.read(&split, Terms, 0..2);
    bed.read(&split, Columns, 7..8);
    let stats = bed.cache.stats();
    assert_eq!(stats.kind(Terms).hit_bytes, 2 * PAGE);
    assert_eq!(stats.kind(Columns).missed_bytes, PAGE);
    let total = stats.total();
    assert_eq!(total.requested_bytes, total.hit_bytes + total.missed_bytes);
    assert_eq!(stats.store_requests, 2);
}

#[test]
fn a_question_larger_than_the_cache_is_answered() {
    let bed = Bed::new(20);
    let split = object(1, 3000);
    bed.read(&split, Columns, 0..3000);
    bed.read(&split, Columns, 0..3000);
    bed.check();
    // A prefetch includes only pages that stay cached until they are read.
    let before = split.1.count();
    bed.fetch(&split, &[(Terms, 100..104), (Columns, 200..900), (Terms, 40..41)]);
    assert_eq!(split.1.requests()[before..], [100 * PAGE..104 * PAGE]);
    bed.read(&split, Columns, 200..900);
    bed.check();
}

#[test]
fn a_cache_of_nothing_keeps_nothing() {
    let bed = Bed::new(0);
    let split = object(1, 40);
    for _ in 0..2 {
        bed.fetch(&split, &[(Terms, 0..4)]);
        bed.read(&split, Terms, 0..40);
    }
    assert_eq!(split.1.count(), 2, "pages that cannot be cached are not prefetched");
    assert_eq!(bed.file.taken(), 0);
    assert_eq!(bed.cache.stats().bypassed_bytes, 2 * 40 * PAGE);
}

#[test]
fn a_file_system_without_holes_does_with_fewer_regions() {
    let file = MemoryFile::new().copy(|memory| memory.is_sparse = false);
    let bed = Bed::on(SimDisk::new(), file, 4 * REGION_PAGES);
    let split = object(1, 20 * REGION_PAGES);
    for region in 0..20 {
        bed.read(&split, Terms, region * REGION_PAGES + 3..region * REGION_PAGES + 4);
        bed.read(&split, Terms, region * REGION_PAGES + 5..region * REGION_PAGES + 6);
        bed.check();
    }
    assert_eq!(bed.cache.stats().regions, 4);
    assert!(bed.file.len().unwrap() <= 4 * REGION_BYTES);
}

#[test]
fn readers_of_many_threads_get_the_right_pages() {
    let bed = Bed::new(40);
    let splits: Vec<_> = (1..5).map(|number| object(number, 100)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (bed, splits) = (&bed, &splits);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..300 {
                    let split = &splits[random.usize(..splits.len())];
                    let start = random.u64(..100);
                    bed.read(split, Columns, start..(start + random.u64(1..30)).min(100));
                }
            });
        }
    });
    bed.check();
    let stats = bed.cache.stats();
    assert_eq!(stats.damaged_pages, 0, "evicted pages are not damaged");
    assert!(stats.evictions > 0);
}
