//! Tests of eviction.

use std::collections::HashSet;

use firn_model::tenant::TenantId;

use super::*;

/// Reads the first page of these regions.
fn scan(bed: &Bed, split: &(Arc<CachedObject>, Arc<Store>), regions: Range<u64>) {
    for region in regions {
        bed.read(split, Columns, region * REGION_PAGES..region * REGION_PAGES + 1);
    }
}

fn owned(number: u8, pages: u64, tenant: &TenantId) -> (Arc<CachedObject>, Arc<Store>) {
    let (split, store) = object(number, pages);
    let split = CachedObject {
        owner: Some(tenant.clone()),
        ..split.as_ref().clone()
    };
    (Arc::new(split), store)
}

#[test]
fn what_is_read_often_survives_a_scan() {
    let bed = Bed::new(20);
    let (often, once) = (object(1, 16), object(2, 100 * REGION_PAGES));
    for _ in 0..5 {
        bed.read(&often, Terms, 0..5);
    }
    scan(&bed, &once, 0..60);
    assert!(bed.has(&often, 0) && bed.has(&often, 4));
    assert_eq!(often.1.count(), 1);
    let stats = bed.cache.stats();
    assert_eq!(stats.kind(Columns).evicted_bytes, 45 * PAGE);
    assert_eq!(stats.kind(Terms).evicted_bytes, 0);
    assert_eq!(stats.evictions, 45);
    bed.check();
    // But not forever.
    for _ in 0..20 {
        scan(&bed, &once, 0..60);
    }
    assert!(!bed.has(&often, 0));
}

#[test]
fn pins_hold_up_to_half_of_the_cache() {
    let bed = Bed::new(40);
    let (pinned, other) = (object(1, 4 * REGION_PAGES), object(2, 100 * REGION_PAGES));
    bed.read(&pinned, Terms, 0..1);
    bed.cache.pin(&[pinned.0.id]);
    bed.read(&pinned, Terms, 2..16);
    bed.fetch(&pinned, &[(Terms, 16..30)]);
    assert_eq!(
        bed.cache.stats().pinned_bytes,
        15 * PAGE,
        "the second region exceeds the limit of pins"
    );
    scan(&bed, &other, 0..90);
    bed.check();
    assert!(bed.has(&pinned, 0) && bed.has(&pinned, 15));
    assert!(!bed.has(&pinned, 16));
    bed.cache.unpin(&[pinned.0.id]);
    assert_eq!(bed.cache.stats().pinned_bytes, 0);
    scan(&bed, &other, 0..90);
    assert!(!bed.has(&pinned, 0));
    bed.check();
}

#[test]
fn a_pin_waits_for_what_comes() {
    let bed = Bed::new(40);
    let (pinned, other) = (object(1, 16), object(2, 100 * REGION_PAGES));
    bed.cache.pin(&[pinned.0.id]);
    bed.read(&pinned, Terms, 3..4);
    scan(&bed, &other, 0..90);
    assert!(bed.has(&pinned, 3));
    // After a clear it is removed, and a new fetch is pinned again.
    bed.cache.clear(None);
    assert_eq!(bed.file.taken(), 0);
    bed.read(&pinned, Terms, 3..4);
    assert_eq!(bed.cache.stats().pinned_bytes, PAGE);
    bed.check();
}

#[test]
fn a_tenant_at_its_quota_makes_room_for_itself() {
    let bed = Bed::new(100);
    let (loud, quiet) = (TenantId::parse("loud").unwrap(), TenantId::parse("quiet").unwrap());
    let (large, small) = (owned(1, 60 * REGION_PAGES, &loud), owned(2, 16, &quiet));
    bed.cache.set_quota(&loud, Some(10 * PAGE));
    bed.read(&small, Terms, 0..8);
    bed.read(&large, Terms, 0..2);
    bed.read(&large, Terms, 0..2);
    scan(&bed, &large, 1..60);
    bed.check();
    let stats = bed.cache.stats();
    assert_eq!(stats.used_bytes, 18 * PAGE);
    assert_eq!(stats.owners.len(), 2);
    assert_eq!(
        (stats.owners[0].cached_bytes, stats.owners[0].quota_bytes),
        (10 * PAGE, Some(10 * PAGE))
    );
    assert_eq!(stats.owners[1].cached_bytes, 8 * PAGE);
    assert_eq!(stats.owners[0].evicted_bytes, 51 * PAGE);
    assert!(bed.has(&small, 0));
    // An object larger than the quota bypasses the cache; a smaller quota applies from the next fetch on.
    bed.read(&large, Terms, 20..32);
    bed.check();
    bed.cache.set_quota(&loud, Some(2 * PAGE));
    scan(&bed, &large, 5..6);
    assert!(bed.has(&large, 5 * REGION_PAGES));
    assert!(bed.cache.stats().owners[0].cached_bytes <= 2 * PAGE);
    bed.cache.set_quota(&loud, Some(0));
    scan(&bed, &large, 6..7);
    assert!(!bed.has(&large, 6 * REGION_PAGES));
    bed.cache.set_quota(&loud, None);
    scan(&bed, &large, 6..40);
    assert!(bed.cache.stats().owners[0].cached_bytes > 30 * PAGE);
    bed.check();
}

#[test]
fn every_tenant_has_the_default_quota_unless_it_has_a_specific_one() {
    let options = RegionCacheOptions {
        size_bytes: 100 * PAGE,
        owner_bytes_max: 10 * PAGE,
        ..RegionCacheOptions::default()
    };
    let file = Arc::new(MemoryFile::new());
    let cache = RegionCache::with_file(Arc::new(SimDisk::new()), Path::new("/"), file, options).unwrap();
    let (one, other) = (TenantId::parse("one").unwrap(), TenantId::parse("other").unwrap());
    cache.set_quota(&other, Some(20 * PAGE));
    let splits = [owned(1, 160, &one), owned(2, 160, &other), object(3, 160)];
    for (split, _) in &splits {
        for page in 0..40 {
            block_on(cache.read(split, Columns, page * 4 * PAGE..(page * 4 + 1) * PAGE)).unwrap();
        }
    }
    let cached = splits.map(|(split, _)| cache.cached_bytes(split.id) / PAGE);
    assert!(cached[0] <= 10 && cached[0] > 6, "{cached:?}");
    assert!(cached[1] <= 20 && cached[1] > 16, "{cached:?}");
    assert_eq!(cached[2], 40, "an object without a tenant has no quota");
    cache.check();
}

#[test]
fn one_object_can_be_cleared() {
    let bed = Bed::new(100);
    let (one, other) = (object(1, 16), object(2, 16));
    bed.read(&one, Terms, 0..4);
    bed.read(&other, Terms, 0..4);
    bed.cache.clear(Some(&HashSet::from([one.0.id])));
    assert_eq!(bed.cache.cached_bytes(one.0.id), 0);
    assert_eq!(bed.cache.cached_bytes(other.0.id), 4 * PAGE);
    bed.check();
    bed.read(&one, Terms, 0..4);
    assert_eq!((one.1.count(), other.1.count()), (2, 1));
}
