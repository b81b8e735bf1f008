//! Objects as files of a folder, usually one that several machines mount.
//!
//! A file appears under its name only when all its bytes are synced: it is written in `.incoming` and then
//! linked (which fails if the name is taken) or renamed. A replacement that depends on what is there holds a lock
//! over the comparison, because file systems cannot compare and rename in one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::requests::range_of;
use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};

/// Where files are written before they have a name. Keys never begin with a dot.
const INCOMING: &str = ".incoming";
/// Held while a file is compared and replaced.
const LOCK: &str = ".lock";
/// After this long nobody writes to an incoming file any more: its process has ended.
const INCOMING_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A store in a folder.
#[derive(Debug, Clone)]
pub struct FsObjects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    is_readonly: bool,
    written: AtomicU64,
}

impl FsObjects {
    /// Opens the folder, and makes it if it is missing. What interrupted writers left behind a day ago is removed.
    pub fn open(root: &Path) -> Result<Self, ObjectError> {
        let inner = Inner {
            root: root.to_owned(),
            is_readonly: false,
            written: AtomicU64::new(0),
        };
        let incoming = root.join(INCOMING);
        fs::create_dir_all(&incoming)
            .and_then(|()| inner.remove_left_overs(&incoming))
            .map_err(|error| fault("", "open the folder", &error))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Opens the folder without ever writing to it; it may be missing.
    pub fn open_readonly(root: &Path) -> Self {
        Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                is_readonly: true,
                written: AtomicU64::new(0),
            }),
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

impl Inner {
    /// Only names below the root: no key of firn's has such parts, whatever a manifest says.
    fn path(&self, key: &str) -> Result<PathBuf, ObjectError> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\0');
        if key.split('/').all(is_plain) {
            return Ok(self.root.join(key));
        }
        Err(ObjectError::new(
            ObjectErrorKind::Refused,
            key,
            "not a key of an object",
        ))
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

    /// By the file system's own clock: the age is counted against a file made now.
    fn remove_left_overs(&self, incoming: &Path) -> io::Result<()> {
        let (probe, path) = self.create_incoming()?;
        let now = probe.metadata()?.modified()?;
        fs::remove_file(path)?;
        for entry in fs::read_dir(incoming)? {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            let age = now.duration_since(metadata.modified()?).unwrap_or_default();
            if age > INCOMING_AGE_MAX {
                // Another process may be doing the same.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// A file that no other writer has, of this process or another.
    fn create_incoming(&self) -> io::Result<(File, PathBuf)> {
        loop {
            let number = self.written.fetch_add(1, Relaxed);
            let path = self
                .root
                .join(INCOMING)
                .join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((file, path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn info(&self, key: &str, metadata: &fs::Metadata) -> ObjectInfo {
        // A replacement is another file at another time.
        let etag = format!(
            "{:x}-{:x}-{:x}-{:x}",
            metadata.ino(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.len()
        );
        ObjectInfo {
            key: key.to_owned(),
            len: metadata.len(),
            etag: Some(etag),
            modified_ms: metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
        }
    }

    fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        let metadata = fs::metadata(self.path(key)?).map_err(|error| fault(key, "look up the file", &error))?;
        if !metadata.is_file() {
            return Err(ObjectError::new(
                ObjectErrorKind::NotFound,
                key,
                "there is no such file",
            ));
        }
        Ok(self.info(key, &metadata))
    }

    fn get(&self, key: &str, want: &Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let file = File::open(self.path(key)?).map_err(|error| fault(key, "open the file", &error))?;
        let metadata = file
            .metadata()
            .map_err(|error| fault(key, "look up the file", &error))?;
        let range = range_of(key, metadata.len(), want)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)
            .map_err(|error| fault(key, "read the file", &error))?;
        Ok((bytes.into(), self.info(key, &metadata)))
    }

    /// Gives a written file its name. The incoming one is gone afterwards in any case.
    fn publish(&self, key: &str, file: &File, incoming: &Path, mode: &PutMode) -> Result<String, ObjectError> {
        let outcome = self.try_publish(key, file, incoming, mode);
        if outcome.is_err() || *mode == PutMode::Create {
            let _ = fs::remove_file(incoming);
        }
        outcome
    }

    fn try_publish(&self, key: &str, file: &File, incoming: &Path, mode: &PutMode) -> Result<String, ObjectError> {
        let path = self.path(key)?;
        let io = |error: io::Error| fault(key, "write the file", &error);
        file.sync_all().map_err(io)?;
        let folder = path.parent().unwrap_or(&self.root);
        self.make_folder(folder).map_err(io)?;
        match mode {
            PutMode::Overwrite => fs::rename(incoming, &path).map_err(io)?,
            PutMode::Create => fs::hard_link(incoming, &path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => ObjectError::new(ObjectErrorKind::Exists, key, "the file exists"),
                _ => io(error),
            })?,
            PutMode::Replace(etag) => {
                let lock = OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(self.root.join(LOCK))
                    .map_err(io)?;
                lock.lock().map_err(io)?;
                let stored = self.head(key).ok().and_then(|info| info.etag);
                if stored.as_ref() != Some(etag) {
                    return Err(ObjectError::new(ObjectErrorKind::Changed, key, "the file has changed"));
                }
                fs::rename(incoming, &path).map_err(io)?;
            }
        }
        sync_folder(folder).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        Ok(self.info(key, &metadata).etag.unwrap_or_default())
    }

    /// Makes a folder below the root, each new one durable in its parent.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let parent = folder.parent().unwrap_or(&self.root);
        self.make_folder(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        sync_folder(parent)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut folders = vec![folder.to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            let path = if folder.is_empty() {
                self.root.clone()
            } else {
                self.path(&folder)?
            };
            let entries = match fs::read_dir(path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(fault(&folder, "list the folder", &error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| fault(&folder, "list the folder", &error))?;
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                if name.starts_with('.') {
                    continue;
                }
                let key = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                // What is deleted meanwhile is not there.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    if key.starts_with(prefix) || prefix.starts_with(&format!("{key}/")) {
                        folders.push(key);
                    }
                } else if key.starts_with(prefix) {
                    found.push(self.info(&key, &metadata));
                }
            }
        }
        found.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(found)
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.writable(key)?;
        let path = self.path(key)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(fault(key, "delete the file", &error)),
            Ok(()) => {}
        }
        let folder = path.parent().unwrap_or(&self.root);
        sync_folder(folder).map_err(|error| fault(key, "delete the file", &error))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn fault(key: &str, what: &str, error: &io::Error) -> ObjectError {
    use io::ErrorKind as Io;
    let kind = match error.kind() {
        Io::NotFound | Io::NotADirectory => ObjectErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ObjectErrorKind::Denied,
        Io::StorageFull | Io::QuotaExceeded | Io::InvalidFilename => ObjectErrorKind::Refused,
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
        self.run(key, |inner, key| inner.head(key)).await
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        let mode = mode.clone();
        let put = move |inner: &Inner, key: &str| {
            inner.writable(key)?;
            inner.path(key)?;
            let io = |error: io::Error| fault(key, "write the file", &error);
            let (mut file, incoming) = inner.create_incoming().map_err(io)?;
            if let Err(error) = file.write_all(&bytes) {
                let _ = fs::remove_file(incoming);
                return Err(io(error));
            }
            inner.publish(key, &file, &incoming, &mode).map(Some)
        };
        self.run(key, put).await
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        let begin = |inner: &Inner, key: &str| {
            inner.writable(key)?;
            let created = inner.create_incoming();
            let (_, path) = created.map_err(|error| fault(key, "write the file", &error))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            Ok(name.unwrap_or_default())
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
            let file = OpenOptions::new()
                .write(true)
                .open(inner.root.join(INCOMING).join(upload));
            file.and_then(|file| file.write_all_at(&bytes, number as u64 * part_len))
                .map_err(|error| fault(key, "write the file", &error))?;
            Ok(String::new())
        };
        self.run(key, put).await
    }

    async fn complete_parts(&self, key: &str, upload: &str, _parts: Vec<String>) -> Result<(), ObjectError> {
        let upload = upload.to_owned();
        let complete = move |inner: &Inner, key: &str| {
            let incoming = inner.root.join(INCOMING).join(upload);
            let file = File::open(&incoming).map_err(|error| fault(key, "write the file", &error))?;
            inner.publish(key, &file, &incoming, &PutMode::Overwrite).map(drop)
        };
        self.run(key, complete).await
    }

    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        let upload = upload.to_owned();
        let abort = move |inner: &Inner, key: &str| {
            let removed = fs::remove_file(inner.root.join(INCOMING).join(upload));
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
