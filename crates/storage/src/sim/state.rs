//! State of the simulated disk, written and durable, and its transition on a power loss.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use super::{Failure, Operation};
use crate::disk::DirEntry;

pub(super) type InodeId = u64;

const ROOT: InodeId = 0;

/// Unit that a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;

/// Unit of the kernel's page cache. After a sync, successful or failed, the kernel considers a page clean.
const PAGE_BYTES: usize = 4096;

#[derive(Debug, Clone)]
enum Inode {
    File(FileInode),
    Dir(DirInode),
}

#[derive(Debug, Clone, Default)]
struct FileInode {
    /// Content that reads return.
    written: Vec<u8>,
    /// Content that certainly survives a power loss, except where it was overwritten since.
    durable: Vec<u8>,
    /// Ranges of `written` that a failed sync covered; no later sync makes them durable.
    lost: Vec<Range<usize>>,
    /// Lengths set since the last sync of a file written in place. A file system changes a length atomically, so after
    /// a power loss the length is one of these, the durable one, or the last one.
    set_lens: Option<Vec<usize>>,
    /// No name points to this file, but a power loss may restore one.
    is_removed: bool,
}

impl FileInode {
    /// Returns the pages that differ from the durable content.
    fn dirty(&self) -> Vec<Range<usize>> {
        let page = |bytes: &[u8], start: usize| -> Range<usize> {
            start.min(bytes.len())..(start + PAGE_BYTES).min(bytes.len())
        };
        let starts = (0..self.written.len()).step_by(PAGE_BYTES);
        let changed = starts.filter(|&start| {
            let (written, durable) = (page(&self.written, start), page(&self.durable, start));
            self.written[written] != self.durable[durable]
        });
        changed.map(|start| page(&self.written, start)).collect()
    }

    /// Removes a range from `lost`, so that the next sync makes it durable.
    fn find_again(&mut self, range: Range<usize>) {
        let lost = std::mem::take(&mut self.lost);
        for lost in lost {
            let before = lost.start..lost.end.min(range.start);
            let after = lost.start.max(range.end)..lost.end;
            self.lost
                .extend([before, after].into_iter().filter(|part| !part.is_empty()));
        }
    }
}

#[derive(Debug, Clone, Default)]
struct DirInode {
    written: BTreeMap<String, InodeId>,
    durable: BTreeMap<String, InodeId>,
}

/// Name change that is not durable yet.
#[derive(Debug, Clone)]
enum NameChange {
    Link {
        dir: InodeId,
        name: String,
        inode: InodeId,
    },
    Unlink {
        dir: InodeId,
        name: String,
    },
    Move {
        from: (InodeId, String),
        to: (InodeId, String),
        inode: InodeId,
    },
}

impl NameChange {
    fn dirs(&self) -> (InodeId, InodeId) {
        match self {
            Self::Link { dir, .. } | Self::Unlink { dir, .. } => (*dir, *dir),
            Self::Move { from, to, .. } => (from.0, to.0),
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    inodes: HashMap<InodeId, Inode>,
    next_inode: InodeId,
    /// Pending changes in the order in which they were made.
    pending: Vec<NameChange>,
    /// Files that are open for writes in place.
    pub(super) open_random: BTreeSet<InodeId>,
    pub(super) failure: Option<Failure>,
    pub(super) capacity: u64,
    pub(super) operation_count: u64,
    pub(super) sync_count: u64,
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("no such file or directory [{}]", path.display()),
    )
}

fn invalid(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("[{}] {what}", path.display()))
}

/// Returns the normal components of a path; the root, `.` and a prefix are skipped.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or_else(|| invalid(path, "is not UTF-8"))?),
            Component::ParentDir => return Err(invalid(path, "has a parent component")),
            _ => {}
        }
    }
    Ok(names)
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            inodes: HashMap::from([(ROOT, Inode::Dir(DirInode::default()))]),
            next_inode: ROOT + 1,
            pending: Vec::new(),
            open_random: BTreeSet::new(),
            failure: None,
            capacity: u64::MAX,
            operation_count: 0,
            sync_count: 0,
        }
    }

    pub(super) fn planned_failure(&mut self, operation: Operation) -> Option<io::Error> {
        let failure = self.failure.as_mut()?;
        if failure.only.is_some_and(|only| only != operation) {
            return None;
        }
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        let error = io::Error::new(failure.kind, format!("planned failure of {operation:?}"));
        if !failure.lasting {
            self.failure = None;
        }
        Some(error)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let files = self.inodes.values().map(|inode| match inode {
            Inode::File(file) if !file.is_removed => file.written.len() as u64,
            _ => 0,
        });
        files.sum()
    }

    fn dir(&self, inode: InodeId) -> Option<&DirInode> {
        match self.inodes.get(&inode) {
            Some(Inode::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    fn dir_mut(&mut self, inode: InodeId) -> Option<&mut DirInode> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    fn file_mut(&mut self, inode: InodeId) -> io::Result<&mut FileInode> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::File(file)) => Ok(file),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "not a file of this disk")),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<InodeId> {
        let mut inode = ROOT;
        for name in names(path)? {
            let dir = self.dir(inode).ok_or_else(|| not_found(path))?;
            inode = *dir.written.get(name).ok_or_else(|| not_found(path))?;
        }
        Ok(inode)
    }

    pub(super) fn find_file(&self, path: &Path) -> io::Result<InodeId> {
        let inode = self.find(path)?;
        match self.inodes.get(&inode) {
            Some(Inode::File(_)) => Ok(inode),
            _ => Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                format!("[{}] is a directory", path.display()),
            )),
        }
    }

    /// Returns the parent directory of `path`, and its name there; the name itself need not exist.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(InodeId, &'a str)> {
        let mut all = names(path)?;
        let name = all.pop().ok_or_else(|| invalid(path, "is the root"))?;
        let mut inode = ROOT;
        for name in all {
            let dir = self.dir(inode).ok_or_else(|| not_found(path))?;
            inode = *dir.written.get(name).ok_or_else(|| not_found(path))?;
        }
        self.dir(inode).ok_or_else(|| not_found(path))?;
        Ok((inode, name))
    }

    /// Applies a name change for readers now, and durably once its directory is synced.
    fn change(&mut self, change: NameChange) {
        self.apply(&change, false);
        self.pending.push(change);
    }

    fn apply(&mut self, change: &NameChange, durable: bool) {
        let mut edit = |dir: InodeId, name: &str, inode: Option<InodeId>| {
            let Some(dir) = self.dir_mut(dir) else { return };
            let entries = if durable { &mut dir.durable } else { &mut dir.written };
            match inode {
                Some(inode) => entries.insert(name.to_owned(), inode),
                None => entries.remove(name),
            };
        };
        match change {
            NameChange::Link { dir, name, inode } => edit(*dir, name, Some(*inode)),
            NameChange::Unlink { dir, name } => edit(*dir, name, None),
            NameChange::Move { from, to, inode } => {
                edit(from.0, &from.1, None);
                edit(to.0, &to.1, Some(*inode));
            }
        }
    }

    fn create(&mut self, dir: InodeId, name: &str, inode: Inode) -> InodeId {
        let id = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(id, inode);
        self.change(NameChange::Link {
            dir,
            name: name.to_owned(),
            inode: id,
        });
        id
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<InodeId> {
        let (dir, name) = self.place(path)?;
        if self.dir(dir).is_some_and(|dir| dir.written.contains_key(name)) {
            let reason = format!("[{}] exists already", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        Ok(self.create(dir, name, Inode::File(FileInode::default())))
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut inode = ROOT;
        for name in names(path)? {
            let dir = self.dir(inode).ok_or_else(|| invalid(path, "goes through a file"))?;
            inode = match dir.written.get(name) {
                Some(inode) => *inode,
                None => self.create(inode, name, Inode::Dir(DirInode::default())),
            };
        }
        match self.dir(inode) {
            Some(_) => Ok(()),
            None => Err(invalid(path, "is a file")),
        }
    }

    pub(super) fn append(&mut self, inode: InodeId, bytes: &[u8], failure: Option<io::Error>) -> io::Result<()> {
        let free = self.capacity.saturating_sub(self.used_bytes());
        let file = self.file_mut(inode)?;
        if let Some(error) = failure {
            // Half of the bytes are written, as in a real write that stops half-way.
            file.written.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(error);
        }
        if bytes.len() as u64 > free {
            file.written.extend_from_slice(&bytes[..free as usize]);
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "no space left on the simulated disk",
            ));
        }
        file.written.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn sync_file(&mut self, inode: InodeId, failure: Option<io::Error>) -> io::Result<()> {
        let file = self.file_mut(inode)?;
        if let Some(error) = failure {
            let dirty = file.dirty();
            file.lost.extend(dirty);
            return Err(error);
        }
        let before = match file.lost.is_empty() {
            true => Vec::new(),
            false => file.durable.clone(),
        };
        file.durable.clone_from(&file.written);
        if let Some(set_lens) = &mut file.set_lens {
            set_lens.clear();
        }
        for lost in &file.lost {
            for position in lost.start..lost.end.min(file.durable.len()) {
                file.durable[position] = before.get(position).copied().unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Marks a file as written in place. Returns false if it is already open that way.
    pub(super) fn begin_random(&mut self, inode: InodeId) -> io::Result<bool> {
        self.file_mut(inode)?.set_lens.get_or_insert_default();
        Ok(self.open_random.insert(inode))
    }

    pub(super) fn read_at(&self, inode: InodeId, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(Inode::File(file)) = self.inodes.get(&inode) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "not a file of this disk"));
        };
        let start = (offset as usize).min(file.written.len());
        let count = bytes.len().min(file.written.len() - start);
        bytes[..count].copy_from_slice(&file.written[start..start + count]);
        Ok(count)
    }

    pub(super) fn write_at(
        &mut self,
        inode: InodeId,
        bytes: &[u8],
        offset: u64,
        failure: Option<io::Error>,
    ) -> io::Result<()> {
        let free = self.capacity.saturating_sub(self.used_bytes());
        let file = self.file_mut(inode)?;
        let start = offset as usize;
        let room = file
            .written
            .len()
            .saturating_add(usize::try_from(free).unwrap_or(usize::MAX));
        let (count, outcome) = match failure {
            // Half of the bytes are written, as in a real write that stops half-way.
            Some(error) => (bytes.len() / 2, Err(error)),
            None if start + bytes.len() > room => {
                let full = io::Error::new(io::ErrorKind::StorageFull, "no space left on the simulated disk");
                (room.saturating_sub(start), Err(full))
            }
            None => (bytes.len(), Ok(())),
        };
        if count > 0 {
            let end = start + count;
            if file.written.len() < end {
                file.written.resize(end, 0);
            }
            file.written[start..end].copy_from_slice(&bytes[..count]);
            // A write makes the page dirty again, so the next sync covers bytes that a failed sync lost.
            file.find_again(start / PAGE_BYTES * PAGE_BYTES..end.next_multiple_of(PAGE_BYTES));
        }
        outcome
    }

    /// Rewrites the same bytes, so that the next sync covers bytes that a failed sync lost.
    pub(super) fn rewrite(&mut self, path: &Path, from: u64) -> io::Result<()> {
        let inode = self.find_file(path)?;
        let file = self.file_mut(inode)?;
        for lost in &mut file.lost {
            lost.end = lost.end.min(from as usize);
        }
        file.lost.retain(|lost| lost.start < lost.end);
        Ok(())
    }

    pub(super) fn set_len(&mut self, path: &Path, len: u64) -> io::Result<()> {
        let inode = self.find_file(path)?;
        self.set_file_len(inode, len)
    }

    pub(super) fn set_file_len(&mut self, inode: InodeId, len: u64) -> io::Result<()> {
        let free = self.capacity.saturating_sub(self.used_bytes());
        let file = self.file_mut(inode)?;
        if len.saturating_sub(file.written.len() as u64) > free {
            let reason = "no space left on the simulated disk";
            return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
        }
        let len = len as usize;
        if let Some(set_lens) = &mut file.set_lens {
            set_lens.push(len);
        }
        file.written.resize(len, 0);
        for lost in &mut file.lost {
            lost.end = lost.end.min(len);
        }
        file.lost.retain(|lost| lost.start < lost.end);
        Ok(())
    }

    pub(super) fn file_len(&self, inode: InodeId) -> u64 {
        match self.inodes.get(&inode) {
            Some(Inode::File(file)) => file.written.len() as u64,
            _ => 0,
        }
    }

    pub(super) fn read(&self, path: &Path, range: Range<u64>) -> io::Result<Vec<u8>> {
        let inode = self.find_file(path)?;
        let Some(Inode::File(file)) = self.inodes.get(&inode) else {
            return Err(not_found(path));
        };
        let end = range.end.min(file.written.len() as u64) as usize;
        let start = (range.start as usize).min(end);
        Ok(file.written[start..end].to_vec())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        if let Ok(target) = self.find(to)
            && let Some(dir) = self.dir(target)
            && !dir.written.is_empty()
        {
            let reason = format!("[{}] is not empty", to.display());
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, reason));
        }
        let from = (from_dir, from_name.to_owned());
        let to = (to_dir, to_name.to_owned());
        if from != to {
            self.change(NameChange::Move { from, to, inode });
            self.forget_unreachable();
        }
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.find_file(path)?;
        let (dir, name) = self.place(path)?;
        self.change(NameChange::Unlink {
            dir,
            name: name.to_owned(),
        });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        let (dir, name) = self.place(path)?;
        self.unlink_children(inode);
        self.change(NameChange::Unlink {
            dir,
            name: name.to_owned(),
        });
        self.forget_unreachable();
        Ok(())
    }

    fn unlink_children(&mut self, inode: InodeId) {
        let Some(dir) = self.dir(inode) else { return };
        for (name, child) in dir.written.clone() {
            self.unlink_children(child);
            self.change(NameChange::Unlink { dir: inode, name });
        }
    }

    /// Frees the space of removed files. Their bytes stay, because a crash may restore their names.
    fn forget_unreachable(&mut self) {
        let mut reachable = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(inode) = todo.pop() {
            if reachable.insert(inode)
                && let Some(dir) = self.dir(inode)
            {
                todo.extend(dir.written.values());
            }
        }
        for (id, inode) in &mut self.inodes {
            if let Inode::File(file) = inode {
                file.is_removed = !reachable.contains(id);
            }
        }
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self
            .dir(self.find(path)?)
            .ok_or_else(|| invalid(path, "is not a directory"))?;
        let entries = dir.written.iter().map(|(name, inode)| DirEntry {
            name: name.clone(),
            is_dir: self.dir(*inode).is_some(),
            len: self.file_len(*inode),
        });
        Ok(entries.collect())
    }

    /// Returns the sorted paths of non-empty files that are durable, or not durable if `unsynced`.
    pub(super) fn files(&self, unsynced: bool) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut todo = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = todo.pop() {
            match self.inodes.get(&inode) {
                Some(Inode::Dir(dir)) => {
                    todo.extend(dir.written.iter().map(|(name, inode)| (path.join(name), *inode)));
                }
                Some(Inode::File(file)) if !file.written.is_empty() && (file.written == file.durable) != unsynced => {
                    files.push(path);
                }
                _ => {}
            }
        }
        files.sort();
        files
    }

    /// Makes a directory's names durable, and those of directories that pending renames connect with it.
    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        self.dir(inode).ok_or_else(|| invalid(path, "is not a directory"))?;
        let mut dirs = BTreeSet::from([inode]);
        loop {
            let before = dirs.len();
            for change in &self.pending {
                let (from, to) = change.dirs();
                if dirs.contains(&from) || dirs.contains(&to) {
                    dirs.extend([from, to]);
                }
            }
            if dirs.len() == before {
                break;
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if dirs.contains(&change.dirs().0) {
                self.apply(&change, true);
            } else {
                self.pending.push(change);
            }
        }
        Ok(())
    }

    pub(super) fn damage(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let inode = self.find_file(path)?;
        let file = self.file_mut(inode)?;
        change(&mut file.written);
        file.durable.clone_from(&file.written);
        Ok(())
    }

    pub(super) fn crash(&self, random: &mut fastrand::Rng) -> State {
        let mut state = State {
            inodes: self.inodes.clone(),
            next_inode: self.next_inode,
            pending: Vec::new(),
            open_random: BTreeSet::new(),
            failure: None,
            capacity: self.capacity,
            operation_count: 0,
            sync_count: 0,
        };
        // A journal preserves the order of name changes; POSIX does not promise it. This tries both, and the extremes.
        let mode = random.u8(0..4);
        let prefix = random.usize(0..=self.pending.len());
        for (position, change) in self.pending.iter().enumerate() {
            let survives = match mode {
                0 => false,
                1 => true,
                2 => position < prefix,
                _ => random.bool(),
            };
            if survives {
                state.apply(change, true);
            }
        }
        // Sorted, so that the same seed gives the same disk.
        let mut ids: Vec<InodeId> = state.inodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            match state.inodes.get_mut(&id) {
                Some(Inode::Dir(dir)) => dir.written = dir.durable.clone(),
                Some(Inode::File(file)) => {
                    let survived = survivor(file, random);
                    *file = FileInode {
                        written: survived.clone(),
                        durable: survived,
                        lost: Vec::new(),
                        set_lens: None,
                        is_removed: false,
                    };
                }
                None => {}
            }
        }
        state.forget_unreachable();
        // No crash can restore the name of a removed file any more.
        state
            .inodes
            .retain(|_, inode| !matches!(inode, Inode::File(file) if file.is_removed));
        state
    }

    pub(super) fn kill(&self) -> State {
        State {
            inodes: self.inodes.clone(),
            next_inode: self.next_inode,
            pending: self.pending.clone(),
            open_random: BTreeSet::new(),
            failure: None,
            capacity: self.capacity,
            operation_count: 0,
            sync_count: 0,
        }
    }
}

/// Returns a file's content after a power loss: its length and each sector are old or new.
fn survivor(file: &FileInode, random: &mut fastrand::Rng) -> Vec<u8> {
    let (written, durable) = (&file.written, &file.durable);
    let (shorter, longer) = (written.len().min(durable.len()), written.len().max(durable.len()));
    let len = match (random.u8(0..4), &file.set_lens) {
        (0, _) => durable.len(),
        (1, _) => written.len(),
        (_, Some(set_lens)) => random.choice(set_lens).copied().unwrap_or(written.len()),
        (_, None) => random.usize(shorter..=longer),
    };
    // All sectors new, all old, or chosen per sector.
    let mode = random.u8(0..4);
    let mut bytes = Vec::with_capacity(len);
    for start in (0..len).step_by(SECTOR_BYTES) {
        let fate = match mode {
            0 => 0,
            1 => 1,
            _ => random.u8(0..8),
        };
        let end = (start + SECTOR_BYTES).min(len);
        if let (Some(old), Some(new)) = (durable.get(start..end), written.get(start..end))
            && old == new
        {
            bytes.extend_from_slice(old);
            continue;
        }
        for position in start..end {
            let is_lost = file.lost.iter().any(|lost| lost.contains(&position));
            let old = durable.get(position).copied();
            let new = written.get(position).copied().filter(|_| !is_lost);
            bytes.push(match (old, new) {
                (Some(old), Some(new)) if old == new => old,
                _ if fate == 7 => match old {
                    // Durable bytes never become garbage.
                    Some(old) => old,
                    None => random.u8(..),
                },
                (old, new) if fate.is_multiple_of(2) => new.or(old).unwrap_or(0),
                (old, _) => old.unwrap_or(0),
            });
        }
    }
    bytes
}
