//! Data computed once from a segment and cached while it is open: a segment never changes.

use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use firn_model::{Error, Result};
use tantivy::SegmentReader;
use tantivy::columnar::Column;
use tantivy::directory::{Directory, FileHandle};
use tantivy::index::SegmentId;

use crate::directory::DiskDirectory;
use crate::distinct::{DISTINCT_FILE, DistinctFile};
use crate::field_lengths::Lengths;
use crate::segment_cache::CACHE;
use crate::splits::OpenSplit;
use crate::zones::Zones;

/// A cache of data that depends on segments.
pub trait DependentCache: Send + Sync {
    /// Removes everything that depends on a segment.
    fn forget(&self, segment: SegmentId);
}

/// See the module.
pub struct SegmentMemo {
    segment: SegmentId,
    /// The split, if the segment is not on disk: then much of this data is stored in it.
    split: Option<OpenSplit>,
    /// The folder of the segment, if it is on disk.
    directory: Option<DiskDirectory>,
    time_zones: OnceLock<Option<Arc<Zones>>>,
    /// The file of prepared hashes, opened at its first use.
    distinct: OnceLock<Option<Arc<DistinctFile>>>,
    /// The cache that holds results of the segment, if there is one.
    cache: OnceLock<Weak<dyn DependentCache>>,
    /// Lengths of texts, counted when a query first scores by them.
    pub lengths: Lengths,
}

impl Drop for SegmentMemo {
    /// Cached data of the segment would keep its files open.
    fn drop(&mut self) {
        CACHE.forget(self.segment);
        if let Some(cache) = self.cache.get().and_then(Weak::upgrade) {
            cache.forget(self.segment);
        }
    }
}

impl SegmentMemo {
    /// Creates the data of an open segment.
    pub fn new(reader: &SegmentReader) -> Self {
        Self {
            segment: reader.segment_id(),
            split: None,
            directory: None,
            time_zones: OnceLock::new(),
            distinct: OnceLock::new(),
            cache: OnceLock::new(),
            lengths: Lengths::default(),
        }
    }

    /// Creates the data of a segment in a split.
    pub(crate) fn of_split(reader: &SegmentReader, split: OpenSplit) -> Self {
        let mut derived = Self::new(reader);
        derived.split = Some(split);
        derived
    }

    /// Creates the data of a segment in a folder.
    pub fn of_directory(reader: &SegmentReader, directory: DiskDirectory) -> Self {
        let mut derived = Self::new(reader);
        derived.directory = Some(directory);
        derived
    }

    /// Creates the data of a segment in memory with a file of prepared hashes.
    pub fn with_distinct(reader: &SegmentReader, file: Arc<dyn FileHandle>) -> Result<Self> {
        let derived = Self::new(reader);
        let file = DistinctFile::open(file)?.map(Arc::new);
        derived.distinct.get_or_init(|| file);
        Ok(derived)
    }

    /// Returns the prepared hashes of the segment; `None`: it has none.
    pub fn distinct(&self) -> Result<Option<Arc<DistinctFile>>> {
        if let Some(file) = self.distinct.get() {
            return Ok(file.clone());
        }
        let directory = self
            .directory
            .as_ref()
            .filter(|directory| directory.has_file(DISTINCT_FILE));
        let file = match directory {
            Some(directory) => {
                let handle = directory.get_file_handle(Path::new(DISTINCT_FILE));
                let handle =
                    handle.map_err(|error| Error::internal(format!("cannot open [{DISTINCT_FILE}]: {error}")))?;
                DistinctFile::open(handle)?.map(Arc::new)
            }
            None => None,
        };
        Ok(self.distinct.get_or_init(|| file).clone())
    }

    /// Returns the damage that was found in the files of the segment.
    pub fn damage(&self) -> Option<&Error> {
        self.directory.as_ref().and_then(DiskDirectory::damage)
    }

    /// Returns the split of the segment.
    pub fn split(&self) -> Option<&OpenSplit> {
        self.split.as_ref()
    }

    /// Sets the cache that is notified when the segment is closed.
    pub fn cached_in(&self, cache: &Arc<dyn DependentCache>) {
        self.cache.get_or_init(|| Arc::downgrade(cache));
    }

    /// Returns the zones of `@timestamp` from its column; `None`: some document does not have exactly one value.
    pub fn time_zones(&self, column: &Column<u64>) -> Option<Arc<Zones>> {
        let find = || match &self.split {
            Some(split) => split.zones().cloned(),
            None => Zones::new(column).map(Arc::new),
        };
        self.time_zones.get_or_init(find).clone()
    }
}
