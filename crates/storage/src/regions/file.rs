//! The file that slots lie in.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::split::pages::PAGE_BYTES;

/// What the cache asks of its file. Unlike the files behind [`Disk`](crate::disk::Disk) it is overwritten in place: nothing in
/// it is believed without its checksum, so a write may be lost or torn without harm.
///
/// All methods may be called concurrently, for the same bytes too: then a reader gets any mixture.
pub trait RegionFile: Send + Sync + fmt::Debug {
    /// Fills `bytes` as far as the file goes and says how far that was.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes`; lengthens the file where needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Gives the disk space of a range back; it reads as zeros then.
    fn release(&self, range: Range<u64>) -> io::Result<()>;

    /// Whether space is taken and given back by the page. If not, a slot takes its whole length once it was in use.
    fn is_sparse(&self) -> bool;

    /// Cuts the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Where the file ends.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Bytes of the disk that it takes.
    fn taken_bytes(&self) -> io::Result<u64>;
}

/// A file of the operating system, with holes where no page is.
#[derive(Debug)]
pub struct SparseFile {
    file: File,
    is_sparse: bool,
}

impl SparseFile {
    /// Opens or creates a file, for this process alone: [`io::ErrorKind::ResourceBusy`] if another one has it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let reason = format!("[{}] is in use by another process", path.display());
                io::Error::new(io::ErrorKind::ResourceBusy, reason)
            }
            TryLockError::Error(error) => error,
        })?;
        // Blocks larger than a page (ZFS, some network file systems) are not given back by the page.
        let is_paged = file.metadata()?.blksize() <= PAGE_BYTES;
        // Tried behind the end, where it changes nothing.
        let end = file.metadata()?.len().next_multiple_of(PAGE_BYTES);
        let is_sparse = is_paged && hole(&file, end..end + PAGE_BYTES).is_ok();
        Ok(Self { file, is_sparse })
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

impl RegionFile for SparseFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn release(&self, range: Range<u64>) -> io::Result<()> {
        match self.is_sparse {
            true => hole(&self.file, range),
            false => Ok(()),
        }
    }

    fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        // POSIX counts in 512 bytes whatever the blocks of the file system are.
        Ok(self.file.metadata()?.blocks() * 512)
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
        assert_eq!(page, [0; 4096], "what was never written is zeros");
        assert_eq!(
            file.read_at(&mut page, 65_536 + 8192 - 100).unwrap(),
            100,
            "short at the end"
        );
        assert_eq!(SparseFile::open(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(file);
        // Opened again: looking whether holes can be made changes nothing.
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
