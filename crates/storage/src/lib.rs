//! Durable storage of firn: disk abstraction, write-ahead log, splits, object stores, repositories and region cache.
//!
//! All local files that firn must not lose go through [`disk::Disk`]. Tests replace the operating system by
//! [`sim::SimDisk`], which separates "written" from "durable" and can simulate a power loss at any moment. What
//! surprises: the append side of the trait has no seek and no overwrite. Such files are appended to or replaced as a
//! whole, because only these two operations survive a power loss without a separate log. `docs/formats/` describes the
//! formats.

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
