//! Places for snapshots.

use serde_json::Value;

/// `PUT /_snapshot/REPOSITORY`.
#[derive(Debug, Clone, PartialEq)]
pub struct PutRepository {
    /// Its name.
    pub name: String,
    /// `fs`, `s3`, `gcs`, `azure` or `url`.
    pub kind: String,
    /// Nested or flat.
    pub settings: Value,
    /// Write something there first, and read it back.
    pub verify: bool,
}

/// A registered repository.
#[derive(Debug, Clone, PartialEq)]
pub struct Repository {
    /// Its name.
    pub name: String,
    /// See [`PutRepository::kind`].
    pub kind: String,
    /// What the repository itself is called by whoever writes to it; `None`: not known yet.
    pub uuid: Option<String>,
    /// Flat, as typed.
    pub settings: firn_model::settings::SettingsMap,
}

/// `POST /_snapshot/REPOSITORY/_analyze`.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzeRepository {
    /// Its name.
    pub name: String,
    /// Objects to write.
    pub blob_count: u32,
    /// Requests at a time.
    pub concurrency: u32,
    /// Bytes of the largest object.
    pub blob_bytes_max: u64,
    /// Bytes of all of them.
    pub total_bytes_max: u64,
    /// How long it may take, ms.
    pub timeout_ms: u64,
    /// What is written where is drawn from this.
    pub seed: u64,
    /// Whether the report has every object.
    pub detailed: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanupOutcome {
    /// Objects.
    pub deleted_objects: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
}
