//! List of one owner's saved objects: a file beside the objects that names them
//! ([format](../../../../docs/formats/control.md#saved-objects)).
//!
//! Without the list, the loss of an object's file would not be noticed. The list never removes an object: a file that
//! it does not name is still an object.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use firn_model::{Error, Result};
use firn_storage::{Disk, checked_file};
use serde::{Deserialize, Serialize};

use super::{Key, SavedKind, check_id};

/// No object has this name, because it lacks a kind.
pub(super) const NAME: &str = "_list";
const MAGIC: &str = "firn-saved-list";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    /// `TYPE.ID`, sorted.
    objects: BTreeSet<String>,
}

/// Returns the file name of an object.
pub(super) fn name_of(kind: SavedKind, id: &str) -> String {
    format!("{}.{id}", kind.name())
}

/// Parses a file name; leftovers of interrupted writes are not valid names.
pub(super) fn key_of(name: &str) -> Option<Key> {
    let (kind, id) = name.split_once('.')?;
    Some((SavedKind::parse(kind).ok()?, check_id(id).ok()?.to_owned()))
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Reads the list of a folder; `None`: it is missing or unreadable, which is logged.
pub(super) fn read(disk: &dyn Disk, folder: &Path) -> Option<BTreeSet<Key>> {
    let path = path(folder);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the list of saved objects cannot be read");
            return None;
        }
    };
    let stored = checked_file::parse(MAGIC, VERSION, &bytes)
        .and_then(|body| serde_json::from_slice::<Stored>(body).map_err(|error| error.to_string()));
    match stored {
        Ok(stored) => Some(stored.objects.iter().filter_map(|name| key_of(name)).collect()),
        Err(reason) => {
            tracing::error!(
                path = %path.display(),
                reason,
                "the list of saved objects is damaged and is rebuilt from the existing files"
            );
            None
        }
    }
}

/// Replaces the list of an existing folder; durable when it returns.
pub(super) fn write<'a>(disk: &dyn Disk, folder: &Path, objects: impl Iterator<Item = &'a Key>) -> Result<()> {
    let objects = objects.map(|(kind, id)| name_of(*kind, id)).collect();
    let body = serde_json::to_vec(&Stored { objects }).map_err(|error| Error::internal(error.to_string()))?;
    disk.write_atomic(&path(folder), &checked_file::print(MAGIC, VERSION, &body))?;
    Ok(())
}
