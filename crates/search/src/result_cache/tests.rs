use firn_model::mapping::Mapping;

use super::*;

/// Bytes of an entry of these tests.
const SIZE: usize = 1000;

fn segment(number: u32) -> SegmentId {
    SegmentId::from_uuid_string(&format!("{number:032x}")).unwrap()
}

fn mapping() -> Arc<Mapping> {
    Arc::new(Mapping::parse(&serde_json::json!({})).unwrap())
}

fn question(tenant: &str, key: &str, mapping: &Arc<Mapping>) -> CachedRequest {
    CachedRequest::new(key.as_bytes().into(), tenant.into(), mapping)
}

/// A question of a tenant about a whole segment.
fn name(number: u32, tenant: &str, mapping: &Arc<Mapping>) -> CacheKey {
    let part = Part::of_id(segment(number), Coverage::All);
    CacheKey::of_segment(&question(tenant, "q", mapping), part, false)
}

fn put(cache: &Arc<RequestCache>, name: CacheKey, total: u64, account: &Arc<Account>) {
    let answer = Answer {
        total,
        found: Found::Partials(Partials::default()),
        bytes: SIZE - ENTRY_BYTES - name.size_bytes(),
    };
    ShardCache::new(cache, account).put(name, answer);
}

fn total(cache: &RequestCache, name: &CacheKey) -> Option<u64> {
    cache.get(name).map(|answer| answer.total)
}

#[test]
fn the_least_recently_used_goes_first_and_sums_stay_right() {
    let cache = RequestCache::new(8 * SIZE);
    let (account, mapping) = (Arc::default(), mapping());
    // Four tenants hold two entries each, none more than its share.
    let own = |number: u32| name(number, &format!("t{}", number % 4), &mapping);
    for number in 0..8 {
        put(&cache, own(number), number.into(), &account);
    }
    assert_eq!(total(&cache, &own(0)), Some(0));
    put(&cache, name(8, "t1", &mapping), 8, &account);
    let cached: Vec<u32> = (0..8).filter(|number| total(&cache, &own(*number)).is_some()).collect();
    assert_eq!(cached, [0, 2, 3, 4, 5, 6, 7]);
    let stats = account.stats();
    assert_eq!((stats.memory_bytes, stats.eviction_total), (8 * SIZE as u64, 1));
    assert_eq!(cache.tenant_bytes("t1"), 2 * SIZE as u64);
    for number in 0..9 {
        cache.forget(segment(number));
    }
    assert_eq!(account.stats().memory_bytes, 0);
    assert_eq!(cache.tenant_bytes("t1"), 0);
    let state = cache.state.lock();
    assert!(state.tenants.is_empty() && state.segments.is_empty() && state.entries.is_empty());
}

#[test]
fn no_tenant_pushes_out_the_others() {
    let cache = RequestCache::new(16 * SIZE);
    let (account, mapping) = (Arc::default(), mapping());
    let small = |number: u32| name(number, &format!("small{number}"), &mapping);
    for number in 0..12 {
        put(&cache, small(number), 1, &account);
    }
    for number in 100..200 {
        put(&cache, name(number, "large", &mapping), 2, &account);
    }
    let left = (0..12).filter(|number| total(&cache, &small(*number)).is_some());
    assert_eq!(left.count(), 11);
    assert_eq!(cache.tenant_bytes("large"), 5 * SIZE as u64);
    assert_eq!(total(&cache, &name(199, "large", &mapping)), Some(2));
}

#[test]
fn another_mapping_text_tenant_or_part_is_another_question() {
    let cache = RequestCache::new(1 << 20);
    let (account, ours, others) = (Arc::default(), mapping(), mapping());
    put(&cache, name(1, "a", &ours), 3, &account);
    assert_eq!(total(&cache, &name(1, "a", &ours)), Some(3));
    assert_eq!(total(&cache, &name(2, "a", &ours)), None);
    assert_eq!(total(&cache, &name(1, "b", &ours)), None);
    assert_eq!(total(&cache, &name(1, "a", &others)), None);
    let all = Part::of_id(segment(1), Coverage::All);
    let rows = Part::of_id(segment(1), Coverage::Rows(0, 5));
    let queried = question("a", "q", &ours);
    assert_eq!(total(&cache, &CacheKey::of_segment(&queried, rows, false)), None);
    assert_eq!(total(&cache, &CacheKey::of_segment(&queried, all.clone(), true)), None);
    let other = question("a", "r", &ours);
    assert_eq!(total(&cache, &CacheKey::of_segment(&other, all.clone(), false)), None);
    let whole = CacheKey::of_request(vec![queried], vec![all], false, 10).unwrap();
    assert_eq!(total(&cache, &whole), None);
}

#[test]
fn the_answer_of_a_request_goes_with_any_of_its_segments() {
    for closed in 1..4 {
        let cache = RequestCache::new(1 << 20);
        let (account, mapping) = (Arc::default(), mapping());
        let parts = || {
            (1..4)
                .map(|number| Part::of_id(segment(number), Coverage::All))
                .collect()
        };
        let whole =
            |typed_keys| CacheKey::of_request(vec![question("a", "q", &mapping)], parts(), typed_keys, 10).unwrap();
        put(&cache, whole(false), 9, &account);
        assert_eq!(total(&cache, &whole(false)), Some(9));
        assert_eq!(total(&cache, &whole(true)), None);
        cache.forget(segment(7));
        assert_eq!(total(&cache, &whole(false)), Some(9));
        cache.forget(segment(closed));
        assert_eq!(total(&cache, &whole(false)), None);
        assert!(cache.state.lock().segments.is_empty());
    }
}

#[test]
fn a_cache_without_room_keeps_nothing() {
    let cache = RequestCache::new(0);
    let (account, mapping) = (Arc::default(), mapping());
    put(&cache, name(1, "a", &mapping), 3, &account);
    assert_eq!(total(&cache, &name(1, "a", &mapping)), None);
    assert_eq!(account.stats().memory_bytes, 0);
}
