//! Who may ask: opens the record of users, keys and tenants.

use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use anyhow::Context;
use firn_control::{Control, Parts, SlowdownLimits};
use firn_storage::RealDisk;

use crate::serve::now_ms;
use crate::settings::ServeSettings;

/// Opens the record in the data folder; its folder is readable by its owner only.
pub(crate) fn open(settings: &ServeSettings) -> anyhow::Result<Arc<Control>> {
    let folder = settings.path_data.join("control");
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let control = Control::open(Parts {
        disk: Arc::new(RealDisk),
        folder,
        now_ms: Arc::new(now_ms),
        random: Arc::new(fill_random),
        slowdown: SlowdownLimits::default(),
    })?;
    Ok(Arc::new(control))
}

/// From the operating system. It fails only where there is no such source, and then no secret may be made.
fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random bytes");
}
