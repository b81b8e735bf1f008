use super::*;

#[test]
fn an_entry_is_good_for_its_password_hash_and_time() {
    let mut verified = Verified::new([1; 32]);
    let now = Instant::now();
    let right = verified.sign_in("me", "right");
    verified.insert(right, "hash", now);
    assert!(verified.contains(&right, "hash", now));
    assert!(!verified.contains(&right, "changed", now));
    assert!(!verified.contains(&verified.sign_in("me", "wrong"), "hash", now));
    assert!(!verified.contains(&right, "hash", now + GOOD_FOR));
    assert_ne!(verified.sign_in("ab", "c"), verified.sign_in("a", "bc"));
}

#[test]
fn the_cache_is_bounded_and_drops_the_oldest() {
    let mut verified = Verified::new([1; 32]);
    let start = Instant::now();
    for number in 0..(ENTRIES_MAX as u32 + 10) {
        let sign_in = verified.sign_in(&number.to_string(), "x");
        verified.insert(sign_in, "hash", start + number * Duration::from_millis(1));
    }
    assert_eq!(verified.entries.len(), ENTRIES_MAX);
    let later = start + Duration::from_secs(10);
    assert!(!verified.contains(&verified.sign_in("0", "x"), "hash", later));
    assert!(verified.contains(&verified.sign_in("1000", "x"), "hash", later));
}
