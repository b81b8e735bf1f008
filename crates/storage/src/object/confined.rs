//! A folder whose files are reached without following symbolic links.
//!
//! Whoever may write into a folder of repositories could otherwise let firn read or replace any file of the machine. Each part of a
//! path is opened below the folder before it (`openat` with `O_NOFOLLOW`), so that nothing can be exchanged between a check and
//! its use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

/// Where a folder lies.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Trusted, links in its path are followed: what an operator wrote into the settings.
    pub(super) root: PathBuf,
    /// The path below it, of plain names.
    pub(super) below: PathBuf,
    /// The mode bits that new files and folders have not.
    pub(super) umask: u32,
}

/// An open folder.
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
    /// The folder itself, with the folders that lie on the way if `is_made`.
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
            // `below` has none: it was made of names.
            _ => Some(Err(Errno::INVAL)),
        });
        names.into_iter().try_fold(folder, |folder, name| match is_made {
            true => folder.made(name?),
            false => folder.folder(name?),
        })
    }
}

impl Folder {
    /// A folder in it.
    pub(super) fn folder(&self, name: &str) -> io::Result<Self> {
        let opened = rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty());
        let fd = opened.map_err(|errno| self.told(name, errno))?;
        Ok(Self { fd, umask: self.umask })
    }

    /// A folder in it, which is made, and durable, if it is missing.
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

    /// The folder that a path of names leads to.
    pub(super) fn descend<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        names
            .into_iter()
            .try_fold(self.again()?, |folder, name| folder.folder(name))
    }

    /// The same; what is missing is made.
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

    /// A new file in it, to read and write; `AlreadyExists` if there is one.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, self.mode(0o666))?;
        let_in(&fd, self.mode(0o666))?;
        Ok(fd.into())
    }

    /// A file in it to be locked, made if it is missing.
    pub(super) fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, name, flags, self.mode(0o666));
        Ok(opened.map_err(|errno| self.told(name, errno))?.into())
    }

    /// A file in it that is there, to read or to write.
    pub(super) fn open(&self, name: &str, is_written: bool) -> io::Result<File> {
        let access = if is_written { OFlags::WRONLY } else { OFlags::RDONLY };
        // Nobody waits for whoever holds the other end of a pipe.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        Ok(opened.map_err(|errno| self.told(name, errno))?.into())
    }

    /// Gives a file of `from` a name here, in place of the file that has it.
    pub(super) fn rename(&self, from: &Self, old: &str, name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&from.fd, old, &self.fd, name)?)
    }

    /// Gives a file of `from` a further name here; `AlreadyExists` if the name is taken.
    pub(super) fn link(&self, from: &Self, old: &str, name: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&from.fd, old, &self.fd, name, AtFlags::empty())?)
    }

    /// Removes a file's name; of a symbolic link the link.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes a folder that is empty; whether it was.
    pub(super) fn remove_empty(&self, name: &str) -> bool {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR).is_ok()
    }

    /// The names in it with what they are; neither links nor names that are not UTF-8.
    pub(super) fn entries(&self) -> io::Result<Vec<(String, Stat)>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            // What is deleted meanwhile is not there.
            let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if is_folder(&stat) || is_file(&stat) {
                found.push((name.to_owned(), stat));
            }
        }
        Ok(found)
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn mode(&self, most: u32) -> Mode {
        Mode::from_raw_mode((most & !self.umask) as RawMode)
    }

    /// Why a name could not be opened: the system's words for a link do not tell that it is one.
    fn told(&self, name: &str, errno: Errno) -> io::Error {
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

/// The modes of firn's own files are narrow; a repository's may be for other machines and people too. Where a file system has no
/// modes, or none that may be set, the file is as it is.
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

/// What an open file is.
pub(super) fn stat_of(file: &File) -> io::Result<Stat> {
    Ok(rustix::fs::fstat(file)?)
}

/// The path of `folder` below `root`; `None`: it does not lie there, or not by plain names.
pub(super) fn below<'a>(root: &Path, folder: &'a Path) -> Option<&'a Path> {
    let rest = folder.strip_prefix(root).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then_some(rest)
}
