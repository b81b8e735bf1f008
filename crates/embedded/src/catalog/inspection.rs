//! Inspection of a catalog's file without changing it.
//!
//! When the file is opened, the store repairs it; after damage it falls back to an older state and drops the
//! newer one. So a start reads a copy in memory first, and opens the file only if that copy has the newest state.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use firn_model::metadata::Metadata;
use firn_model::{Error, Result};
use firn_storage::disk::Disk;
use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend};

use super::{Catalog, builder, failed};

/// Result of an inspection.
pub(crate) enum Inspection {
    /// There is no file.
    Missing,
    /// The file has no bytes.
    Empty,
    /// The catalog can be read.
    Found {
        metadata: Box<Metadata>,
        /// Uuids of deleted indices whose files may still exist.
        deleted: HashSet<String>,
        /// Some page failed its checksum, and the store fell back to an older state.
        repaired: bool,
    },
}

thread_local! {
    static PANICS_ARE_REPORTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while a panic of this thread would be caught and reported as an error, so that a panic hook need not print it.
#[must_use]
pub fn is_panic_reported() -> bool {
    PANICS_ARE_REPORTED.get()
}

/// Inspects a file. Fails, with the file's name, if it is not a catalog or cannot be read.
pub(super) fn inspect(disk: &dyn Disk, path: &Path) -> Result<Inspection> {
    let bytes = match disk.read(path) {
        Ok(bytes) if bytes.is_empty() => return Ok(Inspection::Empty),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Inspection::Missing),
        Err(error) => {
            return Err(Error::internal(format!("cannot read the catalog [{}]", path.display())).caused_by(error));
        }
    };
    // The store trusts bytes that its checksums do not cover, and panics if they are invalid.
    PANICS_ARE_REPORTED.set(true);
    let read = catch_unwind(AssertUnwindSafe(|| read_copy(&bytes)));
    PANICS_ARE_REPORTED.set(false);
    let read = read.unwrap_or_else(|_| Err(Error::internal("its pages are invalid")));
    read.map_err(|error| {
        Error::internal(format!(
            "the catalog [{}] is damaged: {}",
            path.display(),
            error.reason()
        ))
    })
}

fn read_copy(bytes: &[u8]) -> Result<Inspection> {
    let backend = InMemoryBackend::new();
    backend.set_len(bytes.len() as u64)?;
    backend.write(0, bytes)?;
    let mut database = builder().create_with_backend(backend).map_err(failed)?;
    let repaired = !database.check_integrity().map_err(failed)?;
    let (metadata, deleted) = match is_new(&database)? {
        true => (Metadata::default(), HashSet::new()),
        false => (Catalog::read(&database)?, Catalog::read_deleted(&database)?),
    };
    Ok(Inspection::Found {
        metadata: Box::new(metadata),
        deleted,
        repaired,
    })
}

/// Whether a crash came before the first table was created.
fn is_new(database: &Database) -> Result<bool> {
    use redb::ReadableDatabase as _;
    let transaction = database.begin_read().map_err(failed)?;
    Ok(transaction.list_tables().map_err(failed)?.next().is_none())
}
