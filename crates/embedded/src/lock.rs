//! Lock of a data folder: one process at a time.

use std::io;
use std::path::Path;

use firn_model::{Error, Result};
use firn_storage::disk::{Disk, RandomFile};

/// Holds `node.lock` of the data folder; the operating system releases it with the process, so a crash needs no
/// cleanup.
#[derive(Debug)]
pub(crate) struct NodeLock {
    _file: Box<dyn RandomFile>,
}

impl NodeLock {
    /// Takes the lock; fails at once if another process has it.
    pub(crate) fn take(disk: &dyn Disk, path_data: &Path) -> Result<Self> {
        let path = path_data.join("node.lock");
        let file = disk.open_random(&path).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => Error::illegal_argument(format!(
                "the data folder [{}] is in use by another firn process; stop it or choose another path.data",
                path_data.display()
            )),
            _ => Error::internal(format!("cannot take the lock [{}]", path.display())).caused_by(error),
        })?;
        // For people who read the file; nothing parses it, so on a full disk it may have the old content.
        let process = format!("{}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.write_at(process.as_bytes(), 0));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot write the id of this process to the lock file");
        }
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::disk::RealDisk;

    use super::*;

    #[test]
    fn a_data_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let lock = NodeLock::take(&RealDisk, folder.path()).unwrap();
        let error = NodeLock::take(&RealDisk, folder.path()).unwrap_err();
        assert!(error.reason().contains("in use by another firn"), "{error}");
        drop(lock);
        NodeLock::take(&RealDisk, folder.path()).unwrap();
    }
}
