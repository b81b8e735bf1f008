//! Durable bytes: the disk behind a trait, and the write-ahead log of one shard.
//!
//! Everything that firn must not lose goes through [`disk::Disk`], so that tests can replace the
//! operating system by [`sim::SimDisk`], a disk that holds "written" and "durable" apart and can
//! be cut off at any moment. What surprises: the trait has no seek and no overwrite. Files are
//! appended to or replaced as a whole, because those are the only two ways that survive a power
//! loss without a log of their own. Formats are described in `docs/formats/`.

pub mod checked_file;
pub mod disk;
pub mod filters;
pub mod object;
pub mod regions;
pub mod repository;
pub mod sim;
pub mod split;
pub mod wal;

pub use disk::{AppendFile, AppendWriter, DirEntry, Disk, OverlayBudget, OverlayDisk, RandomFile, RealDisk};
pub use wal::{Position, Record, Syncer, Wal, WalOptions};
