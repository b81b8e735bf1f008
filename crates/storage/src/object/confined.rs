//! Folder whose files are opened without following symbolic links.
//!
//! Otherwise users with write access to a repository folder could make firn read or replace any file of the machine.
//! Each part of a path is opened below the folder before it (`openat` with `O_NOFOLLOW`), so that nothing can be
//! swapped between check and use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

/// Location of a folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Trusted path from the operator's settings; links in it are followed.
    pub(super) root: PathBuf,
    /// Path below it, of plain names.
    pub(super) below: PathBuf,
    /// Mode bits that new files and folders do not get.
    pub(super) umask: u32,
}

/// Open folder.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    umask: u32,
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Place {
    /// Opens the folder. If `is_made`, creates it and missing folders on the path.
    pub(super) fn open(&self, is_made: bool) -> io::Result<Folder> {
        let is_new = is_made && !self.root.exists();
        if is_new {
            std::fs::create_dir_all(&self.root)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Folder {
            fd: rustix::fs::openat(CWD, &self.root, flags, Mode::empty())?,
            umask: self.umask,
        };
        if is_new {
            let_in(&folder.fd, folder.mode(0o777))?;
        }
        let names = self.below.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_str().ok_or(Errno::ILSEQ)),
            Component::CurDir => None,
            // `below` consists of plain names, so this does not occur.
            _ => Some(Err(Errno::INVAL)),
        });
        names.into_iter().try_fold(folder, |folder, name| match is_made {
            true => folder.made(name?),
            false => folder.folder(name?),
        })
    }
}

impl Folder {
    /// Opens a subfolder.
    pub(super) fn folder(&self, name: &str) -> io::Result<Self> {
        let opened = rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty());
        let fd = opened.map_err(|errno| self.open_error(name, errno))?;
        Ok(Self { fd, umask: self.umask })
    }

    /// Opens a subfolder, and creates it durably if it is missing.
    pub(super) fn made(&self, name: &str) -> io::Result<Self> {
        match self.folder(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
        match rustix::fs::mkdirat(&self.fd, name, self.mode(0o777)) {
            Err(Errno::EXIST) => self.folder(name),
            Err(errno) => Err(errno.into()),
            Ok(()) => {
                let folder = self.folder(name)?;
                let_in(&folder.fd, self.mode(0o777))?;
                self.sync()?;
                Ok(folder)
            }
        }
    }

    /// Opens the folder at a path of names.
    pub(super) fn descend<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        names
            .into_iter()
            .try_fold(self.again()?, |folder, name| folder.folder(name))
    }

    /// Like [`Folder::descend`], and creates missing folders.
    pub(super) fn make<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        names
            .into_iter()
            .try_fold(self.again()?, |folder, name| folder.made(name))
    }

    fn again(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            umask: self.umask,
        })
    }

    /// Creates a file for reading and writing. Fails with `AlreadyExists` if it exists.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, self.mode(0o666))?;
        let_in(&fd, self.mode(0o666))?;
        Ok(fd.into())
    }

    /// Opens a lock file, and creates it if it is missing.
    pub(super) fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, name, flags, self.mode(0o666));
        Ok(opened.map_err(|errno| self.open_error(name, errno))?.into())
    }

    /// Opens an existing file for reading or writing.
    pub(super) fn open(&self, name: &str, is_written: bool) -> io::Result<File> {
        let access = if is_written { OFlags::WRONLY } else { OFlags::RDONLY };
        // Does not block on a pipe whose other end is not open.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        Ok(opened.map_err(|errno| self.open_error(name, errno))?.into())
    }

    /// Renames a file of `from` to a name in this folder and replaces a file of that name.
    pub(super) fn rename(&self, from: &Self, old: &str, name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&from.fd, old, &self.fd, name)?)
    }

    /// Links a file of `from` to a new name in this folder. Fails with `AlreadyExists` if the name is taken.
    pub(super) fn link(&self, from: &Self, old: &str, name: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&from.fd, old, &self.fd, name, AtFlags::empty())?)
    }

    /// Removes a file's name; for a symbolic link, removes the link.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder and returns whether it was removed.
    pub(super) fn remove_empty(&self, name: &str) -> bool {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR).is_ok()
    }

    /// Returns the files and subfolders with their metadata. Omits links, and names that are not UTF-8.
    pub(super) fn entries(&self) -> io::Result<Vec<(String, Stat)>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            // A file that was deleted in between is skipped.
            let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if is_folder(&stat) || is_file(&stat) {
                found.push((name.to_owned(), stat));
            }
        }
        Ok(found)
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn mode(&self, most: u32) -> Mode {
        Mode::from_raw_mode((most & !self.umask) as RawMode)
    }

    /// Converts an error of an open. Names symbolic links explicitly, because the system's error does not.
    fn open_error(&self, name: &str, errno: Errno) -> io::Error {
        if matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::MLINK) {
            let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
                return io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("[{name}] is a symbolic link, which repositories do not follow"),
                );
            }
        }
        errno.into()
    }
}

/// Sets the mode of a new file, independent of the process's umask: firn's local files are private, but a repository
/// may be for other machines and users too. On a file system without modes, or without the right to set them, the mode
/// stays.
fn let_in(fd: impl AsFd, mode: Mode) -> io::Result<()> {
    match rustix::fs::fchmod(fd, mode) {
        Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub(super) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Returns the metadata of an open file.
pub(super) fn stat_of(file: &File) -> io::Result<Stat> {
    Ok(rustix::fs::fstat(file)?)
}

/// Returns the path of `folder` relative to `root`; `None` if it is elsewhere or not made of plain names.
pub(super) fn below<'a>(root: &Path, folder: &'a Path) -> Option<&'a Path> {
    let rest = folder.strip_prefix(root).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then_some(rest)
}
