//! Sources of the bytes of a split.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::{PartKind, pages};
use tokio::runtime::Handle;

/// A range of a split that will be read.
pub type ReadRange = (PartKind, Range<u64>);

/// Reads the bytes of one split by logical range (see [`pages`]). Methods may be called from several threads at once.
#[async_trait]
pub trait SplitBytes: Send + Sync + fmt::Debug {
    /// Returns verified bytes. Blocks the calling thread, a thread of the search pool, until they are available.
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes>;

    /// Prefetches ranges, so that later reads do not wait: adjacent ranges in one request, all requests concurrently.
    /// Bytes that the cache cannot store are dropped without an error and read again later.
    async fn fetch(&self, wanted: &[ReadRange]) -> Result<()>;

    /// Returns the requests and bytes that [`SplitBytes::fetch`] would need now. Fetches nothing.
    fn missing(&self, wanted: &[ReadRange]) -> (u64, u64);

    /// As [`SplitBytes::missing`], by kind in the order of [`PartKind::ALL`]. A request for several kinds counts for
    /// one of them.
    fn missing_by_kind(&self, wanted: &[ReadRange]) -> [(u64, u64); PartKind::ALL.len()] {
        PartKind::ALL.map(|kind| {
            let own: Vec<ReadRange> = wanted.iter().filter(|(other, _)| *other == kind).cloned().collect();
            self.missing(&own)
        })
    }

    /// Returns the runtime for [`SplitBytes::fetch`]; `None`: all bytes are local.
    fn io(&self) -> Option<&Handle>;
}

/// A split whose bytes are all available, mapped from a file or in memory.
pub struct WholeSplit {
    object: Bytes,
    salt: u64,
}

impl WholeSplit {
    /// Wraps the bytes of the object. `salt` is the salt of its pages.
    pub fn new(object: Bytes, salt: u64) -> Self {
        Self { object, salt }
    }
}

impl fmt::Debug for WholeSplit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WholeSplit({} bytes)", self.object.len())
    }
}

#[async_trait]
impl SplitBytes for WholeSplit {
    fn read(&self, _: PartKind, logical: Range<u64>) -> Result<Bytes> {
        let range = pages::physical(&logical);
        let damaged = |what: &str| Error::new(ErrorKind::Repository, format!("a split is damaged: {what}"));
        if range.end > self.object.len() as u64 {
            return Err(damaged("it is too short"));
        }
        let bytes = self.object.slice(range.start as usize..range.end as usize);
        pages::verify(self.salt, range.start, &bytes).map_err(|damage| damaged(&damage.to_string()))?;
        Ok(pages::payload(range.start, &bytes, &logical))
    }

    async fn fetch(&self, _: &[ReadRange]) -> Result<()> {
        Ok(())
    }

    fn missing(&self, _: &[ReadRange]) -> (u64, u64) {
        (0, 0)
    }

    fn io(&self) -> Option<&Handle> {
        None
    }
}
