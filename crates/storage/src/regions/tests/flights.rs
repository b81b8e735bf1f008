//! Tests of single flight: no page is fetched twice at the same time.

use super::*;
use futures_util::future::join;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn bytes(pages: Range<u64>) -> Range<u64> {
    pages.start * PAGE..pages.end * PAGE
}

#[test]
fn two_readers_fetch_once() {
    // Without space the second reader is served from the first one's bytes.
    for room in [100, 0] {
        let bed = Bed::new(room);
        let (split, store) = object(1, 50);
        store.hold();
        let mut first = pin!(bed.cache.read(&split, Terms, bytes(0..10)));
        let mut second = pin!(bed.cache.read(&split, Terms, bytes(5..12)));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        assert_eq!(store.requests(), [bytes(0..10), bytes(10..12)], "room for {room}");
        store.let_go(2);
        let (first, second) = block_on(join(first, second));
        assert_eq!(first.unwrap(), truth(&store, &(0..10)));
        assert_eq!(second.unwrap(), truth(&store, &(5..12)));
        assert_eq!(store.count(), 2);
        let stats = bed.cache.stats();
        assert_eq!(stats.joined, 1);
        assert_eq!(stats.total().fetched_bytes, 12 * PAGE);
        assert_eq!(stats.total().missed_bytes, 17 * PAGE);
    }
}

#[test]
fn what_is_fetched_ahead_is_waited_for() {
    let bed = Bed::new(100);
    let (split, store) = object(1, 50);
    store.hold();
    let wanted = [(Terms, bytes(0..1)), (Columns, bytes(20..30))];
    let mut ahead = pin!(bed.cache.fetch(&split, &wanted));
    assert!(poll(ahead.as_mut()).is_pending());
    assert_eq!(store.count(), 2, "both concurrently");
    let mut other = pin!(bed.cache.fetch(&split, &wanted));
    let mut reader = pin!(bed.cache.read(&split, Columns, bytes(25..26)));
    assert!(poll(other.as_mut()).is_pending());
    assert!(poll(reader.as_mut()).is_pending());
    assert_eq!(
        bed.cache.missing(&split, &wanted),
        Cost::default(),
        "the next read costs nothing"
    );
    store.let_go(2);
    let ((ahead, other), reader) = block_on(join(join(ahead, other), reader));
    ahead.and(other).unwrap();
    assert_eq!(reader.unwrap(), truth(&store, &(25..26)));
    assert_eq!(store.count(), 2);
    // The reader's miss counts as the page's miss.
    block_on(bed.cache.read(&split, Columns, bytes(25..26))).unwrap();
    let stats = bed.cache.stats();
    assert_eq!(
        (stats.kind(Columns).missed_bytes, stats.kind(Columns).hit_bytes),
        (PAGE, PAGE)
    );
}

#[test]
fn if_the_leader_gives_up_another_one_leads() {
    let bed = Bed::new(100);
    let (split, store) = object(1, 50);
    store.hold();
    let mut first = Box::pin(bed.cache.read(&split, Terms, bytes(0..10)));
    let mut second = pin!(bed.cache.read(&split, Terms, bytes(5..6)));
    let wanted = [(Terms, bytes(5..6))];
    let mut third = pin!(bed.cache.fetch(&split, &wanted));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    drop(first);
    store.let_go(1);
    let (second, third) = block_on(join(second, third));
    assert_eq!(second.unwrap(), truth(&store, &(5..6)));
    third.unwrap();
    assert_eq!(
        store.requests(),
        [bytes(0..10), bytes(5..6)],
        "only pages that are still wanted"
    );
    bed.check();
}

#[test]
fn errors_are_shared_but_not_refusals() {
    for (kind, requests) in [(ObjectErrorKind::Unavailable, 1), (ObjectErrorKind::Refused, 2)] {
        let bed = Bed::new(100);
        let (split, store) = object(1, 50);
        store.hold();
        store.fail([Fault::Error(kind)]);
        let mut first = pin!(bed.cache.read(&split, Terms, bytes(0..10)));
        let mut second = pin!(bed.cache.read(&split, Terms, bytes(0..10)));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        store.let_go(2);
        let (first, second) = block_on(join(first, second));
        assert_eq!(first.unwrap_err().kind, kind);
        assert_eq!(second.is_ok(), kind == ObjectErrorKind::Refused);
        assert_eq!(store.count(), requests);
        // Errors are not cached.
        block_on(bed.cache.read(&split, Terms, bytes(0..10))).unwrap();
    }
}

#[test]
fn what_is_in_flight_is_bounded() {
    let options = RegionCacheOptions {
        size_bytes: 0,
        in_flight_bytes_max: 1,
        ..RegionCacheOptions::default()
    };
    let file = Arc::new(MemoryFile::new());
    let cache = RegionCache::with_file(Arc::new(SimDisk::new()), Path::new("/"), file, options).unwrap();
    let (split, store) = object(1, 2 * 2048 + 10);
    store.hold();
    let mut reader = pin!(cache.read(&split, Terms, bytes(0..4106)));
    assert!(poll(reader.as_mut()).is_pending());
    assert_eq!(store.count(), 1, "the longest request alone");
    store.let_go(3);
    assert_eq!(block_on(reader).unwrap(), truth(&store, &(0..4106)));
    assert_eq!(store.count(), 3);
}
