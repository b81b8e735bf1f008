//! Folders of indices that the engine found and does not know, set aside for an operator.

use async_trait::async_trait;

use crate::{RequestContext, Result};

/// A folder in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedFolder {
    /// Names it in requests.
    pub id: String,
    /// The tier of the device on which it lies.
    pub tier: String,
    /// Where it is now.
    pub path: String,
    /// When it was found, ms since epoch UTC.
    pub found_ms: i64,
    /// Why it was set aside.
    pub reason: String,
    /// The index that it holds, as far as the folder says so.
    pub index: Option<String>,
    /// The cluster that the index belonged to.
    pub cluster_uuid: Option<String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
}

/// What an operator does with folders in quarantine. Every method fails with [`crate::ErrorKind::Forbidden`] unless the
/// scope is unlimited, and with [`crate::ErrorKind::ResourceNotFound`] for an id that is not there.
#[async_trait]
pub trait QuarantinedFolders {
    /// How many folders there are; 0 for a limited scope. Cheap.
    fn quarantined_count(&self, ctx: &RequestContext) -> u64;

    /// All of them.
    async fn quarantined_folders(&self, ctx: &RequestContext) -> Result<Vec<QuarantinedFolder>>;

    /// Makes the index of a folder an index of this node again, under `rename` or its own name, with every acknowledged
    /// event; its name. Fails and changes nothing if the name is taken or the folder does not say what it holds.
    async fn adopt_quarantined(&self, ctx: &RequestContext, id: &str, rename: Option<String>) -> Result<String>;

    /// Removes a folder for good.
    async fn remove_quarantined(&self, ctx: &RequestContext, id: &str) -> Result<()>;
}
