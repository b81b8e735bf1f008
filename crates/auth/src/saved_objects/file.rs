//! File of one saved object: a header line, then JSON ([format](../../../../docs/formats/control.md#saved-objects)).

use std::path::Path;

use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use firn_storage::{Disk, checked_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Saved, SavedKind};

pub(super) const MAGIC: &str = "firn-saved";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    title: String,
    #[serde(default)]
    description: String,
    version: u64,
    created_ms: i64,
    updated_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_by: Option<String>,
    state: Value,
}

pub(super) fn print(saved: &Saved, state: &Value) -> Result<Vec<u8>> {
    let stored = Stored {
        title: saved.title.clone(),
        description: saved.description.clone(),
        version: saved.version,
        created_ms: saved.created_ms,
        updated_ms: saved.updated_ms,
        updated_by: saved.updated_by.clone(),
        state: state.clone(),
    };
    let body = serde_json::to_vec(&stored).map_err(|error| Error::internal(error.to_string()))?;
    Ok(checked_file::print(MAGIC, VERSION, &body))
}

/// Reads the file; the error says what is wrong with it.
pub(super) fn read(
    disk: &dyn Disk,
    path: &Path,
    tenant: Option<TenantId>,
    kind: SavedKind,
    id: &str,
) -> Result<(Saved, Value), String> {
    let bytes = disk.read(path).map_err(|error| error.to_string())?;
    let body = checked_file::parse(MAGIC, VERSION, &bytes)?;
    let stored: Stored = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let saved = Saved {
        kind,
        id: id.to_owned(),
        tenant,
        title: stored.title,
        description: stored.description,
        version: stored.version,
        created_ms: stored.created_ms,
        updated_ms: stored.updated_ms,
        updated_by: stored.updated_by,
        bytes: bytes.len() as u64,
    };
    Ok((saved, stored.state))
}
