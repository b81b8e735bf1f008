//! Mounted indices in snapshots. A snapshot holds no events of them, only the origin that their settings name. A
//! restore mounts the origin again, if it still exists.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::snapshot::RestoreSnapshot;
use firn_model::settings::SnapshotStore;
use firn_model::{ErrorKind, Result};
use firn_storage::repository::Repository;

use super::service::SnapshotService;
use crate::mounts::MountedIndex;

/// Snapshot that a restored index reads.
pub(super) struct Origin {
    /// With this node's name of the repository, which may differ from the one in the snapshot.
    pub(super) store: SnapshotStore,
    /// Held until the index exists; then its shards hold it.
    pub(super) manifest: Arc<MountedIndex>,
}

impl SnapshotService {
    /// Finds the origin of a mounted index that is to be restored. Sends a request to the repository, because a cached
    /// manifest does not prove that the snapshot still exists.
    pub(super) async fn origin(&self, request: &RestoreSnapshot, name: &str, store: &SnapshotStore) -> Result<Origin> {
        let mut missing = None;
        for repository in self.repositories_of(store)? {
            match self.origin_in(&repository, store).await {
                Ok(Some(origin)) => return Ok(origin),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::SnapshotMissing => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        let cause = missing.unwrap_or_else(|| firn_model::repository::repository_missing(&store.repository));
        let why = format!(
            "cannot restore index [{name}]: it is mounted from index [{}] of snapshot [{}:{}/{}], which is missing",
            store.index, store.repository, store.snapshot, store.snapshot_uuid
        );
        Err(super::restore::cannot(request, &why).caused_by(cause))
    }

    /// Returns the repositories that may be the origin: the one with the stored name first, then others with the stored
    /// uuid.
    fn repositories_of(&self, store: &SnapshotStore) -> Result<Vec<Arc<Repository>>> {
        let state = self.node.state();
        let registered = &state.metadata.repositories;
        let has_uuid = |uuid: Option<&str>| uuid.is_some_and(|uuid| uuid == store.repository_uuid);
        let others = registered
            .iter()
            .filter(|(name, other)| **name != store.repository && has_uuid(other.uuid.as_deref()))
            .map(|(name, _)| name);
        let named = registered.get_key_value(&store.repository).map(|(name, _)| name);
        let names = named.into_iter().chain(others);
        names.map(|name| self.repositories.repository(name)).collect()
    }

    /// Returns the origin in a repository; `None`: this is not the repository that the index was mounted from.
    async fn origin_in(&self, repository: &Arc<Repository>, store: &SnapshotStore) -> Result<Option<Origin>> {
        let is_other = |uuid: &str| !store.repository_uuid.is_empty() && uuid != store.repository_uuid;
        if is_other(&repository.state().await?.uuid) {
            return Ok(None);
        }
        let store = SnapshotStore {
            repository: repository.name().to_owned(),
            ..store.clone()
        };
        let (_, manifest) = self.mounts.manifests.fetch(&store, repository).await?;
        self.mounts.switch_mounts(&store, &manifest, Duration::ZERO);
        Ok(Some(Origin { store, manifest }))
    }
}
