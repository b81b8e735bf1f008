//! Mounted indices in snapshots. A snapshot holds no event of them, only where they are read: the origin, named in their
//! settings. Restoring one mounts the origin again, if it is there.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::snapshot::RestoreSnapshot;
use firn_model::metadata::IndexMetadata;
use firn_model::settings::SnapshotStore;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::repository::Repository;

use crate::engine::Core;
use crate::mounts::MountedIndex;

/// Where a restored index is read.
pub(super) struct Origin {
    /// As this node knows it: the repository may have another name here.
    pub(super) store: SnapshotStore,
    /// Held until the index is there, whose shards hold it then.
    pub(super) manifest: Arc<MountedIndex>,
}

/// Refuses to mount an index of a snapshot that was mounted itself when the snapshot was made: the snapshot holds none of
/// its events. Worded as in Elasticsearch.
pub(crate) fn check_holds_events(index: &IndexMetadata, from: &SnapshotStore) -> Result<()> {
    let Some(origin) = &index.settings.snapshot else {
        return Ok(());
    };
    Err(Error::illegal_argument(format!(
        "index [{}] in snapshot [{}/{}:{}] is a snapshot of a searchable snapshot index backed by index [{}] in snapshot \
         [{}/{}:{}] and cannot be mounted; did you mean to restore it instead?",
        from.index,
        from.repository,
        from.repository_uuid,
        from.snapshot,
        origin.index,
        origin.repository,
        origin.repository_uuid,
        origin.snapshot,
    )))
}

impl Core {
    /// The origin of a mounted index that is to be restored, asked of its repository now: what is remembered or kept of a
    /// snapshot does not show that it is still there.
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
            "cannot restore index [{name}]: it is mounted from index [{}] of snapshot [{}:{}/{}], which is not there",
            store.index, store.repository, store.snapshot, store.snapshot_uuid
        );
        Err(super::restore::cannot(request, &why).caused_by(cause))
    }

    /// Repositories that may be the one an index was mounted from: the one of that name, then others with its uuid.
    fn repositories_of(&self, store: &SnapshotStore) -> Result<Vec<Arc<Repository>>> {
        let state = self.state();
        let registered = &state.metadata.repositories;
        let has_uuid = |uuid: Option<&str>| uuid.is_some_and(|uuid| uuid == store.repository_uuid);
        let others = registered
            .iter()
            .filter(|(name, other)| **name != store.repository && has_uuid(other.uuid.as_deref()))
            .map(|(name, _)| name);
        let named = registered.get_key_value(&store.repository).map(|(name, _)| name);
        let names = named.into_iter().chain(others);
        names.map(|name| self.repository(name)).collect()
    }

    /// The origin in a repository; `None`: it is another one than the index was mounted from.
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
        self.switch_mounts(&store, &manifest, Duration::ZERO);
        Ok(Some(Origin { store, manifest }))
    }
}
