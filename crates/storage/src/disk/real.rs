//! File system of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::sparse_file::SparseFile;
use super::{AppendFile, DirEntry, Disk, RandomFile};

/// Largest file that is read into memory if it cannot be mapped.
const READ_WITHOUT_MAP_BYTES: u64 = 1 << 20;

/// File system of the operating system. Paths are used unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// Adds the attempted action and the path to an I/O error. Keeps the kind, so that a full disk is still recognised.
pub(super) fn naming(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.to_path_buf();
    move |error| io::Error::new(error.kind(), format!("cannot {attempt} [{}]: {error}", path.display()))
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
    /// Offset of the next byte. Each write passes its offset, so that the length is known after a partial write.
    len: AtomicU64,
}

impl AppendFile for RealFile {
    fn append(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let offset = self.len.load(Ordering::Relaxed);
            match self.file.write_at(bytes, offset) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(naming("write to", &self.path)(error));
                }
                Ok(count) => {
                    self.len.store(offset + count as u64, Ordering::Release);
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(naming("write to", &self.path)(error)),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(naming("sync", &self.path))
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }
}

impl Disk for RealDisk {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(naming("create", path))?;
        Ok(Box::new(RealFile {
            file,
            path: path.to_path_buf(),
            len: AtomicU64::new(0),
        }))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(naming("open", path))?;
        let len = file.metadata().map_err(naming("open", path))?.len();
        Ok(Box::new(RealFile {
            file,
            path: path.to_path_buf(),
            len: AtomicU64::new(len),
        }))
    }

    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>> {
        Ok(Box::new(SparseFile::open(path)?))
    }

    fn set_len(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(naming("open", path))?;
        file.set_len(len).map_err(naming("set the length of", path))
    }

    fn read(&self, path: &Path) -> io::Result<Bytes> {
        fs::read(path).map(Bytes::from).map_err(naming("read", path))
    }

    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes> {
        let file = File::open(path).map_err(naming("open", path))?;
        let len = file.metadata().map_err(naming("read", path))?.len();
        let end = range.end.min(len);
        let wanted = end.saturating_sub(range.start) as usize;
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            match file.read_at(&mut bytes[filled..], range.start + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(naming("read", path)(error)),
            }
        }
        bytes.truncate(filled);
        Ok(Bytes::from(bytes))
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        let mut file = File::open(path).map_err(naming("open", path))?;
        let len = file.metadata().map_err(naming("map", path))?.len();
        if len == 0 {
            return Ok(Bytes::new());
        }
        // For one page or less a map costs more than it saves (a page of address space, two system calls and a page
        // fault).
        if len <= 4096 {
            let mut bytes = Vec::with_capacity(len as usize);
            file.read_to_end(&mut bytes).map_err(naming("read", path))?;
            return Ok(Bytes::from(bytes));
        }
        // SAFETY: the trait requires that callers do not change a mapped file; firn maps only files that are written
        // once and then immutable.
        #[allow(unsafe_code, reason = "mapping a file is unsafe by nature; see the trait's contract")]
        let map = unsafe { memmap2::Mmap::map(&file) };
        match map {
            Ok(map) => Ok(Bytes::from_owner(map)),
            // If the process has no map left, small files are read instead, so that merges can run; merges free maps.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && len <= READ_WITHOUT_MAP_BYTES => {
                let mut bytes = Vec::with_capacity(len as usize);
                file.read_to_end(&mut bytes).map_err(naming("read", path))?;
                Ok(Bytes::from(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                let hint = format!(
                    "{error}: a process may map {} files (vm.max_map_count)",
                    self.maps_max()
                );
                Err(naming("map", path)(io::Error::new(io::ErrorKind::OutOfMemory, hint)))
            }
            Err(error) => Err(naming("map", path)(error)),
        }
    }

    fn maps_max(&self) -> u64 {
        static MAPS_MAX: OnceLock<u64> = OnceLock::new();
        *MAPS_MAX.get_or_init(|| {
            // Limit of Linux; other systems have none. The constant is the kernel's default, if it cannot be read.
            let configured = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
            let usual = if cfg!(target_os = "linux") { 65_530 } else { u64::MAX };
            configured.and_then(|text| text.trim().parse().ok()).unwrap_or(usual)
        })
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(naming("create", &temporary))?;
        let written = file.write_all_at(bytes, 0).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // A full disk needs the space back. If the removal fails too, the next attempt overwrites the file.
            let _ = fs::remove_file(&temporary);
            return Err(naming("write", &temporary)(error));
        }
        self.rename(&temporary, path)?;
        match path.parent() {
            Some(dir) => self.sync_dir(dir),
            None => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(naming("rename", from))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path).map_err(naming("remove", path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path).map_err(naming("remove", path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path).map_err(naming("create", path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(naming("list", dir))? {
            let entry = entry.map_err(naming("list", dir))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // The file may vanish between the listing and the metadata read.
            let Ok(metadata) = entry.metadata() else { continue };
            let is_dir = metadata.is_dir();
            let len = if is_dir { 0 } else { metadata.len() };
            entries.push(DirEntry { name, is_dir, len });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists().map_err(naming("check for", path))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path)
            .map(|metadata| metadata.len())
            .map_err(naming("stat", path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // A relative path of one component has the empty path as its parent.
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        let file = File::open(dir).map_err(naming("open", dir))?;
        file.sync_all().map_err(naming("sync", dir))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(naming("open", path))?;
        file.sync_all().map_err(naming("sync", path))
    }

    fn rewrite_and_sync(&self, path: &Path, from: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(naming("open", path))?;
        let mut chunk = vec![0; 256 << 10];
        let mut offset = from;
        loop {
            let count = match file.read_at(&mut chunk, offset) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(naming("read", path)(error)),
            };
            file.write_all_at(&chunk[..count], offset)
                .map_err(naming("write to", path))?;
            offset += count as u64;
        }
        file.sync_all().map_err(naming("sync", path))
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path).map_err(|error| naming("read the free space of", path)(error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path).map_err(|error| naming("read the size of", path)(error.into()))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }
}
