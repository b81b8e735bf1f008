//! Files and folders that cannot be read now, each logged once for each error.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Failures {
    by_path: BTreeMap<PathBuf, Failure>,
    count: u64,
}

#[derive(Debug)]
struct Failure {
    kind: io::ErrorKind,
    message: String,
    /// Number of the failure: the highest one is the last.
    number: u64,
}

impl Failures {
    /// Notes that a path cannot be read. Returns whether it was readable before, or had another error.
    pub(super) fn failed(&mut self, path: &Path, error: &io::Error) -> bool {
        self.count += 1;
        let failure = Failure {
            kind: error.kind(),
            message: format!("cannot read [{}]: {error}", path.display()),
            number: self.count,
        };
        let before = self.by_path.insert(path.to_owned(), failure);
        before.is_none_or(|before| before.kind != error.kind())
    }

    /// Notes that a path can be read, or is gone.
    pub(super) fn works(&mut self, path: &Path) {
        self.by_path.remove(path);
    }

    /// Returns the last error of those that have not passed.
    pub(super) fn last(&self) -> Option<String> {
        let last = self.by_path.values().max_by_key(|failure| failure.number);
        last.map(|failure| failure.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_new_once_and_the_last_one_counts() {
        let (denied, failed) = (io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidData);
        let (one, two) = (Path::new("/one"), Path::new("/two"));
        let mut failures = Failures::default();
        assert!(failures.failed(one, &denied.into()));
        assert!(!failures.failed(one, &denied.into()));
        assert!(failures.failed(two, &denied.into()));
        assert!(failures.last().unwrap().contains("/two"));
        assert!(failures.failed(one, &failed.into()), "another error");
        assert!(failures.last().unwrap().contains("/one"));
        failures.works(one);
        assert!(failures.last().unwrap().contains("/two"));
        failures.works(two);
        assert_eq!(failures.last(), None);
        assert!(failures.failed(one, &failed.into()), "it worked in between");
    }
}
