//! Seeds of randomised tests.

/// Returns the seed of a test: `FIRN_SEED` if set, otherwise a random one. Prints it, so that the output of a failed
/// test shows how to repeat it.
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
