//! Prepared hashes of the values of a segment, in a file beside it: counts of distinct values read neither the
//! dictionary nor hash a value. Format: `docs/formats/shard.md`.
//!
//! The file is derived from the columns of the segment: it is written with the segment, a split leaves it out, and
//! segments of earlier builds have none.

mod entries;
mod file;
mod write;
mod zone;

pub use self::entries::{EntryReader, pack};
pub use self::file::{DistinctColumn, DistinctFile, StoredZones};
pub use self::write::{DEFAULT_SIZES, Sizes, encode, write};

/// File name in a segment's folder.
pub const DISTINCT_FILE: &str = "distinct.bin";
