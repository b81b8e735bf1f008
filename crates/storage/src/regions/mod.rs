//! Region cache: parts of remote objects on the local disk, shared by all mounted indices.
//!
//! A **region** is an aligned 64 KB range of an object. The cache stores regions in slots of one sparse file. A slot
//! contains only the fetched [pages](crate::split::pages) of its region: a needle reads 3 KB of a split, and a slot
//! that always took 64 KB of disk would waste nearly the whole cache. A region costs about 100 bytes of memory, 0.1 %
//! of the size of a full one.
//!
//! - **Verified**: page checksums cover the object's salt and the page's number. They are checked when pages arrive
//!   from the store and on every read from the disk. So the file and its [journal](journal) need no sync, no order and
//!   no repair: a page that a crash left in a wrong place fails its checksum and is fetched again.
//! - **Single flight**: if one reader fetches pages, all other readers of them wait for it ([flights]).
//! - **Decayed LFU**: frequently used regions stay, and their use counts decay when space is needed ([levels]). Tenants
//!   may have quotas ([owners]), objects may be pinned.
//! - **Fail-open**: if the disk is full or fails, or a request is larger than the cache, bytes go from the store to the
//!   reader without being cached.
//!
//! A reader waits for the disk on its current thread: a read from the cache takes microseconds, less than a switch to
//! another thread. So its futures belong on threads that may block, never on those that serve HTTP.

mod cache;
mod index;
mod journal;
mod lfu;
mod object;
mod plan;
mod single_flight;
mod stats;
mod tenant_quotas;
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::tests::{Bed, block_on, object_of};
}
#[cfg(test)]
mod tests;

pub use cache::{RegionCache, RegionCacheOptions};
pub use object::{CachedObject, ObjectId};
pub use plan::{Cost, GAP_BYTES_MAX};
pub use stats::{KindStats, OwnerStats, RegionCacheStats};

use crate::split::pages::PAGE_BYTES;

/// Pages in a region: one per bit of a `u16` mask.
const REGION_PAGES: u64 = 16;

/// Length of a region in bytes.
pub const REGION_BYTES: u64 = REGION_PAGES * PAGE_BYTES;
