//! Disk watch: stops writes before the disk is full, and permits them again when space returns.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::config::{SpaceProbe, Watermark};
use crate::disk_reserve::DiskReserve;

/// With less space than this before the watermark, each bulk reads the free space; above it one read per second is
/// enough, as no disk writes so much in a second.
const NEAR_BYTES: u64 = 4 << 30;

/// Elasticsearch's `cluster.routing.allocation.disk.watermark.low.max_headroom`.
const LOW_HEADROOM_BYTES_MAX: u64 = 200 << 30;

/// With less space than this nothing can be written: a segment, a new WAL or a transaction of the catalog would fail
/// half-way. On a tiny disk, a hundredth of it.
const OUT_OF_SPACE_BYTES: u64 = 1 << 20;

/// A reserve is created if the disk has this many times its size free.
const ROOM_FOR_RESERVE: u64 = 4;

/// Watches the file system of the data folder. The ticker calls [`DiskWatch::observe`] every second; every write calls
/// [`DiskWatch::check`].
pub(crate) struct DiskWatch {
    path: PathBuf,
    probe: SpaceProbe,
    limits: Mutex<Limits>,
    block: ArcSwapOption<Block>,
    space: Mutex<Space>,
    /// Reserve for a full disk; `None`: this disk has none.
    reserve: Mutex<Option<DiskReserve>>,
    /// The disk was full, and has had no space since.
    is_out_of_space: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    flood_stage: Watermark,
    headroom_bytes_max: u64,
}

/// Result of the last observation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Size of the file system.
    pub(crate) total_bytes: u64,
    /// Bytes that firn may still use.
    pub(crate) available_bytes: u64,
}

#[derive(Debug)]
struct Block {
    reason: String,
}

impl DiskWatch {
    /// Creates a watch on the file system of `path`, measured by `probe`.
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
            reserve: Mutex::new(None),
            is_out_of_space: AtomicBool::new(false),
        }
    }

    /// Sets a reserve, which applies from the next observation on.
    pub(crate) fn with_reserve(self, reserve: Option<DiskReserve>) -> Self {
        *self.reserve.lock() = reserve;
        self
    }

    /// Whether nothing can be written: the disk was full, and has had no space since.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.is_out_of_space.load(Ordering::Acquire)
    }

    /// Releases the reserve if the disk is full. Returns how many bytes must be free before writes continue: enough to
    /// create the reserve again.
    fn room_for_reserve(&self, total_bytes: u64, available_bytes: u64) -> u64 {
        let least = OUT_OF_SPACE_BYTES.min(total_bytes / 100);
        let mut reserve = self.reserve.lock();
        let wanted = reserve.as_ref().map_or(0, DiskReserve::bytes) + least;
        let was_out = self.is_out_of_space();
        if available_bytes < least && !was_out {
            self.is_out_of_space.store(true, Ordering::Release);
            if let Some(reserve) = reserve.as_mut().filter(|reserve| reserve.is_held()) {
                match reserve.release() {
                    Ok(()) => tracing::warn!(path = %self.path.display(), "the disk is full: released the reserve"),
                    Err(error) => tracing::error!(%error, "the disk is full: cannot release the reserve"),
                }
            }
        }
        match self.is_out_of_space() {
            true => wanted,
            false => 0,
        }
    }

    /// Creates the reserve if it is missing and the disk has space for it.
    fn make_reserve(&self, available_bytes: u64) {
        let mut reserve = self.reserve.lock();
        let Some(missing) = reserve.as_mut().filter(|reserve| !reserve.is_held()) else {
            return;
        };
        if available_bytes >= ROOM_FOR_RESERVE * missing.bytes()
            && let Err(error) = missing.make()
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot create the reserve for a full disk");
            *reserve = None;
        }
    }

    /// Sets another watermark, which applies from the next observation on.
    pub(crate) fn set_flood_stage(&self, flood_stage: Watermark, headroom_bytes_max: u64) {
        *self.limits.lock() = Limits {
            flood_stage,
            headroom_bytes_max,
        };
    }

    /// Releases the reserve if the disk is full: at the start, before anything is written, and at the end.
    pub(crate) fn release_reserve_if_full(&self) {
        if let Ok((total_bytes, available_bytes)) = (self.probe)() {
            self.room_for_reserve(total_bytes, available_bytes);
        }
    }

    /// Reads the free space. If the file system does not report it, writes are not blocked: the write itself will fail.
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
            .free_bytes_required(total_bytes, limits.headroom_bytes_max)
            .max(self.room_for_reserve(total_bytes, available_bytes));
        let blocked = self.block.load().is_some();
        // Writes continue only when a little more than the watermark is free. Otherwise the block would come and go
        // with every flush.
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
            tracing::info!(available_bytes, "the disk has space again, writes continue");
            self.is_out_of_space.store(false, Ordering::Release);
            self.block.store(None);
        }
        if !self.is_out_of_space() {
            self.make_reserve(available_bytes.saturating_sub(required));
        }
    }

    /// Observes again now if the last observation found little space: a second is long when events arrive fast. Reading
    /// the free space takes some microseconds.
    pub(crate) fn look_if_near(&self) {
        if self.room_bytes() < NEAR_BYTES {
            self.observe();
        }
    }

    /// Returns the bytes that may still be written before the watermark is reached, as of the last observation.
    pub(crate) fn room_bytes(&self) -> u64 {
        let space = *self.space.lock();
        let limits = *self.limits.lock();
        let required = limits
            .flood_stage
            .free_bytes_required(space.total_bytes, limits.headroom_bytes_max);
        space.available_bytes.saturating_sub(required)
    }

    /// Returns the bytes that may still be written before another watermark is reached, as of the last observation.
    pub(crate) fn room_below(&self, watermark: Watermark) -> u64 {
        let space = *self.space.lock();
        let required = watermark.free_bytes_required(space.total_bytes, LOW_HEADROOM_BYTES_MAX);
        space.available_bytes.saturating_sub(required)
    }

    /// Fails with [`ErrorKind::DiskFull`] while the disk is past its watermark.
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

    /// Returns the reason why writes are refused, if they are.
    pub(crate) fn block_reason(&self) -> Option<String> {
        self.block.load().as_ref().map(|block| block.reason.clone())
    }

    /// Returns the folder whose file system is watched.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last observation; zeros before the first.
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
    fn a_reserve_is_released_on_a_full_disk_and_made_again_before_writes_go_on() {
        const RESERVE: u64 = 2 << 20;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("reserve");
        let available = Arc::new(AtomicU64::new(100 << 20));
        let probe: SpaceProbe = {
            let available = Arc::clone(&available);
            Arc::new(move || Ok((1 << 30, available.load(Ordering::Relaxed))))
        };
        let watch = DiskWatch::new(folder.path().into(), probe, Watermark::FreeBytes(0), u64::MAX)
            .with_reserve(Some(DiskReserve::open(folder.path(), RESERVE)));
        watch.observe();
        assert!(file.exists() && !watch.is_out_of_space());
        available.store(1000, Ordering::Relaxed);
        watch.observe();
        assert!(!file.exists() && watch.is_out_of_space());
        assert!(watch.check("logs").is_err());
        available.store(RESERVE, Ordering::Relaxed);
        watch.observe();
        assert!(watch.check("logs").is_err(), "that is the reserve itself");
        available.store(100 << 20, Ordering::Relaxed);
        watch.observe();
        watch.check("logs").unwrap();
        assert!(file.exists() && !watch.is_out_of_space());
    }

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
