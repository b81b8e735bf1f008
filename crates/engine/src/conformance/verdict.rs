//! Verdict of a case, and the checks that decide it.

use std::fmt;

use firn_model::Error;

/// Why an engine does not conform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("an unexpected error: {error:?}"))
    }
}

/// Result of a case.
pub type Verdict = Result<(), Failure>;

/// Fails a case unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::conformance::verdict::Failure::new(format!($($reason)+)));
        }
    };
}
pub(super) use ensure;

/// Fails a case unless two values are equal.
pub(super) fn same<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(what: &str, found: T, expect: U) -> Verdict {
    ensure!(found == expect, "{what}: found {found:?}, expected {expect:?}");
    Ok(())
}
