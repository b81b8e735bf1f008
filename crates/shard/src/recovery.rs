//! Creation, opening and replay of a shard.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use firn_model::settings::Durability;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::commit_point::{CommitPoint, damaged, file_name, read_deletes, segments_dir};
use firn_segment::segment::ShardSnapshot;
use firn_storage::wal::{Wal, WalOptions};
use parking_lot::Mutex;

use super::config::ShardConfig;
use super::live_segments::{LiveSegment, OpenSegment};
use super::state::State;
use super::{Counters, Published, ReplayMapper, Shard};

impl Shard {
    pub(super) fn create_new(config: ShardConfig) -> Result<Arc<Self>> {
        if Self::exists(&*config.disk, &config.dir)? {
            return Err(Error::new(
                ErrorKind::ResourceAlreadyExists,
                format!("folder [{}] holds a shard already", config.dir.display()),
            ));
        }
        let disk = &*config.disk;
        // Files of a creation that a crash interrupted: it was never acknowledged.
        if disk.exists(&config.dir)? {
            disk.remove_dir_all(&config.dir)?;
        }
        disk.create_dir_all(&segments_dir(&config.dir))?;
        let wal = open_wal(&config, 1, &mut |_, _| Ok(()))?;
        let first = CommitPoint {
            number: 1,
            index_uuid: config.index_uuid.to_string(),
            shard: config.shard,
            // The catalog does not name the shard yet.
            catalog: None,
            next_seq_no: 0,
            next_generation: 1,
            wal_generation: wal.generation(),
            segments: Vec::new(),
            source_marks: BTreeMap::new(),
        };
        first.write(disk, &config.dir)?;
        for dir in [
            Some(config.dir.as_path()),
            config.dir.parent(),
            config.dir.parent().and_then(Path::parent),
        ] {
            if let Some(dir) = dir.filter(|dir| !dir.as_os_str().is_empty()) {
                disk.sync_dir(dir)?;
            }
        }
        let shard = Self::assemble(config, State::new(), first);
        let _ = shard.wal.set(wal);
        Ok(Arc::new(shard))
    }

    pub(super) fn open_existing(config: ShardConfig, map: &ReplayMapper<'_>) -> Result<Arc<Self>> {
        let (shard, wal_generation) = Self::open_commit_point(config)?;
        let wal = shard.replay_wal(wal_generation, map)?;
        let _ = shard.wal.set(wal);
        shard.refresh_all()?;
        Ok(Arc::new(shard))
    }

    /// `map` maps the WAL's events; `None`: they are left out, and the shard reports that.
    pub(super) fn open_for_reading(
        config: ShardConfig,
        map: Option<&ReplayMapper<'_>>,
        reason: Error,
    ) -> Result<Arc<Self>> {
        let (mut shard, wal_generation) = Self::open_commit_point(config)?;
        let wal = match map {
            Some(map) => shard.replay_wal(wal_generation, map)?,
            None => open_wal(&shard.config, wal_generation, &mut |_, _| Ok(()))?,
        };
        let _ = shard.wal.set(wal);
        shard.refresh_all()?;
        if map.is_none() {
            shard.state.lock().stop(reason.clone());
            // There are events that searches do not see.
            shard.flags.set_dirty(true);
        }
        shard.read_only = Some(reason);
        Ok(Arc::new(shard))
    }

    /// Opens the segments of the newest commit point; returns also the WAL generation to replay from.
    fn open_commit_point(config: ShardConfig) -> Result<(Self, u64)> {
        let Some(point) = CommitPoint::read_newest(&*config.disk, &config.dir)? else {
            return Err(Error::new(
                ErrorKind::ShardDamaged,
                format!("folder [{}] holds no commit point of a shard", config.dir.display()),
            ));
        };
        if point.index_uuid != *config.index_uuid || point.shard != config.shard {
            let path = config.dir.join(file_name(point.number));
            return Err(damaged(
                &path,
                &format!(
                    "it belongs to shard {} of the index with uuid {}",
                    point.shard, point.index_uuid
                ),
            ));
        }
        let mut state = State::new();
        state.next_seq_no = point.next_seq_no;
        state.next_generation = point.next_generation;
        state.source_marks = point.source_marks.clone();
        for committed in &point.segments {
            let deletes = match &committed.deletes {
                None => Default::default(),
                Some(file) => read_deletes(&*config.disk, &config.dir, file, committed.meta.docs)?,
            };
            state.segments.push(LiveSegment {
                open: OpenSegment::open(&config, committed.meta.clone())?,
                deletes,
                committed_deletes: committed.deletes.clone(),
                committed: true,
                published: None,
            });
        }
        let wal_generation = point.wal_generation;
        // The process may have been killed between the rename of the commit point and the sync of its folder. The files
        // it replaces are removed now, so its directory entry must be durable first.
        config.disk.sync_dir(&config.dir)?;
        let shard = Self::assemble(config, state, point);
        shard.remove_left_overs()?;
        Ok((shard, wal_generation))
    }

    pub(super) fn remove_uncommitted_segments(config: &ShardConfig) -> Result<()> {
        let Some(point) = CommitPoint::read_newest(&*config.disk, &config.dir)? else {
            return Ok(());
        };
        let live: HashSet<u64> = point.segments.iter().map(|segment| segment.meta.generation).collect();
        let folder = segments_dir(&config.dir);
        for entry in config.disk.list(&folder)?.iter().filter(|entry| entry.is_dir) {
            let generation = entry.name.strip_prefix('_').and_then(|name| name.parse().ok());
            if generation.is_some_and(|generation: u64| !live.contains(&generation)) {
                config.disk.remove_dir_all(&folder.join(&entry.name))?;
            }
        }
        Ok(())
    }

    fn assemble(config: ShardConfig, state: State, point: CommitPoint) -> Self {
        let snapshot = ShardSnapshot {
            index: Arc::clone(&config.index),
            index_tag: config.index_tag,
            shard: config.shard,
            tenant_field: config.tenant_field.clone(),
            segments: Vec::new(),
        };
        Self {
            durability: Mutex::new(config.durability),
            flush_threshold_bytes: config.flush_threshold_bytes.into(),
            config,
            flags: Arc::clone(&state.flags),
            wal: std::sync::OnceLock::new(),
            read_only: None,
            state: Mutex::new(state),
            commit_lock: Mutex::new(point),
            refresh_lock: Mutex::new(()),
            merge_lock: Mutex::new(()),
            merged_away: Mutex::default(),
            published: ArcSwap::from_pointee(Published {
                snapshot: Arc::new(snapshot),
                open: Vec::new(),
            }),
            counters: Counters::default(),
        }
    }

    /// Removes segments and deletes that no commit point names, left by a crash.
    fn remove_left_overs(&self) -> Result<()> {
        let point = self.commit_lock.lock().clone();
        let live: HashSet<u64> = point.segments.iter().map(|segment| segment.meta.generation).collect();
        self.remove_unneeded(&point, &live, u64::MAX)
    }
}

/// Opens the log of a shard, from the generation in its commit point; 0: there is no log.
pub(super) fn open_wal(
    config: &ShardConfig,
    from_generation: u64,
    replay: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<Wal> {
    let options = WalOptions {
        sync_interval: sync_interval(config.durability, config.sync_interval_ms),
        keep_from_generation: from_generation,
        ..WalOptions::default()
    };
    let identity = identity(config);
    let dir = config.dir.join("wal");
    Wal::open(
        Arc::clone(&config.disk),
        &dir,
        identity,
        options,
        &config.syncer,
        &mut |record| replay(record.payload, record.offset),
    )
}

pub(super) fn sync_interval(durability: Durability, interval_ms: u64) -> Option<Duration> {
    (durability == Durability::Async).then(|| Duration::from_millis(interval_ms))
}

/// Identity that ties the WAL to its shard: FNV-1a of the index's uuid and the shard's number.
fn identity(config: &ShardConfig) -> u64 {
    let shard = config.shard.to_le_bytes();
    config
        .index_uuid
        .bytes()
        .chain(shard)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
