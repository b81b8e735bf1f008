//! Quarantine: index folders that the engine found on disk and the catalog does not know, kept for an operator.

use async_trait::async_trait;
use firn_model::Result;

use crate::RequestContext;

/// A folder in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedFolder {
    /// Id of the folder in requests.
    pub id: String,
    /// Tier of the device that holds it.
    pub tier: String,
    /// Present path.
    pub path: String,
    /// When it was found, ms since epoch UTC.
    pub found_ms: i64,
    /// Why it was quarantined.
    pub reason: String,
    /// Index that it holds, if the folder names it.
    pub index: Option<String>,
    /// Cluster that the index belonged to.
    pub cluster_uuid: Option<String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
}

/// Quarantine operations for operators. Every method fails with [`crate::ErrorKind::Forbidden`] unless the scope is
/// unlimited, and with [`crate::ErrorKind::ResourceNotFound`] for an unknown id.
#[async_trait]
pub trait QuarantinedFolders: Send + Sync {
    /// Returns the number of folders. Cheap.
    fn quarantined_count(&self, ctx: &RequestContext) -> u64;

    /// Returns all folders.
    async fn quarantined_folders(&self, ctx: &RequestContext) -> Result<Vec<QuarantinedFolder>>;

    /// Adopts a folder as an index of this node, under `rename` or its old name, with every acknowledged event; returns
    /// the name. Fails and changes nothing if the name is taken or the folder does not say what it holds.
    async fn adopt_quarantined(&self, ctx: &RequestContext, id: &str, rename: Option<String>) -> Result<String>;

    /// Removes a folder permanently.
    async fn remove_quarantined(&self, ctx: &RequestContext, id: &str) -> Result<()>;
}
