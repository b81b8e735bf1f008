//! Recorder of the byte ranges that opening a segment reads. Opens the segment to find out.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, Result};
use parking_lot::Mutex;
use tantivy::columnar::ColumnarReader;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{Directory, FileHandle, OwnedBytes, WatchCallback, WatchHandle, WritePtr};
use tantivy::index::SegmentComponent;
use tantivy::{HasLen, Index, SegmentReader};

use super::split_files::owned;

/// Ranges by file extension.
pub(super) type CollectedReads = BTreeMap<String, Vec<Range<u64>>>;

/// Opens a segment with all its dictionaries, and lists its columns.
pub(super) fn reads_of_open(files: &BTreeMap<String, Bytes>) -> Result<CollectedReads> {
    let recorder = Recorder {
        files: Arc::new(files.clone()),
        reads: Arc::default(),
    };
    let failed = |error: tantivy::TantivyError| Error::internal(format!("opening a segment failed: {error}"));
    let index = Index::open(recorder.clone()).map_err(failed)?;
    for segment in index.searchable_segments().map_err(failed)? {
        let reader = SegmentReader::open(&segment).map_err(failed)?;
        for (field, entry) in reader.schema().fields() {
            if entry.is_indexed() {
                reader.inverted_index(field).map_err(failed)?;
            }
        }
        let columns = segment
            .open_read(SegmentComponent::FastFields)
            .map_err(|error| failed(error.into()))?;
        ColumnarReader::open(columns)?.list_columns()?;
    }
    let reads = recorder.reads.lock().clone();
    Ok(reads)
}

/// A directory that records reads.
#[derive(Debug, Clone)]
struct Recorder {
    files: Arc<BTreeMap<String, Bytes>>,
    reads: Arc<Mutex<CollectedReads>>,
}

struct Handle {
    name: String,
    bytes: Bytes,
    reads: Arc<Mutex<CollectedReads>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl HasLen for Handle {
    fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl FileHandle for Handle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let mut reads = self.reads.lock();
        let own = reads.entry(self.name.clone()).or_default();
        own.push(range.start as u64..range.end as u64);
        Ok(owned(self.bytes.slice(range)))
    }
}

impl Recorder {
    fn find(&self, path: &Path) -> Result<&Bytes, OpenReadError> {
        let name = path.to_str().unwrap_or_default();
        self.files
            .get(name)
            .ok_or_else(|| OpenReadError::FileDoesNotExist(PathBuf::from(path)))
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opening a segment writes nothing")
}

impl Directory for Recorder {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let bytes = self.find(path)?.clone();
        let extension = path.extension().and_then(|extension| extension.to_str());
        Ok(Arc::new(Handle {
            name: extension.unwrap_or_default().to_owned(),
            bytes,
            reads: Arc::clone(&self.reads),
        }))
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        Ok(self.find(path).is_ok())
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        Ok(self.find(path)?.to_vec())
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
