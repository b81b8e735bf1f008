//! Snapshot repositories.

use serde_json::Value;

/// Request of `PUT /_snapshot/REPOSITORY`.
#[derive(Debug, Clone, PartialEq)]
pub struct PutRepository {
    /// Repository name.
    pub name: String,
    /// `fs`, `s3`, `gcs`, `azure` or `url`.
    pub kind: String,
    /// Nested or flat.
    pub settings: Value,
    /// First write an object and read it back.
    pub verify: bool,
}

/// A registered repository.
#[derive(Debug, Clone, PartialEq)]
pub struct Repository {
    /// Repository name.
    pub name: String,
    /// See [`PutRepository::kind`].
    pub kind: String,
    /// UUID stored in the repository; `None`: not known yet.
    pub uuid: Option<String>,
    /// Flat settings, as the user wrote them.
    pub settings: firn_model::settings::SettingsMap,
}

/// Request of `POST /_snapshot/REPOSITORY/_analyze`.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzeRepository {
    /// Repository name.
    pub name: String,
    /// Objects to write.
    pub blob_count: u32,
    /// Concurrent requests.
    pub concurrency: u32,
    /// Bytes of the largest object.
    pub blob_bytes_max: u64,
    /// Bytes of all objects.
    pub total_bytes_max: u64,
    /// Time limit, ms.
    pub timeout_ms: u64,
    /// Seed of the random operations.
    pub seed: u64,
    /// Whether the report lists every object.
    pub detailed: bool,
}

/// Result of a cleanup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanupOutcome {
    /// Removed objects.
    pub deleted_objects: u64,
    /// Bytes of the removed objects.
    pub deleted_bytes: u64,
}
