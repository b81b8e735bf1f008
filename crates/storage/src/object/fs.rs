//! Object store in a folder, usually one that several machines mount.
//!
//! A file gets its name only when all its bytes are synced: it is written in `.incoming` and then linked (which fails
//! if the name is taken) or renamed. A conditional replacement holds a lock during the comparison, because file systems
//! cannot compare and rename atomically.
//!
//! Symbolic links in the folder are not followed (`confined.rs`).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::Stat;

use super::confined::{self, Folder, Place};
use super::requests::range_of;
use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};

/// Folder of files that have no name yet. Keys never start with a dot.
const INCOMING: &str = ".incoming";
/// Lock file, held while a file is compared and replaced.
const LOCK: &str = ".lock";
/// Age after which an incoming file is abandoned: the process that wrote it has ended.
const INCOMING_AGE_MAX_S: i64 = 24 * 3600;
/// Maximum attempts to recreate a folder that concurrent deletions remove during a publish.
const FOLDER_ATTEMPTS_MAX: usize = 16;

/// Store in a folder.
#[derive(Debug, Clone)]
pub struct FsObjects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    place: Place,
    is_readonly: bool,
    written: AtomicU64,
}

/// Location of a store.
#[derive(Debug, Clone)]
pub struct FsPlace(Place);

impl FsPlace {
    /// Creates a place from `folder`, which must be `root` or below it. Symbolic links are followed on the path to
    /// `root`, and nowhere below it. New files get the modes that `umask` leaves. Returns `None` if the folder is
    /// elsewhere.
    pub fn new(root: &Path, folder: &Path, umask: u32) -> Option<Self> {
        Some(Self(Place {
            root: root.to_owned(),
            below: confined::below(root, folder)?.to_owned(),
            umask,
        }))
    }
}

impl FsObjects {
    /// Opens the folder and creates it if it is missing. Removes files that interrupted writers left over a day ago.
    pub fn open(place: FsPlace) -> Result<Self, ObjectError> {
        let inner = Inner {
            place: place.0,
            is_readonly: false,
            written: AtomicU64::new(0),
        };
        let opened = inner.place.open(true).and_then(|root| root.made(INCOMING));
        opened
            .and_then(|incoming| inner.remove_left_overs(&incoming))
            .map_err(|error| fault("", "open the folder", &error))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Opens the folder and never writes to it; it may be missing. Fails if a link is on the path.
    pub fn open_readonly(place: FsPlace) -> Result<Self, ObjectError> {
        let inner = Inner {
            place: place.0,
            is_readonly: true,
            written: AtomicU64::new(0),
        };
        match inner.place.open(false) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(fault("", "open the folder", &error)),
            _ => Ok(Self { inner: Arc::new(inner) }),
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Inner, &str) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, ObjectError> {
        let (inner, owned) = (Arc::clone(&self.inner), key.to_owned());
        let done = tokio::task::spawn_blocking(move || work(&inner, &owned)).await;
        done.unwrap_or_else(|_| Err(ObjectError::new(ObjectErrorKind::Refused, key, "the process is ending")))
    }
}

/// Splits a key into folder names and file name. Accepts only plain names below the root, even if a damaged or
/// malicious manifest contains other keys.
fn names_of(key: &str) -> Result<(Vec<&str>, &str), ObjectError> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\0');
    let mut names: Vec<&str> = key.split('/').collect();
    match names.pop() {
        Some(name) if is_plain(name) && names.iter().all(|part| is_plain(part)) => Ok((names, name)),
        _ => Err(ObjectError::new(
            ObjectErrorKind::Refused,
            key,
            "the object key is invalid",
        )),
    }
}

impl Inner {
    /// Opens the root folder, for each operation again: a file system may be mounted over it, or it may be moved.
    fn root(&self) -> io::Result<Folder> {
        self.place.open(false)
    }

    fn writable(&self, key: &str) -> Result<(), ObjectError> {
        if self.is_readonly {
            return Err(ObjectError::new(
                ObjectErrorKind::Unsupported,
                key,
                "the repository is read-only",
            ));
        }
        Ok(())
    }

    /// Removes abandoned incoming files. Uses the file system's clock: the age is relative to a file created now.
    fn remove_left_overs(&self, incoming: &Folder) -> io::Result<()> {
        let (probe, name) = self.create_incoming(incoming)?;
        let now_s = confined::stat_of(&probe)?.st_mtime;
        incoming.remove(&name)?;
        for (name, stat) in incoming.entries()? {
            if now_s.saturating_sub(stat.st_mtime) > INCOMING_AGE_MAX_S {
                // Another process may remove it at the same time.
                let _ = incoming.remove(&name);
            }
        }
        Ok(())
    }

    /// Creates an incoming file that no other writer uses, in this process or another.
    fn create_incoming(&self, incoming: &Folder) -> io::Result<(File, String)> {
        loop {
            let number = self.written.fetch_add(1, Relaxed);
            let name = format!("{}-{number}", std::process::id());
            match incoming.create(&name) {
                Ok(file) => return Ok((file, name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn incoming(&self) -> io::Result<Folder> {
        self.root()?.made(INCOMING)
    }

    fn open(&self, key: &str) -> Result<(File, ObjectInfo), ObjectError> {
        let (folders, name) = names_of(key)?;
        let opened = self.root().and_then(|root| root.descend(folders)?.open(name, false));
        let file = opened.map_err(|error| fault(key, "open the file", &error))?;
        let stat = confined::stat_of(&file).map_err(|error| fault(key, "stat the file", &error))?;
        if !confined::is_file(&stat) {
            return Err(ObjectError::new(
                ObjectErrorKind::NotFound,
                key,
                "there is no such file",
            ));
        }
        Ok((file, info(key, &stat)))
    }

    fn get(&self, key: &str, want: &Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let (file, info) = self.open(key)?;
        let range = range_of(key, info.len, want)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)
            .map_err(|error| fault(key, "read the file", &error))?;
        Ok((bytes.into(), info))
    }

    /// Publishes a written file under its name. The incoming file is removed in any case.
    fn publish(
        &self,
        key: &str,
        file: &File,
        incoming: &Folder,
        written: &str,
        mode: &PutMode,
    ) -> Result<String, ObjectError> {
        let outcome = self.try_publish(key, file, incoming, written, mode);
        if outcome.is_err() || *mode == PutMode::Create {
            let _ = incoming.remove(written);
        }
        outcome
    }

    fn try_publish(
        &self,
        key: &str,
        file: &File,
        incoming: &Folder,
        written: &str,
        mode: &PutMode,
    ) -> Result<String, ObjectError> {
        let (folders, name) = names_of(key)?;
        let io = |error: io::Error| fault(key, "write the file", &error);
        file.sync_all().map_err(io)?;
        let root = self.root().map_err(io)?;
        let _lock = match mode {
            PutMode::Replace(etag) => {
                let lock = root.lock_file(LOCK).map_err(io)?;
                lock.lock().map_err(io)?;
                let stored = self.open(key).ok().and_then(|(_, info)| info.etag);
                if stored.as_ref() != Some(etag) {
                    return Err(ObjectError::new(ObjectErrorKind::Changed, key, "the file has changed"));
                }
                Some(lock)
            }
            PutMode::Overwrite | PutMode::Create => None,
        };
        let mut attempt = 0;
        loop {
            let published = root.make(folders.iter().copied()).and_then(|folder| {
                match mode {
                    PutMode::Create => folder.link(incoming, written, name)?,
                    PutMode::Overwrite | PutMode::Replace(_) => folder.rename(incoming, written, name)?,
                }
                Ok(folder)
            });
            match published {
                Ok(folder) => {
                    folder.sync().map_err(io)?;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(ObjectError::new(ObjectErrorKind::Exists, key, "the file exists"));
                }
                // A concurrent deletion found the folder empty and removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < FOLDER_ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(io(error)),
            }
        }
        let stat = confined::stat_of(file).map_err(io)?;
        Ok(info(key, &stat).etag.unwrap_or_default())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut folders = vec![folder.to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            let names: Vec<&str> = match folder.is_empty() {
                true => Vec::new(),
                false => {
                    let (mut names, last) = names_of(&folder)?;
                    names.push(last);
                    names
                }
            };
            let entries = match self.root().and_then(|root| root.descend(names)?.entries()) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(fault(&folder, "list the folder", &error)),
            };
            for (name, stat) in entries {
                if name.starts_with('.') {
                    continue;
                }
                let key = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                if confined::is_folder(&stat) {
                    if key.starts_with(prefix) || prefix.starts_with(&format!("{key}/")) {
                        folders.push(key);
                    }
                } else if key.starts_with(prefix) {
                    found.push(info(&key, &stat));
                }
            }
        }
        found.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(found)
    }

    /// Removes a file, and the folders that become empty: other stores have no empty folders either.
    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.writable(key)?;
        let (folders, name) = names_of(key)?;
        let io = |error: io::Error| fault(key, "delete the file", &error);
        let removed = self.root().and_then(|root| {
            let mut path = vec![root];
            for name in &folders {
                let next = path.last().map(|folder| folder.folder(name));
                path.extend(next.transpose()?);
            }
            if let Some(folder) = path.last() {
                folder.remove(name)?;
            }
            Ok(path)
        });
        let mut path = match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io(error)),
            Ok(path) => path,
        };
        // The deepest folder that remains is synced.
        for name in folders.iter().rev() {
            let Some(parent) = path.len().checked_sub(2).and_then(|at| path.get(at)) else {
                break;
            };
            if !parent.remove_empty(name) {
                break;
            }
            path.pop();
        }
        path.last().map_or(Ok(()), Folder::sync).map_err(io)
    }
}

fn info(key: &str, stat: &Stat) -> ObjectInfo {
    // A replacement is a different file with a different time.
    let etag = format!(
        "{:x}-{:x}-{:x}-{:x}",
        stat.st_ino, stat.st_mtime, stat.st_mtime_nsec, stat.st_size
    );
    ObjectInfo {
        key: key.to_owned(),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        etag: Some(etag),
        modified_ms: stat.st_mtime * 1000 + (stat.st_mtime_nsec / 1_000_000) as i64,
    }
}

fn fault(key: &str, what: &str, error: &io::Error) -> ObjectError {
    use io::ErrorKind as Io;
    let kind = match error.kind() {
        Io::NotFound | Io::NotADirectory => ObjectErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ObjectErrorKind::Denied,
        Io::StorageFull | Io::QuotaExceeded | Io::InvalidFilename | Io::InvalidInput => ObjectErrorKind::Refused,
        _ => ObjectErrorKind::Unavailable,
    };
    ObjectError::new(kind, key, format!("cannot {what}: {error}"))
}

#[async_trait]
impl Requests for FsObjects {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.run(key, move |inner, key| inner.get(key, &want)).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.run(key, |inner, key| inner.open(key).map(|(_, info)| info)).await
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        let mode = mode.clone();
        let put = move |inner: &Inner, key: &str| {
            inner.writable(key)?;
            names_of(key)?;
            let io = |error: io::Error| fault(key, "write the file", &error);
            let incoming = inner.incoming().map_err(io)?;
            let (mut file, written) = inner.create_incoming(&incoming).map_err(io)?;
            if let Err(error) = file.write_all(&bytes) {
                let _ = incoming.remove(&written);
                return Err(io(error));
            }
            inner.publish(key, &file, &incoming, &written, &mode).map(Some)
        };
        self.run(key, put).await
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        let begin = |inner: &Inner, key: &str| {
            inner.writable(key)?;
            let created = inner.incoming().and_then(|incoming| inner.create_incoming(&incoming));
            created
                .map(|(_, written)| written)
                .map_err(|error| fault(key, "write the file", &error))
        };
        self.run(key, begin).await
    }

    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError> {
        let upload = upload.to_owned();
        let put = move |inner: &Inner, key: &str| {
            let file = inner.incoming().and_then(|incoming| incoming.open(&upload, true));
            file.and_then(|file| file.write_all_at(&bytes, number as u64 * part_len))
                .map_err(|error| fault(key, "write the file", &error))?;
            Ok(String::new())
        };
        self.run(key, put).await
    }

    async fn complete_parts(&self, key: &str, upload: &str, _parts: Vec<String>) -> Result<(), ObjectError> {
        let upload = upload.to_owned();
        let complete = move |inner: &Inner, key: &str| {
            let opened = inner.incoming().and_then(|incoming| {
                let file = incoming.open(&upload, false)?;
                Ok((file, incoming))
            });
            let (file, incoming) = opened.map_err(|error| fault(key, "write the file", &error))?;
            inner
                .publish(key, &file, &incoming, &upload, &PutMode::Overwrite)
                .map(drop)
        };
        self.run(key, complete).await
    }

    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        let upload = upload.to_owned();
        let abort = move |inner: &Inner, key: &str| {
            let removed = inner.incoming().and_then(|incoming| incoming.remove(&upload));
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault(key, "delete the file", &error)),
                _ => Ok(()),
            }
        };
        self.run(key, abort).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.run(prefix, |inner, prefix| inner.list(prefix)).await
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.run(key, |inner, key| inner.delete(key)).await
    }
}
