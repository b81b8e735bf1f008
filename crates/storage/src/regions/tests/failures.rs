//! Tests with failing or damaging stores and disks.

use super::*;

#[test]
fn a_damaged_answer_is_fetched_again() {
    for fault in [Fault::Flip, Fault::Short, Fault::Error(ObjectErrorKind::Corrupt)] {
        let bed = Bed::new(100);
        let split = object(1, 50);
        split.1.fail([fault.clone(), fault.clone()]);
        bed.read(&split, Terms, 0..10);
        assert_eq!(split.1.count(), 3);
        assert_eq!(bed.cache.stats().store_damaged, 2);
        bed.check();
        // Retries are limited.
        split.1.fail([fault.clone(), fault.clone(), fault.clone()]);
        let error = block_on(bed.cache.read(&split.0, Terms, 20 * PAGE..30 * PAGE)).unwrap_err();
        assert_eq!(error.kind, ObjectErrorKind::Corrupt, "{fault:?}");
        assert_eq!(error.key, "splits/1");
        assert!(!bed.has(&split, 20), "no page of it is cached");
        bed.read(&split, Terms, 20..30);
        bed.check();
    }
}

#[test]
fn pages_of_another_object_are_damage() {
    let bed = Bed::new(100);
    let ((split, _), (_, wrong)) = (object(1, 50), object(2, 50));
    let split = Arc::new(CachedObject {
        store: wrong,
        ..split.as_ref().clone()
    });
    let error = block_on(bed.cache.read(&split, Terms, 0..PAGE)).unwrap_err();
    assert_eq!(error.kind, ObjectErrorKind::Corrupt);
    assert!(error.reason.contains("offset 0"), "{}", error.reason);
}

/// A slot may be reused for another object between the lookup and the read. If that object has the same salt, its pages
/// would pass for those of the first one.
#[test]
fn a_place_that_is_given_away_while_it_is_read_is_not_served() {
    let bed = Bed::new(100);
    let twin = |number: u8| salted(number, 4, 7, fastrand::Rng::with_seed(number.into()));
    let (split, other) = (twin(1), twin(2));
    let Bed { file, cache, .. } = bed;
    let cache = Arc::new(cache);
    fn read(cache: &RegionCache, object: &Arc<CachedObject>) -> Bytes {
        block_on(cache.read(object, Terms, 0..PAGE)).unwrap()
    }
    assert_eq!(read(&cache, &split.0), truth(&split.1, &(0..1)));
    let (shared, object, id) = (Arc::clone(&cache), Arc::clone(&other.0), split.0.id);
    let swap = move || {
        let (shared, object) = (Arc::clone(&shared), Arc::clone(&object));
        let swapped = std::thread::spawn(move || {
            shared.clear(Some(&[id].into()));
            read(&shared, &object)
        });
        swapped.join().unwrap();
    };
    file.0.lock().before_read = Some(Event(Arc::new(swap)));
    assert_eq!(read(&cache, &split.0), truth(&split.1, &(0..1)));
    assert_eq!(cache.stats().damaged_pages, 0);
    // The other object has the slot now, and its page is sound.
    let requests = other.1.count();
    assert_eq!(read(&cache, &other.0), truth(&other.1, &(0..1)));
    assert_eq!(other.1.count(), requests);
}

#[test]
fn a_bit_that_flips_on_the_disk_is_not_served() {
    let bed = Bed::new(100);
    let split = object(1, 50);
    bed.read(&split, Terms, 0..10);
    let places: Vec<u64> = bed.file.0.lock().pages.keys().copied().collect();
    for (page, place) in places.into_iter().enumerate() {
        bed.file.0.lock().pages.get_mut(&place).unwrap()[page * 400] ^= 1;
        bed.read(&split, Terms, 0..10);
        bed.check();
        let page = page as u64;
        assert_eq!(
            split.1.requests()[page as usize + 1..],
            [page * PAGE..(page + 1) * PAGE],
            "only the damaged page"
        );
        assert_eq!(bed.cache.stats().damaged_pages, page + 1);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_no_obstacle() {
    let bed = Bed::new(100);
    let split = object(1, 50);
    bed.read(&split, Terms, 0..10);
    bed.file.0.lock().can_read = false;
    bed.read(&split, Terms, 0..10);
    assert_eq!(split.1.count(), 2);
    bed.file.0.lock().can_read = true;
    bed.read(&split, Terms, 0..10);
    assert_eq!(split.1.count(), 2);
    bed.check();
}

#[test]
fn a_full_disk_is_no_obstacle() {
    let bed = Bed::new(100);
    let split = object(1, 50);
    bed.file.0.lock().room = 5;
    bed.disk.set_capacity(bed.disk.used_bytes());
    for _ in 0..2 {
        bed.fetch(&split, &[(Terms, 0..4)]);
        bed.read(&split, Terms, 0..40);
        bed.cache.flush();
        bed.check();
    }
    let stats = bed.cache.stats();
    assert!(stats.disk_write_failures >= 2);
    assert_eq!(stats.used_bytes, 4 * PAGE);
    // With free space again, everything is cached after a while, and restored after a restart.
    bed.file.0.lock().room = usize::MAX;
    bed.disk.set_capacity(u64::MAX);
    bed.read(&split, Terms, 0..40);
    bed.cache.flush();
    let again = Bed::on(bed.disk.kill(), bed.file.clone(), 100);
    let count = split.1.count();
    again.read(&split, Terms, 0..40);
    assert_eq!(split.1.count(), count);
    again.check();
}
