//! Search of every repository for snapshots that hold events of a tenant. Manifests list the tenants of each segment,
//! so only manifests are read.

use std::collections::BTreeMap;

use firn_engine::snapshot::{HoldingSnapshot, TenantSnapshots, UnreadSnapshots};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::repository::{IndexEntry, IndexManifest, Repository, SnapshotEntry, SnapshotManifest};
use firn_storage::split::SplitRef;

use super::service::SnapshotService;

/// Manifests of snapshots, and of indices, in memory at the same time.
const SNAPSHOTS_READ: usize = 256;
const INDICES_READ: usize = 32;

/// Whether a split of an index holds events of a tenant; `None`: its manifest does not say.
pub(super) fn holds(manifest: &IndexManifest, split: &SplitRef, tenant: &str) -> Option<bool> {
    let by_tenant = manifest
        .index
        .pointer("/settings/index.tenant.field")
        .is_some_and(|field| !field.is_null());
    match &split.tenants {
        Some(_) => Some(split.tenant(tenant).is_some()),
        None if by_tenant => None,
        None => Some(false),
    }
}

impl SnapshotService {
    /// Returns the snapshots of every registered repository that hold events of a tenant.
    pub(crate) async fn snapshots_of_tenant(&self, tenant: &str) -> Result<TenantSnapshots> {
        // Before the log is read, so that a snapshot that ends meanwhile is found in the log.
        let running = self.repositories.running_now();
        let mut found = TenantSnapshots::default();
        let state = self.node.state();
        let repositories: Vec<_> = state.metadata.repositories.clone().into_iter().collect();
        for (name, metadata) in repositories {
            let looked = match self.repositories.repository(&name) {
                Ok(repository) => {
                    // A repository that was empty at its registration got its uuid later; the mounts from it know that
                    // uuid.
                    let mounted = state.metadata.indices.values();
                    let stores = mounted.filter_map(|index| index.settings.snapshot.as_deref());
                    let mut uuids = stores
                        .filter(|store| store.repository == name && !store.repository_uuid.is_empty())
                        .map(|store| store.repository_uuid.as_str());
                    let uuid = metadata.uuid.as_deref().or_else(|| uuids.next());
                    self.look_through(&repository, uuid, tenant, &mut found).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = looked {
                found.unread.push(unread(name, metadata.is_readonly(), &error));
            }
        }
        found.running = running;
        if !found.holding.iter().any(|held| !held.is_readonly) {
            self.repositories.rewritten.lock().forget_all();
        }
        Ok(found)
    }

    async fn look_through(
        &self,
        repository: &Repository,
        registered: Option<&str>,
        tenant: &str,
        found: &mut TenantSnapshots,
    ) -> Result<()> {
        let state = repository.state().await?;
        // A device that is not mounted looks like an empty repository.
        if registered.is_some_and(|uuid| uuid != state.uuid) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "[{}] the location holds another repository than the registered one",
                    repository.name()
                ),
            ));
        }
        let entries: Vec<SnapshotEntry> = state.snapshots.values().cloned().collect();
        // Snapshots share unchanged indices. Each manifest is read once, and only its count stays in memory.
        let mut held: BTreeMap<String, Result<Option<u64>>> = BTreeMap::new();
        for some in entries.chunks(SNAPSHOTS_READ) {
            let snapshots = repository.manifests(some.to_vec()).await;
            let mut unknown = BTreeMap::new();
            for (_, manifest) in &snapshots {
                for index in manifest.iter().flat_map(|manifest| manifest.indices.values()) {
                    if !held.contains_key(&index.manifest) {
                        unknown.insert(index.manifest.clone(), index.clone());
                    }
                }
            }
            let unknown: Vec<IndexEntry> = unknown.into_values().collect();
            for some in unknown.chunks(INDICES_READ) {
                for (entry, manifest) in repository.index_manifests(some.to_vec()).await {
                    let own = manifest.map(|manifest| self.held_by(&manifest, tenant));
                    held.insert(entry.manifest, own);
                }
            }
            for (entry, manifest) in snapshots {
                note(repository, &entry, manifest, &held, found);
            }
        }
        Ok(())
    }

    /// Returns the number of an index's documents of a tenant; `None`: certainly none.
    fn held_by(&self, manifest: &IndexManifest, tenant: &str) -> Option<u64> {
        let splits = manifest.segments().map(|(_, segment)| &segment.split);
        let holding = splits.filter(|split| self.may_hold(manifest, split, tenant));
        let parts = holding.map(|split| split.tenant(tenant).map_or(0, |part| u64::from(part.docs)));
        parts.fold(None, |all, part| Some(all.unwrap_or(0) + part))
    }
}

fn unread(place: String, is_readonly: bool, error: &Error) -> UnreadSnapshots {
    UnreadSnapshots {
        place,
        error: error.to_string(),
        may_answer: !is_readonly && error.kind() != ErrorKind::Repository,
    }
}

/// Adds the result of one snapshot, or the reason why it cannot be read.
fn note(
    repository: &Repository,
    entry: &SnapshotEntry,
    manifest: Result<SnapshotManifest>,
    held: &BTreeMap<String, Result<Option<u64>>>,
    found: &mut TenantSnapshots,
) {
    let place = format!("{}:{}", repository.name(), entry.name);
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error) => {
            found.unread.push(unread(place, repository.is_readonly(), &error));
            return;
        }
    };
    let mut holding = HoldingSnapshot {
        repository: repository.name().to_owned(),
        snapshot: entry.name.clone(),
        is_readonly: repository.is_readonly(),
        indices: Vec::new(),
        documents: 0,
    };
    for (name, index) in &manifest.indices {
        match held.get(&index.manifest) {
            Some(Ok(Some(documents))) => {
                holding.indices.push(name.clone());
                holding.documents += documents;
            }
            Some(Err(error)) => {
                let place = format!("{place}/{name}");
                found.unread.push(unread(place, repository.is_readonly(), error));
            }
            Some(Ok(None)) | None => {}
        }
    }
    if !holding.indices.is_empty() {
        found.holding.push(holding);
    }
}
