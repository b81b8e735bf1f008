//! Seeds of randomised tests.

/// The seed of a test: `FIRN_SEED` where set, else a fresh one. Printed, so that the output of a
/// failed test tells how to repeat it.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("FIRN_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    #[allow(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    {
        eprintln!("{test}: repeat with FIRN_SEED={seed}");
    }
    seed
}
