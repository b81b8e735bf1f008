//! Size of the cache of searchable snapshots on this disk.

use anyhow::Context;
use firn_storage::Disk;

use crate::settings::ServeSettings;

/// Sizes of the cache in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Maximum of the whole cache.
    pub(crate) all: u64,
    /// Maximum for the indices of one tenant.
    pub(crate) tenant: u64,
}

/// Resolves the settings for the disk of the cache. Creates the folder, as the engine would.
pub(crate) fn sizes(settings: &ServeSettings, disk: &dyn Disk) -> anyhow::Result<Sizes> {
    let folder = settings.path_frozen.as_deref().unwrap_or(&settings.path_data);
    let measure = || {
        disk.create_dir_all(folder)?;
        disk.total_bytes(folder)
    };
    let disk_bytes = measure().with_context(|| {
        let folder = folder.display();
        format!("cannot compute the size of the cache of searchable snapshots in [{folder}]")
    })?;
    let all = settings.shared_cache_size.of(disk_bytes);
    let tenant = settings.shared_cache_tenant_size.of(all);
    Ok(Sizes { all, tenant })
}
