//! One process per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

use firn_model::{Error, Result};

/// Holds `node.lock` of the data folder; the operating system releases it with the process, so
/// nothing is left to clean up after a crash.
#[derive(Debug)]
pub(crate) struct NodeLock {
    _file: File,
}

impl NodeLock {
    /// Takes the lock; fails at once if another process has it.
    pub(crate) fn take(path_data: &Path) -> Result<Self> {
        let path = path_data.join("node.lock");
        let cannot = |error: std::io::Error| {
            Error::internal(format!("cannot take the lock [{}]", path.display())).caused_by(error)
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::illegal_argument(format!(
                    "the data folder [{}] is in use by another firn; stop it or choose another path.data",
                    path_data.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        // For people who look into the file; nothing reads it.
        file.set_len(0).map_err(cannot)?;
        writeln!(file, "{}", std::process::id()).map_err(cannot)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let lock = NodeLock::take(folder.path()).unwrap();
        let error = NodeLock::take(folder.path()).unwrap_err();
        assert!(error.reason().contains("in use by another firn"), "{error}");
        drop(lock);
        NodeLock::take(folder.path()).unwrap();
    }
}
