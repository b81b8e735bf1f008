//! Looks through every repository for snapshots that hold events of a tenant. Manifests say what segments hold of each
//! tenant, so nothing but manifests is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::snapshot::{HoldingSnapshot, TenantSnapshots};
use firn_model::Result;
use firn_storage::repository::{IndexManifest, Repository};

use crate::engine::Core;

/// What an index manifest holds of a tenant; `None`: certainly nothing.
fn held_by(manifest: &IndexManifest, tenant: &str) -> Option<u64> {
    let by_tenant = manifest
        .index
        .pointer("/settings/index.tenant.field")
        .is_some_and(|field| !field.is_null());
    let parts = manifest
        .segments()
        .filter_map(|(_, segment)| match &segment.split.tenants {
            Some(_) => segment.split.tenant(tenant).map(|part| u64::from(part.docs)),
            None => by_tenant.then_some(0),
        });
    parts.fold(None, |all, part| Some(all.unwrap_or(0) + part))
}

impl Core {
    /// The snapshots of every registered repository that hold events of a tenant.
    pub(crate) async fn snapshots_of_tenant(&self, tenant: &str) -> Result<TenantSnapshots> {
        let mut found = TenantSnapshots::default();
        let names: Vec<String> = self.state().metadata.repositories.keys().cloned().collect();
        for name in names {
            let looked = match self.repository(&name) {
                Ok(repository) => look_through(&repository, tenant, &mut found).await,
                Err(error) => Err(error),
            };
            if let Err(error) = looked {
                found.unread.push((name, error.to_string()));
            }
        }
        Ok(found)
    }
}

async fn look_through(repository: &Arc<Repository>, tenant: &str, found: &mut TenantSnapshots) -> Result<()> {
    let state = repository.state().await?;
    let snapshots = repository.manifests(state.snapshots.values().cloned().collect()).await;
    // Snapshots share what did not change between them; each manifest is read once.
    let mut entries = BTreeMap::new();
    for (_, manifest) in &snapshots {
        for index in manifest.iter().flat_map(|manifest| manifest.indices.values()) {
            entries.insert(index.manifest.clone(), index.clone());
        }
    }
    let read = repository.index_manifests(entries.into_values().collect()).await;
    let held: BTreeMap<String, Result<Option<u64>>> = read
        .into_iter()
        .map(|(entry, manifest)| (entry.manifest, manifest.map(|manifest| held_by(&manifest, tenant))))
        .collect();
    for (entry, manifest) in snapshots {
        let place = format!("{}:{}", repository.name(), entry.name);
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => {
                found.unread.push((place, error.to_string()));
                continue;
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
                Some(Err(error)) => found.unread.push((format!("{place}/{name}"), error.to_string())),
                Some(Ok(None)) | None => {}
            }
        }
        if !holding.indices.is_empty() {
            found.holding.push(holding);
        }
    }
    Ok(())
}
