use super::*;

fn limits() -> SignInThrottleLimits {
    SignInThrottleLimits {
        failures_together: 1000,
        ..SignInThrottleLimits::default()
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn waits_double_up_to_a_bound_and_end_with_success() {
    let mut slowdown = SignInThrottle::new(limits());
    let mut now = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..14 {
        if let Attempt::After(wait) = slowdown.attempt("a", now) {
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(slowdown.attempt("a", now), Attempt::Now);
        slowdown.failed("a", now);
    }
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
    assert_eq!(slowdown.attempt("b", now), Attempt::Now, "others do not wait");
    slowdown.succeeded("a");
    assert_eq!(slowdown.attempt("a", now), Attempt::Now);
}

#[test]
fn a_day_has_few_guesses_of_one_name() {
    let mut slowdown = SignInThrottle::new(limits());
    let start = Instant::now();
    let (mut now, mut guesses) = (start, 0);
    while now < start + Duration::from_secs(24 * 60 * 60) {
        if let Attempt::After(wait) = slowdown.attempt("a", now) {
            now += wait;
        }
        slowdown.failed("a", now);
        guesses += 1;
    }
    assert!(guesses < 9000, "{guesses}");
}

#[test]
fn failures_are_forgiven_after_a_while() {
    let mut slowdown = SignInThrottle::new(limits());
    let now = Instant::now();
    (0..20).for_each(|_| slowdown.failed("a", now));
    let later = now + Duration::from_secs(15 * 60);
    slowdown.failed("a", later);
    assert_eq!(slowdown.attempt("a", later), Attempt::Now);
}

#[test]
fn guessing_many_names_is_slow_too() {
    let mut slowdown = SignInThrottle::new(SignInThrottleLimits {
        failures_together: 10,
        names_max: 10,
        ..SignInThrottleLimits::default()
    });
    let now = Instant::now();
    (0..30).for_each(|number| slowdown.failed(&format!("name-{number}"), now));
    assert_eq!(slowdown.attempt("fresh", now), Attempt::After(2000 * MS));
    assert_eq!(slowdown.attempt("fresh", now + 2000 * MS), Attempt::Now);
    // Even after long guessing, the wait ends soon.
    (0..100_000).for_each(|number| slowdown.failed(&format!("name-{number}"), now));
    assert_eq!(slowdown.attempt("fresh", now), Attempt::After(10_000 * MS));
    assert_eq!(slowdown.attempt("fresh", now + 10_000 * MS), Attempt::Now);
}

#[test]
fn time_that_stands_still_or_goes_back_is_harmless() {
    let mut slowdown = SignInThrottle::new(limits());
    let start = Instant::now();
    let later = start + Duration::from_secs(60);
    (0..6).for_each(|_| slowdown.failed("a", later));
    assert_eq!(slowdown.attempt("a", later), Attempt::After(100 * MS));
    assert_eq!(
        slowdown.attempt("a", start),
        Attempt::After(limits().wait_max),
        "bounded"
    );
    slowdown.failed("a", start);
    assert_eq!(slowdown.attempt("a", later), Attempt::Now);
}

#[test]
fn the_table_is_bounded() {
    let mut slowdown = SignInThrottle::new(SignInThrottleLimits {
        names_max: 100,
        ..limits()
    });
    let now = Instant::now();
    (0..1000).for_each(|number| slowdown.failed(&number.to_string(), now + number * MS));
    assert_eq!(slowdown.names.len(), 100);
    assert!(slowdown.names.contains_key("999") && !slowdown.names.contains_key("899"));
}
