//! How large the cache of searchable snapshots is, on this disk.

use anyhow::Context;
use firn_storage::Disk;

use crate::settings::ServeSettings;

/// Bytes of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// What all of it may take.
    pub(crate) all: u64,
    /// What the indices of one tenant may take of that.
    pub(crate) tenant: u64,
}

/// What the settings mean where the cache lies. Makes that folder, as the engine would.
pub(crate) fn sizes(settings: &ServeSettings, disk: &dyn Disk) -> anyhow::Result<Sizes> {
    let folder = settings.path_frozen.as_deref().unwrap_or(&settings.path_data);
    let measure = || {
        disk.create_dir_all(folder)?;
        disk.total_bytes(folder)
    };
    let disk_bytes = measure().with_context(|| {
        let folder = folder.display();
        format!("cannot tell how large the cache of searchable snapshots in [{folder}] may be")
    })?;
    let all = settings.shared_cache_size.of(disk_bytes);
    let tenant = settings.shared_cache_tenant_size.of(all);
    Ok(Sizes { all, tenant })
}
