//! Sparse file of the operating system, written in place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::RandomFile;
use super::real::naming;

/// Granularity at which space is freed.
const PAGE_BYTES: u64 = 4096;

/// File of the operating system, with holes where no page is allocated.
#[derive(Debug)]
pub(super) struct SparseFile {
    file: File,
    path: PathBuf,
    is_sparse: bool,
}

impl SparseFile {
    /// Opens or creates a file exclusively. Fails with [`io::ErrorKind::ResourceBusy`] if another process has it open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(naming("open", path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let reason = format!("[{}] is in use by another process", path.display());
                io::Error::new(io::ErrorKind::ResourceBusy, reason)
            }
            TryLockError::Error(error) => naming("lock", path)(error),
        })?;
        // File systems with blocks larger than a page (ZFS, some network file systems) do not free single pages.
        let metadata = file.metadata().map_err(naming("stat", path))?;
        let is_paged = metadata.blksize() <= PAGE_BYTES;
        // Tests hole punching behind the end of the file, where it changes nothing.
        let end = metadata.len().next_multiple_of(PAGE_BYTES);
        let is_sparse = is_paged && hole(&file, end..end + PAGE_BYTES).is_ok();
        Ok(Self {
            file,
            path: path.to_owned(),
            is_sparse,
        })
    }

    /// Adds the attempted action and the path to an I/O error.
    fn naming(&self, attempt: &'static str) -> impl FnOnce(io::Error) -> io::Error {
        naming(attempt, &self.path)
    }
}

#[cfg(target_os = "linux")]
fn hole(file: &File, range: Range<u64>) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(
        file,
        flags,
        range.start,
        range.end - range.start,
    )?)
}

#[cfg(not(target_os = "linux"))]
fn hole(_: &File, _: Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl RandomFile for SparseFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.naming("read")(error)),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset).map_err(self.naming("write to"))
    }

    fn release(&self, range: Range<u64>) -> io::Result<()> {
        match self.is_sparse {
            true => hole(&self.file, range).map_err(self.naming("free space of")),
            false => Ok(()),
        }
    }

    fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(self.naming("set the length of"))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(self.naming("sync"))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(self.naming("stat"))?.len())
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        // POSIX counts units of 512 bytes, independent of the block size of the file system.
        Ok(self.file.metadata().map_err(self.naming("stat"))?.blocks() * 512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_taken_and_given_back_by_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("regions");
        let file = SparseFile::open(&path).unwrap();
        file.write_at(&[7; 8192], 65_536).unwrap();
        let mut page = [1; 4096];
        assert_eq!(file.read_at(&mut page, 0).unwrap(), 4096);
        assert_eq!(page, [0; 4096], "unwritten ranges read as zeros");
        assert_eq!(
            file.read_at(&mut page, 65_536 + 8192 - 100).unwrap(),
            100,
            "a read at the end is short"
        );
        assert_eq!(SparseFile::open(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(file);
        // The hole-punching test of a second open changes nothing.
        let file = SparseFile::open(&path).unwrap();
        assert_eq!(file.read_at(&mut page, 65_536).unwrap(), 4096);
        assert_eq!(page, [7; 4096]);
        assert_eq!(file.len().unwrap(), 65_536 + 8192);
        if file.is_sparse() {
            assert_eq!(file.taken_bytes().unwrap(), 8192);
            file.release(65_536..65_536 + 4096).unwrap();
            assert_eq!(file.taken_bytes().unwrap(), 4096);
            assert_eq!(file.read_at(&mut page, 65_536).unwrap(), 4096);
            assert_eq!(page, [0; 4096]);
        }
    }
}
