//! Files of the data folder that describe themselves, so that a lost or old catalog is detected
//! before any change, and can be rebuilt.
//!
//! | file | content |
//! |---|---|
//! | `catalog.version` | number of the last change of the catalog |
//! | `catalog.copy` | all metadata, some seconds old at most |
//! | `indices/UUID/index.json` | metadata of that index |
//! | `quarantine/UUID/` | folder that was found in `indices/` and that the catalog does not name |
//!
//! Formats: `docs/formats/catalog.md`. The rule of this module: **a folder is never removed because the catalog does
//! not name it.** It is removed only if the catalog's list of deletions names it, or if its record says that it is the
//! unfinished work of a command that was never acknowledged.

mod catalog_copy;
mod index_record;
mod quarantine;
mod rebuild;
mod start_check;
mod sweep;

pub(crate) use self::catalog_copy::CatalogCopy;
pub(crate) use self::index_record::{IndexRecord, RecordState};
pub(crate) use self::quarantine::{Quarantine, Quarantined, no_such_folder};
pub use self::rebuild::{RebuildReport, rebuild_catalog};
pub(crate) use self::start_check::{Evidence, refuse_lost_catalog, refuse_old_catalog};
pub(crate) use self::sweep::sweep;

/// File name of the catalog in the data folder.
pub(crate) const CATALOG_FILE: &str = "catalog.redb";
