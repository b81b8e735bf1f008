//! File of the catalog, as the backend of its redb store.

use std::io;
use std::path::Path;

use firn_storage::disk::{Disk, RandomFile};
use parking_lot::RwLock;
use redb::StorageBackend;

/// File of a disk that contains a redb store. Locked for this process until it is closed.
#[derive(Debug)]
pub(super) struct CatalogFile(RwLock<Option<Box<dyn RandomFile>>>);

impl CatalogFile {
    /// Opens the file, or creates an empty one.
    pub(super) fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        Ok(Self(RwLock::new(Some(disk.open_random(path)?))))
    }

    fn with<T>(&self, work: impl FnOnce(&dyn RandomFile) -> io::Result<T>) -> io::Result<T> {
        match &*self.0.read() {
            Some(file) => work(&**file),
            None => Err(io::Error::other("the catalog is closed")),
        }
    }
}

impl StorageBackend for CatalogFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|file| file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let count = self.with(|file| file.read_at(out, offset))?;
        match count == out.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|file| file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|file| file.sync())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|file| file.write_at(data, offset))
    }

    /// Closes the file, so that it can be opened again.
    fn close(&self) -> io::Result<()> {
        *self.0.write() = None;
        Ok(())
    }
}
