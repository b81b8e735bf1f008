//! Where the bytes of a split come from.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::{PartKind, pages};
use tokio::runtime::Handle;

/// A range of a split that will be read.
pub type Wanted = (PartKind, Range<u64>);

/// The bytes of one split, by logical range (see [`pages`]). Methods may be called from several
/// threads at once.
#[async_trait]
pub trait SplitBytes: Send + Sync + fmt::Debug {
    /// Verified bytes. Blocks the calling thread, which is one of the search pool, until they are there.
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes>;

    /// Brings these nearer, so that reading them does not wait: neighbours in one request, all requests
    /// at once. What cannot be kept is dropped in silence and read again.
    async fn fetch(&self, wanted: &[Wanted]) -> Result<()>;

    /// The requests and bytes that [`SplitBytes::fetch`] would make now; nothing is fetched.
    fn missing(&self, wanted: &[Wanted]) -> (u64, u64);

    /// The same by kind, in the order of [`PartKind::ALL`]; a request for several kinds counts as one's.
    fn missing_by_kind(&self, wanted: &[Wanted]) -> [(u64, u64); PartKind::ALL.len()] {
        PartKind::ALL.map(|kind| {
            let own: Vec<Wanted> = wanted.iter().filter(|(other, _)| *other == kind).cloned().collect();
            self.missing(&own)
        })
    }

    /// Whose threads [`SplitBytes::fetch`] is to run on; `None`: everything is at hand already.
    fn io(&self) -> Option<&Handle>;
}

/// A split of which all bytes are at hand, mapped from a file or in memory.
pub struct WholeSplit {
    object: Bytes,
    salt: u64,
}

impl WholeSplit {
    /// The object, and the salt of its pages.
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
            return Err(damaged("it is cut"));
        }
        let bytes = self.object.slice(range.start as usize..range.end as usize);
        pages::verify(self.salt, range.start, &bytes).map_err(|damage| damaged(&damage.to_string()))?;
        Ok(pages::payload(range.start, &bytes, &logical))
    }

    async fn fetch(&self, _: &[Wanted]) -> Result<()> {
        Ok(())
    }

    fn missing(&self, _: &[Wanted]) -> (u64, u64) {
        (0, 0)
    }

    fn io(&self) -> Option<&Handle> {
        None
    }
}
