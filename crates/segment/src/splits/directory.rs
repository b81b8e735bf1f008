//! Read-only Tantivy directory over a split.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{Directory, FileHandle, OwnedBytes, WatchCallback, WatchHandle, WritePtr};

use super::columns::ColumnsFile;
use super::names;
use super::split_files::{SplitFiles, owned};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct SplitDirectory {
    pub(super) files: Arc<SplitFiles>,
    /// Content of the `meta.json` that Tantivy sees.
    pub(super) meta: Vec<u8>,
}

/// A part of a split as a file.
struct PartHandle {
    files: Arc<SplitFiles>,
    part: usize,
    len: usize,
}

impl fmt::Debug for PartHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PartHandle({})", self.part)
    }
}

impl HasLen for PartHandle {
    fn len(&self) -> usize {
        self.len
    }
}

impl FileHandle for PartHandle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.is_empty() {
            return Ok(OwnedBytes::empty());
        }
        let range = range.start as u64..range.end as u64;
        self.files.read(self.part, &range).map(owned).map_err(io::Error::other)
    }
}

/// Tantivy names files by segment and extension.
fn name_of(path: &Path) -> &str {
    let name = path.to_str().unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) if extension != "json" => extension,
        _ => name,
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a split is read-only")
}

impl Directory for SplitDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let name = name_of(path);
        if let Some(bytes) = self.files.footer.inline.get(name) {
            return Ok(Arc::new(owned(bytes.clone())));
        }
        if name == names::COLUMNS
            && self.files.columns.is_some()
            && let Some((part, _)) = self.files.footer.part(names::COLUMN_RUNS)
        {
            let files = Arc::clone(&self.files);
            return Ok(Arc::new(ColumnsFile { files, part }));
        }
        let Some((part, found)) = self.files.footer.part(name) else {
            return Err(OpenReadError::FileDoesNotExist(path.to_path_buf()));
        };
        Ok(Arc::new(PartHandle {
            files: Arc::clone(&self.files),
            part,
            len: found.len as usize,
        }))
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        let name = name_of(path);
        let footer = &self.files.footer;
        let is_made = name == names::COLUMNS && self.files.columns.is_some();
        Ok(is_made || footer.inline.contains_key(name) || footer.part(name).is_some())
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        if name_of(path) == names::META {
            return Ok(self.meta.clone());
        }
        match self.files.footer.inline.get(name_of(path)) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(OpenReadError::FileDoesNotExist(path.to_path_buf())),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        Err(DeleteError::IoError {
            io_error: Arc::new(read_only()),
            filepath: path.to_path_buf(),
        })
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::wrap_io_error(read_only(), path.to_path_buf()))
    }

    fn atomic_write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
