//! Stops writes before the disk is full, and lets them go on when space returns.

use std::path::{Path, PathBuf};

use arc_swap::ArcSwapOption;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::config::{SpaceProbe, Watermark};

/// With less room than this to the watermark each bulk looks at the disk; above it the tick of a
/// second is enough, as no disk takes so much in one.
const NEAR_BYTES: u64 = 4 << 30;

/// Elasticsearch's `cluster.routing.allocation.disk.watermark.low.max_headroom`.
const LOW_HEADROOM_BYTES_MAX: u64 = 200 << 30;

/// Watches the file system of the data folder. The ticker calls [`DiskWatch::observe`] each
/// second; every write asks [`DiskWatch::check`].
pub(crate) struct DiskWatch {
    path: PathBuf,
    probe: SpaceProbe,
    limits: Mutex<Limits>,
    block: ArcSwapOption<Block>,
    space: Mutex<Space>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    flood_stage: Watermark,
    headroom_bytes_max: u64,
}

/// What the last look at the disk found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of the file system.
    pub(crate) total_bytes: u64,
    /// That firn may still use.
    pub(crate) available_bytes: u64,
}

#[derive(Debug)]
struct Block {
    reason: String,
}

impl DiskWatch {
    /// A watch on the file system of `path`, measured by `probe`.
    pub(crate) fn new(path: PathBuf, probe: SpaceProbe, flood_stage: Watermark, headroom_bytes_max: u64) -> Self {
        Self {
            path,
            probe,
            limits: Mutex::new(Limits {
                flood_stage,
                headroom_bytes_max,
            }),
            block: ArcSwapOption::empty(),
            space: Mutex::new(Space::default()),
        }
    }

    /// Uses another watermark from the next look on.
    pub(crate) fn set_flood_stage(&self, flood_stage: Watermark, headroom_bytes_max: u64) {
        *self.limits.lock() = Limits {
            flood_stage,
            headroom_bytes_max,
        };
    }

    /// Looks at the disk. A file system that cannot be asked blocks nothing: the write itself
    /// will say what is wrong.
    pub(crate) fn observe(&self) {
        let (total_bytes, available_bytes) = match (self.probe)() {
            Ok(space) => space,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot read the free space of the data folder");
                return;
            }
        };
        *self.space.lock() = Space {
            total_bytes,
            available_bytes,
        };
        let limits = *self.limits.lock();
        let required = limits
            .flood_stage
            .free_bytes_required(total_bytes, limits.headroom_bytes_max);
        let blocked = self.block.load().is_some();
        // A little more than the watermark must be free before writes go on, or the block would
        // come and go with every flush.
        let release_at = required + required / 20;
        if available_bytes < required {
            let reason = format!(
                "disk usage exceeded flood-stage watermark [{}], index has read-only-allow-delete block: \
                 [{}] has {available_bytes} of {total_bytes} bytes free and needs {required}",
                limits.flood_stage,
                self.path.display(),
            );
            if !blocked {
                tracing::warn!(%reason, "writes stop");
            }
            self.block.store(Some(std::sync::Arc::new(Block { reason })));
        } else if blocked && available_bytes >= release_at {
            tracing::info!(available_bytes, "the disk has room again, writes go on");
            self.block.store(None);
        }
    }

    /// Looks again now if the last look found little room: a second between looks is long when
    /// events come fast. Asking the file system takes some microseconds.
    pub(crate) fn look_if_near(&self) {
        if self.room_bytes() < NEAR_BYTES {
            self.observe();
        }
    }

    /// What may still be written before the watermark is reached, as of the last look.
    pub(crate) fn room_bytes(&self) -> u64 {
        let space = *self.space.lock();
        let limits = *self.limits.lock();
        let required = limits
            .flood_stage
            .free_bytes_required(space.total_bytes, limits.headroom_bytes_max);
        space.available_bytes.saturating_sub(required)
    }

    /// What may still be written before another watermark is reached, as of the last look.
    pub(crate) fn room_below(&self, watermark: Watermark) -> u64 {
        let space = *self.space.lock();
        let required = watermark.free_bytes_required(space.total_bytes, LOW_HEADROOM_BYTES_MAX);
        space.available_bytes.saturating_sub(required)
    }

    /// [`ErrorKind::DiskFull`] while the disk is past its watermark.
    pub(crate) fn check(&self, index: &str) -> Result<()> {
        match &*self.block.load() {
            None => Ok(()),
            Some(block) => Err(Error::new(
                ErrorKind::DiskFull,
                format!("index [{index}] blocked by: [TOO_MANY_REQUESTS/12/{}];", block.reason),
            )
            .with_index(index)),
        }
    }

    /// Why writes are refused, if they are.
    pub(crate) fn block_reason(&self) -> Option<String> {
        self.block.load().as_ref().map(|block| block.reason.clone())
    }

    /// The folder whose file system it watches.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the last look found; zeros before the first.
    pub(crate) fn space(&self) -> Space {
        *self.space.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn writes_stop_at_the_watermark_and_go_on_by_themselves() {
        let available = Arc::new(AtomicU64::new(1000));
        let probe: SpaceProbe = {
            let available = Arc::clone(&available);
            Arc::new(move || Ok((10_000, available.load(Ordering::Relaxed))))
        };
        let watch = DiskWatch::new("data".into(), probe, Watermark::FreeBytes(500), u64::MAX);
        watch.observe();
        watch.check("logs").unwrap();

        available.store(499, Ordering::Relaxed);
        watch.observe();
        let error = watch.check("logs").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        for part in [
            "index [logs] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark",
            "[data]",
            "499 of 10000 bytes free",
        ] {
            assert!(error.reason().contains(part), "{error}");
        }

        available.store(510, Ordering::Relaxed);
        watch.observe();
        assert!(watch.check("logs").is_err(), "just above the watermark is not enough");
        available.store(600, Ordering::Relaxed);
        watch.observe();
        watch.check("logs").unwrap();
        assert_eq!(watch.block_reason(), None);
    }
}
