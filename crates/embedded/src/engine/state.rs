//! What the engine knows at one moment: metadata, and for each index its compiled mapping and its
//! shards. A state never changes; commands publish the next one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::wal::Syncer;
use parking_lot::Mutex;

use crate::mapper::CompiledMapping;
use crate::shard::{Shard, ShardConfig};

/// Metadata and everything derived from it.
pub(crate) struct State {
    pub(crate) metadata: Arc<Metadata>,
    /// By concrete name.
    pub(crate) indices: BTreeMap<String, Arc<IndexState>>,
}

/// One index.
pub(crate) struct IndexState {
    pub(crate) metadata: Arc<IndexMetadata>,
    pub(crate) name: Arc<str>,
    /// Tag of made ids.
    pub(crate) tag: u32,
    pub(crate) compiled: Arc<CompiledMapping>,
    /// By number. The same slots live on through changes of mapping and settings.
    pub(crate) shards: Arc<[Arc<ShardSlot>]>,
}

impl State {
    /// The index of a concrete name.
    pub(crate) fn index(&self, name: &str) -> Result<&Arc<IndexState>> {
        self.indices.get(name).ok_or_else(|| Error::index_not_found(name))
    }

    /// Every shard slot.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&Arc<IndexState>, &Arc<ShardSlot>)> {
        self.indices
            .values()
            .flat_map(|index| index.shards.iter().map(move |slot| (index, slot)))
    }
}

/// A place for a shard: it may be open, damaged or closed.
pub(crate) struct ShardSlot {
    pub(crate) number: u32,
    shard: ArcSwap<Result<Arc<Shard>>>,
    pub(crate) counters: Counters,
    /// ms since epoch UTC.
    pub(crate) searched_ms: AtomicI64,
    /// ms since epoch UTC.
    pub(crate) written_ms: AtomicI64,
    /// ms since epoch UTC.
    pub(crate) refreshed_ms: AtomicI64,
    /// Segments may have come since the last look for merges.
    pub(crate) changed: AtomicBool,
    /// A background refresh is queued or running.
    pub(crate) refreshing: AtomicBool,
    /// A background flush is queued or running.
    pub(crate) flushing: AtomicBool,
    /// A background merge is queued or running.
    pub(crate) merging: AtomicBool,
    /// Buffers are being written out to free their memory.
    pub(crate) writing_out: AtomicBool,
    /// Nobody holds an open shard here, but one should be: the ticker, or whoever comes first, opens it.
    pub(crate) reopen: AtomicBool,
    /// Attempts to open it that failed in a row.
    pub(crate) reopen_failures: AtomicU32,
    /// The tick before which it is not tried again.
    pub(crate) reopen_tick: AtomicU64,
    /// Held while the shard is being opened.
    pub(crate) opening: Mutex<()>,
    /// Called after the next refresh.
    waiters: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// What the engine itself counts; the shard counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) search_total: AtomicU64,
    pub(crate) search_us: AtomicU64,
    pub(crate) get_total: AtomicU64,
    pub(crate) index_us: AtomicU64,
    pub(crate) refresh_us: AtomicU64,
    pub(crate) flush_us: AtomicU64,
}

impl ShardSlot {
    /// A slot around an open, damaged or closed shard.
    pub(crate) fn new(number: u32, shard: Result<Arc<Shard>>, now_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            number,
            shard: ArcSwap::from_pointee(shard),
            counters: Counters::default(),
            // Nobody has searched it yet: loading a new index should not make a segment a second.
            searched_ms: AtomicI64::new(0),
            written_ms: AtomicI64::new(now_ms),
            refreshed_ms: AtomicI64::new(now_ms),
            refreshing: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            merging: AtomicBool::new(false),
            writing_out: AtomicBool::new(false),
            changed: AtomicBool::new(true),
            reopen: AtomicBool::new(false),
            reopen_failures: AtomicU32::new(0),
            reopen_tick: AtomicU64::new(0),
            opening: Mutex::new(()),
            waiters: Mutex::new(Vec::new()),
        })
    }

    /// The shard, or why it does not serve.
    pub(crate) fn shard(&self) -> Result<Arc<Shard>> {
        match &**self.shard.load() {
            Ok(shard) => Ok(Arc::clone(shard)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Puts another shard (or none) in place and returns what was there.
    pub(crate) fn replace(&self, shard: Result<Arc<Shard>>) -> Arc<Result<Arc<Shard>>> {
        self.shard.swap(Arc::new(shard))
    }

    /// Makes everything applied searchable and lets those who wait for it go on.
    pub(crate) fn refresh(&self, now_ms: i64) -> Result<bool> {
        // Taken first: who comes while the refresh runs may have written after it began.
        let waiters = std::mem::take(&mut *self.waiters.lock());
        self.refreshed_ms.store(now_ms, Ordering::Relaxed);
        let started = Instant::now();
        let result = self.shard().and_then(|shard| shard.refresh());
        add_us(&self.counters.refresh_us, started);
        self.changed.store(true, Ordering::Relaxed);
        for waiter in waiters {
            waiter();
        }
        result
    }

    /// Makes everything applied durable as segments.
    pub(crate) fn flush(&self) -> Result<bool> {
        let shard = self.shard()?;
        let started = Instant::now();
        let result = shard.flush();
        add_us(&self.counters.flush_us, started);
        self.changed.store(true, Ordering::Relaxed);
        result
    }

    /// Calls `waiter` after the next refresh.
    pub(crate) fn after_refresh(&self, waiter: impl FnOnce() + Send + 'static) {
        self.waiters.lock().push(Box::new(waiter));
    }

    /// Whether someone waits for a refresh.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.lock().is_empty()
    }

    /// Lets everyone who waits go on: there will be no further refresh.
    pub(crate) fn release_waiters(&self) {
        for waiter in std::mem::take(&mut *self.waiters.lock()) {
            waiter();
        }
    }
}

/// Adds the time since `started`.
pub(crate) fn add_us(counter: &AtomicU64, started: Instant) {
    counter.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
}

/// Where and with what shards are made and opened.
#[derive(Clone)]
pub(crate) struct ShardFactory {
    pub(crate) path_data: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) buffers_max: usize,
    pub(crate) buffer_bytes_max: usize,
}

impl ShardFactory {
    /// `PATH_DATA/indices`.
    pub(crate) fn indices_dir(&self) -> PathBuf {
        self.path_data.join("indices")
    }

    /// The folder of an index.
    pub(crate) fn index_dir(&self, uuid: &str) -> PathBuf {
        self.indices_dir().join(uuid)
    }

    /// What a shard is opened with.
    pub(crate) fn shard_config(&self, index: &IndexMetadata, number: u32) -> ShardConfig {
        let settings = &index.settings;
        let dir = self.index_dir(&index.uuid).join(number.to_string());
        let mut config = ShardConfig::new(
            index.name.as_str(),
            index.uuid.as_str(),
            number,
            dir,
            Arc::clone(&self.disk),
            Arc::clone(&self.syncer),
        );
        config.durability = settings.durability;
        config.sync_interval_ms = settings.sync_interval_ms;
        config.flush_threshold_bytes = settings.flush_threshold_bytes;
        config.best_compression = settings.best_compression;
        config.buffers_max = self.buffers_max;
        config.buffer_bytes_max = self.buffer_bytes_max;
        config
    }

    /// Makes the folders and empty shards of a new index, durably, all of them or an error.
    pub(crate) fn create(&self, index: &IndexMetadata) -> Result<Vec<Arc<Shard>>> {
        let dir = self.index_dir(&index.uuid);
        let shards = self.create_in(index, &dir);
        if let Err(error) = &shards {
            // Whatever stays behind is removed at the next start, as no index refers to it.
            self.remove(&index.uuid);
            return Err(Error::new(error.kind(), "cannot make the files of the index")
                .with_index(&index.name)
                .caused_by(error.clone()));
        }
        shards
    }

    fn create_in(&self, index: &IndexMetadata, dir: &Path) -> Result<Vec<Arc<Shard>>> {
        self.disk.create_dir_all(dir)?;
        let mut shards = Vec::new();
        for number in 0..index.settings.number_of_shards {
            shards.push(Shard::create(self.shard_config(index, number))?);
        }
        self.disk.sync_dir(dir)?;
        self.disk.sync_dir(&self.indices_dir())?;
        Ok(shards)
    }

    /// Removes an index's folder; what cannot be removed now is removed at the next start.
    pub(crate) fn remove(&self, uuid: &str) {
        let dir = self.index_dir(uuid);
        match self.disk.remove_dir_all(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "cannot remove a deleted index's files yet");
            }
        }
    }

    /// Removes the folders under `indices` that no index refers to: left by a crash between
    /// making files and storing the index, or between deleting it and removing them.
    pub(crate) fn remove_unreferenced(&self, metadata: &Metadata) -> Result<usize> {
        let mut removed = 0;
        for entry in self.disk.list(&self.indices_dir())? {
            let referenced = metadata.indices.values().any(|index| index.uuid == entry.name);
            if entry.is_dir && !referenced {
                self.remove(&entry.name);
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Why a closed index's shards do not serve.
pub(crate) fn closed_error(name: &str) -> Error {
    Error::new(ErrorKind::IndexClosed, "closed").with_index(name)
}
