//! Devices of a node: one data path for each of its tiers.
//!
//! `path.data` is the hot one and holds the catalog. The others hold only folders of shards, `indices/UUID/SHARD/`, in
//! the same layout. **Only the catalog defines on which device a shard is**; a folder on another device is an
//! unfinished copy or one that was not removed yet, and the next start removes it. `moving.rs` moves shards between
//! devices.

mod paths;
pub(crate) mod relocations;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_model::metadata::IndexMetadata;
use firn_model::tier::Tier;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::catalog_version::NotedVersion;
use parking_lot::Mutex;

pub use self::paths::TierPaths;
use crate::config::{EmbeddedConfig, Watermark};
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;

/// The devices other than the hot one, and the state of moves between all of them.
pub(crate) struct Tiers {
    devices: Vec<Device>,
    /// Above this watermark no shard is moved to a device.
    low: Mutex<Watermark>,
    /// A move is queued or running. Two concurrent moves would only share the devices.
    moving: AtomicBool,
}

struct Device {
    tier: Tier,
    watch: DiskWatch,
    /// Held as long as the engine exists.
    _lock: NodeLock,
}

impl Tiers {
    /// Opens the devices of a configuration: creates their folders, locks them, and checks that they belong to the node
    /// of this catalog and were not used with a newer one.
    pub(crate) fn open(config: &EmbeddedConfig, catalog: &NotedVersion) -> Result<Self> {
        let mut devices = Vec::new();
        for (tier, path) in config.tiers.beside_hot() {
            let lock = paths::claim(&*config.disk, tier, path, catalog)?;
            let (disk, measured) = (Arc::clone(&config.disk), path.to_owned());
            let probe = Arc::new(move || Ok((disk.total_bytes(&measured)?, disk.available_bytes(&measured)?)));
            let watch = DiskWatch::new(
                path.to_owned(),
                probe,
                config.flood_stage,
                config.flood_stage_headroom_bytes_max,
            );
            watch.observe();
            devices.push(Device {
                tier,
                watch,
                _lock: lock,
            });
        }
        Ok(Self {
            devices,
            low: Mutex::new(config.low_watermark),
            moving: AtomicBool::new(false),
        })
    }

    /// Reads the free space of every device. Must be called every second.
    pub(crate) fn observe(&self) {
        self.devices.iter().for_each(|device| device.watch.observe());
    }

    /// Sets other watermarks, which apply from the next observation on.
    pub(crate) fn set_watermarks(&self, low: Watermark, flood_stage: Watermark, headroom_bytes_max: u64) {
        *self.low.lock() = low;
        for device in &self.devices {
            device.watch.set_flood_stage(flood_stage, headroom_bytes_max);
        }
    }
}

/// All devices with their free space.
pub(crate) struct Devices {
    /// Device of the data folder.
    pub(crate) hot: DiskWatch,
    pub(crate) tiers: Tiers,
}

impl Devices {
    /// Returns the watch of a device; `None`: the node does not have the tier.
    pub(crate) fn watch(&self, tier: Tier) -> Option<&DiskWatch> {
        let mut devices = self.tiers.devices.iter();
        match tier {
            Tier::Hot => Some(&self.hot),
            tier => Some(&devices.find(|device| device.tier == tier)?.watch),
        }
    }

    /// Fails with [`ErrorKind::DiskFull`] while a device with shards of the index is past its watermark.
    pub(crate) fn check_room(&self, index: &IndexMetadata) -> Result<()> {
        if index.tiers.is_empty() {
            return self.hot.check(&index.name);
        }
        let tiers = index.tiers_in_use();
        let mut watches = tiers.into_iter().filter_map(|tier| self.watch(tier));
        watches.try_for_each(|watch| watch.check(&index.name))
    }

    /// Returns the bytes that may still be written to a device before its watermark is reached.
    pub(crate) fn room_bytes(&self, tier: Tier) -> u64 {
        self.watch(tier).map_or(0, DiskWatch::room_bytes)
    }
}

/// Returns the error of a shard that cannot be opened because the node has no path for its device.
pub(crate) fn no_device(index: &str, shard: u32, tier: Tier) -> Error {
    Error::new(
        ErrorKind::ShardDamaged,
        format!("shard [{index}][{shard}] is on tier [{tier}], but this node has no [path.data.{tier}]"),
    )
    .with_index(index)
}

/// Returns the error of a tier that the node does not have.
pub(crate) fn no_tier(tier: Tier) -> Error {
    Error::illegal_argument(format!("this node has no [path.data.{tier}]"))
}
