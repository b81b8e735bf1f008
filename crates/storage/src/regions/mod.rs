//! The region cache: parts of remote objects on the local disk, shared by everything that is mounted.
//!
//! A **region** is 64 KB of an object that begin at a multiple of 64 KB. The cache keeps regions in slots of
//! one sparse file, and of each region only those [pages](crate::split::pages) that were fetched: a needle reads 3 KB of a
//! split, and a slot that took 64 KB of disk for them would waste nearly all of a cache. A region costs
//! some 100 bytes of memory, a tenth of a percent of what a full one holds.
//!
//! - **Verified**: pages carry checksums over their object's salt and their number. They are checked when they come from the
//!   store and again whenever they are read from the disk, so the file and its [journal](journal) need no sync, no order and
//!   no repair: what a crash left in a wrong place is not believed and fetched again.
//! - **Single-flight**: what one reader is fetching, all others wait for ([flights]).
//! - **Decayed LFU**: what is read often stays, and what was read often ages when room is needed ([levels]). Tenants may have
//!   quotas ([owners]), objects may be pinned.
//! - **Never in the way**: a full or failing disk, or a question larger than the cache, means that
//!   bytes go from the store to the reader without being kept.
//!
//! Who reads waits for the disk on its own thread: a read out of the cache takes microseconds, less than handing it to
//! another thread would. Futures therefore belong on threads that may wait, never on those that serve HTTP.

mod cache;
mod flights;
mod index;
mod journal;
mod levels;
mod object;
mod owners;
mod plan;
mod stats;
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

/// Pages in a region. As many as a mask of 16 bits tells apart.
const REGION_PAGES: u64 = 16;

/// Bytes of a region.
pub const REGION_BYTES: u64 = REGION_PAGES * PAGE_BYTES;
