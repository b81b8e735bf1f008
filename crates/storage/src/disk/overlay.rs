//! Copy-on-write overlay over a disk: all changes stay in memory.
//!
//! Opens a shard while the disk is full. Reads go to the disk below. The writes of a shard open (segments of the WAL's
//! events, a truncated tail, a new generation) go to memory, up to a limit. The disk below never changes, so dropping
//! the overlay leaves every file unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use super::{AppendFile, DirEntry, Disk, RandomFile};

/// Overlay over another disk. Dropping it discards all its changes.
#[derive(Debug, Clone)]
pub struct OverlayDisk {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    below: Arc<dyn Disk>,
    budget: Arc<OverlayBudget>,
    changes: Mutex<Changes>,
}

/// Memory limit shared by all overlays of a node.
#[derive(Debug)]
pub struct OverlayBudget {
    bytes_max: usize,
    bytes: Mutex<usize>,
}

impl OverlayBudget {
    /// Creates a budget of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            bytes: Mutex::new(0),
        })
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let mut taken = self.bytes.lock();
        if *taken + bytes > self.bytes_max {
            let reason = format!(
                "no space left on the disk, and the memory for unwritten changes is limited to {} bytes",
                self.bytes_max
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
        }
        *taken += bytes;
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let mut taken = self.bytes.lock();
        *taken = taken.saturating_sub(bytes);
    }
}

#[derive(Debug, Default)]
struct Changes {
    /// Files whose changed bytes are in memory.
    files: BTreeMap<PathBuf, Changed>,
    dirs: BTreeSet<PathBuf>,
    /// Removed files and directories of the disk below; a directory masks everything in it.
    removed: BTreeSet<PathBuf>,
    bytes: usize,
}

/// File of the overlay: a prefix of `below` bytes from the disk below, then a tail in memory.
#[derive(Debug, Default)]
struct Changed {
    below: u64,
    tail: Tail,
}

#[derive(Debug)]
enum Tail {
    Growing(BytesMut),
    /// Read as a whole; copied if it grows again.
    Whole(Bytes),
}

impl Default for Tail {
    fn default() -> Self {
        Self::Growing(BytesMut::new())
    }
}

impl Tail {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Growing(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }

    fn growing(&mut self) -> &mut BytesMut {
        if let Self::Whole(bytes) = self {
            *self = Self::Growing(BytesMut::from(&bytes[..]));
        }
        match self {
            Self::Growing(bytes) => bytes,
            Self::Whole(_) => unreachable!("the line above made it growing"),
        }
    }

    fn whole(&mut self) -> Bytes {
        if let Self::Growing(bytes) = self {
            *self = Self::Whole(std::mem::take(bytes).freeze());
        }
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Growing(_) => unreachable!("the line above made it whole"),
        }
    }
}

impl Changed {
    fn len(&self) -> u64 {
        self.below + self.tail.bytes().len() as u64
    }
}

impl Changes {
    /// Returns whether the disk below is hidden for a path.
    fn masks(&self, path: &Path) -> bool {
        path.ancestors().any(|ancestor| self.removed.contains(ancestor))
    }
}

impl Shared {
    fn not_found(path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, format!("cannot find [{}]", path.display()))
    }

    /// Returns the in-memory entry of an existing file, and creates it if needed.
    fn changed<'a>(&self, changes: &'a mut Changes, path: &Path) -> io::Result<&'a mut Changed> {
        if !changes.files.contains_key(path) {
            if changes.masks(path) {
                return Err(Self::not_found(path));
            }
            let below = self.below.len(path)?;
            let changed = Changed {
                below,
                tail: Tail::default(),
            };
            changes.files.insert(path.to_owned(), changed);
        }
        changes.files.get_mut(path).ok_or_else(|| Self::not_found(path))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<u64> {
        let mut changes = self.changes.lock();
        self.changed(&mut changes, path)?;
        self.budget.take(bytes.len())?;
        changes.bytes += bytes.len();
        let changed = self.changed(&mut changes, path)?;
        changed.tail.growing().extend_from_slice(bytes);
        Ok(changed.len())
    }

    fn forget(&self, changes: &mut Changes, path: &Path) {
        if let Some(changed) = changes.files.remove(path) {
            let bytes = changed.tail.bytes().len();
            changes.bytes -= bytes;
            self.budget.give_back(bytes);
        }
    }

    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes> {
        let changes = self.changes.lock();
        let Some(changed) = changes.files.get(path) else {
            if changes.masks(path) {
                return Err(Self::not_found(path));
            }
            drop(changes);
            return self.below.read_range(path, range);
        };
        let end = range.end.min(changed.len());
        let start = range.start.min(end);
        let mut bytes = BytesMut::with_capacity((end - start) as usize);
        if start < changed.below {
            bytes.extend_from_slice(&self.below.read_range(path, start..end.min(changed.below))?);
        }
        if end > changed.below {
            let from = start.saturating_sub(changed.below) as usize;
            bytes.extend_from_slice(&changed.tail.bytes()[from..(end - changed.below) as usize]);
        }
        Ok(bytes.freeze())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.budget.give_back(self.changes.get_mut().bytes);
    }
}

impl OverlayDisk {
    /// Creates an overlay over `below`. Its memory counts against `budget` until the overlay is dropped.
    pub fn new(below: Arc<dyn Disk>, budget: Arc<OverlayBudget>) -> Self {
        Self {
            shared: Arc::new(Shared {
                below,
                budget,
                changes: Mutex::default(),
            }),
        }
    }
}

#[derive(Debug)]
struct OverlayFile {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl AppendFile for OverlayFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.append(&self.path, bytes).map(|_| ())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        let changes = self.shared.changes.lock();
        changes.files.get(&self.path).map_or(0, Changed::len)
    }
}

impl Disk for OverlayDisk {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        if self.exists(path)? {
            let reason = format!("cannot create [{}]: it exists", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        let mut changes = self.shared.changes.lock();
        changes.files.insert(path.to_owned(), Changed::default());
        Ok(Box::new(OverlayFile {
            shared: Arc::clone(&self.shared),
            path: path.to_owned(),
        }))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.shared.changed(&mut self.shared.changes.lock(), path)?;
        Ok(Box::new(OverlayFile {
            shared: Arc::clone(&self.shared),
            path: path.to_owned(),
        }))
    }

    /// Always fails: a shard writes no file in place.
    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>> {
        let reason = format!(
            "cannot open [{}]: an overlay has no files that are written in place",
            path.display()
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    fn set_len(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut changes = self.shared.changes.lock();
        let changed = self.shared.changed(&mut changes, path)?;
        let longer = len.saturating_sub(changed.len()) as usize;
        if longer > 0 {
            drop(changes);
            return self.shared.append(path, &vec![0; longer]).map(|_| ());
        }
        let tail = len.saturating_sub(changed.below) as usize;
        let cut = changed.tail.bytes().len() - tail;
        changed.below = changed.below.min(len);
        changed.tail.growing().truncate(tail);
        changes.bytes -= cut;
        self.shared.budget.give_back(cut);
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Bytes> {
        if !self.shared.changes.lock().files.contains_key(path) && !self.shared.changes.lock().masks(path) {
            return self.shared.below.read(path);
        }
        self.read_range(path, 0..u64::MAX)
    }

    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes> {
        self.shared.read_range(path, range)
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        let mut changes = self.shared.changes.lock();
        let masks = changes.masks(path);
        match changes.files.get_mut(path) {
            Some(changed) if changed.below == 0 => return Ok(changed.tail.whole()),
            Some(_) => {}
            None if masks => return Err(Shared::not_found(path)),
            None => {
                drop(changes);
                return self.shared.below.map(path);
            }
        }
        drop(changes);
        self.read_range(path, 0..u64::MAX)
    }

    fn maps_max(&self) -> u64 {
        self.shared.below.maps_max()
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.shared.budget.take(bytes.len())?;
        let mut changes = self.shared.changes.lock();
        self.shared.forget(&mut changes, path);
        changes.bytes += bytes.len();
        let written = Changed {
            below: 0,
            tail: Tail::Whole(Bytes::copy_from_slice(bytes)),
        };
        changes.files.insert(path.to_owned(), written);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = self.read(from)?;
        self.write_atomic(to, &bytes)?;
        self.remove_file(from)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(Shared::not_found(path));
        }
        let mut changes = self.shared.changes.lock();
        self.shared.forget(&mut changes, path);
        changes.removed.insert(path.to_owned());
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(Shared::not_found(path));
        }
        let mut changes = self.shared.changes.lock();
        let inside = changes.files.keys().filter(|file| file.starts_with(path));
        for file in inside.cloned().collect::<Vec<_>>() {
            self.shared.forget(&mut changes, &file);
        }
        changes.dirs.retain(|dir| !dir.starts_with(path));
        changes.removed.insert(path.to_owned());
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut changes = self.shared.changes.lock();
        changes.dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let changes = self.shared.changes.lock();
        let mut entries: BTreeMap<String, DirEntry> = BTreeMap::new();
        if !changes.masks(dir) {
            match self.shared.below.list(dir) {
                Ok(below) => entries.extend(
                    below
                        .into_iter()
                        .filter(|entry| !changes.removed.contains(&dir.join(&entry.name)))
                        .map(|entry| (entry.name.clone(), entry)),
                ),
                Err(error) if error.kind() == io::ErrorKind::NotFound && changes.dirs.contains(dir) => {}
                Err(error) => return Err(error),
            }
        } else if !changes.dirs.contains(dir) {
            return Err(Shared::not_found(dir));
        }
        let files = changes.files.iter().map(|(path, changed)| (path, false, changed.len()));
        let dirs = changes.dirs.iter().map(|path| (path, true, 0));
        for (path, is_dir, len) in files.chain(dirs).filter(|(path, ..)| path.parent() == Some(dir)) {
            if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
                let name = name.to_owned();
                entries.insert(name.clone(), DirEntry { name, is_dir, len });
            }
        }
        Ok(entries.into_values().collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let changes = self.shared.changes.lock();
        if changes.files.contains_key(path) || changes.dirs.contains(path) {
            return Ok(true);
        }
        match changes.masks(path) {
            true => Ok(false),
            false => self.shared.below.exists(path),
        }
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let changes = self.shared.changes.lock();
        match changes.files.get(path) {
            Some(changed) => Ok(changed.len()),
            None if changes.masks(path) => Err(Shared::not_found(path)),
            None => self.shared.below.len(path),
        }
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rewrite_and_sync(&self, _: &Path, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        self.shared.below.available_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.shared.below.total_bytes(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    fn over(bytes_max: usize) -> (SimDisk, OverlayDisk, Arc<OverlayBudget>) {
        let below = SimDisk::new();
        below.create_dir_all(Path::new("/d")).unwrap();
        below.write_atomic(Path::new("/d/old"), b"0123456789").unwrap();
        below.create_dir_all(Path::new("/d/sub")).unwrap();
        below.write_atomic(Path::new("/d/sub/file"), b"x").unwrap();
        let budget = OverlayBudget::new(bytes_max);
        let disk = OverlayDisk::new(Arc::new(below.clone()), Arc::clone(&budget));
        (below, disk, budget)
    }

    fn names(disk: &dyn Disk, dir: &str) -> Vec<String> {
        let entries = disk.list(Path::new(dir)).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn changes_are_read_back_and_the_disk_below_stays_as_it_was() {
        let (below, disk, budget) = over(1000);
        let old = Path::new("/d/old");
        disk.set_len(old, 4).unwrap();
        let file = disk.open_append(old).unwrap();
        file.append(b"abcd").unwrap();
        assert_eq!(file.len(), 8);
        assert_eq!(disk.read(old).unwrap(), "0123abcd");
        assert_eq!(disk.read_range(old, 2..6).unwrap(), "23ab");
        assert_eq!(disk.read_range(old, 6..100).unwrap(), "cd");
        assert_eq!(disk.map(old).unwrap(), "0123abcd");
        disk.set_len(old, 6).unwrap();
        assert_eq!(disk.read(old).unwrap(), "0123ab");
        disk.set_len(old, 2).unwrap();
        assert_eq!((disk.read(old).unwrap(), disk.len(old).unwrap()), ("01".into(), 2));
        disk.set_len(old, 3).unwrap();
        assert_eq!(disk.read(old).unwrap(), "01\0");
        drop(file);

        let new = Path::new("/d/new");
        let file = disk.create_append(new).unwrap();
        file.append(b"ne").unwrap();
        assert_eq!(disk.map(new).unwrap(), "ne");
        file.append(b"w").unwrap();
        assert_eq!(disk.map(new).unwrap(), "new");
        assert_eq!(
            disk.create_append(old).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(names(&disk, "/d"), ["new", "old", "sub"]);
        disk.write_atomic(Path::new("/d/whole"), b"whole").unwrap();
        disk.rename(Path::new("/d/whole"), Path::new("/d/renamed")).unwrap();
        assert_eq!(names(&disk, "/d"), ["new", "old", "renamed", "sub"]);
        assert_eq!(disk.read(Path::new("/d/renamed")).unwrap(), "whole");

        assert_eq!(names(&below, "/d"), ["old", "sub"]);
        assert_eq!(below.read(old).unwrap(), "0123456789");
        drop((file, disk));
        assert_eq!(*budget.bytes.lock(), 0, "all memory is given back");
    }

    #[test]
    fn what_was_removed_is_gone_until_it_is_made_again() {
        let (below, disk, _) = over(1000);
        disk.remove_dir_all(Path::new("/d/sub")).unwrap();
        assert!(!disk.exists(Path::new("/d/sub/file")).unwrap());
        assert_eq!(
            disk.list(Path::new("/d/sub")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            disk.len(Path::new("/d/sub/file")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(names(&disk, "/d"), ["old"]);
        disk.create_dir_all(Path::new("/d/sub")).unwrap();
        assert!(disk.list(Path::new("/d/sub")).unwrap().is_empty());
        disk.create_append(Path::new("/d/sub/file"))
            .unwrap()
            .append(b"y")
            .unwrap();
        assert_eq!(disk.read(Path::new("/d/sub/file")).unwrap(), "y");
        disk.remove_file(Path::new("/d/old")).unwrap();
        assert_eq!(
            disk.read(Path::new("/d/old")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(names(&disk, "/d"), ["sub"]);
        assert_eq!(below.read(Path::new("/d/sub/file")).unwrap(), "x");
    }

    #[test]
    fn memory_is_bounded_over_all_overlays_and_given_back() {
        let (below, disk, budget) = over(10);
        let other = OverlayDisk::new(Arc::new(below), Arc::clone(&budget));
        let file = disk.create_append(Path::new("/d/new")).unwrap();
        file.append(b"12345678").unwrap();
        let refused = other.write_atomic(Path::new("/d/more"), b"123").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        disk.remove_file(Path::new("/d/new")).unwrap();
        other.write_atomic(Path::new("/d/more"), b"123").unwrap();
        drop(other);
        disk.write_atomic(Path::new("/d/all"), b"1234567890").unwrap();
    }
}
