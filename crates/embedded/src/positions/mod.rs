//! Positions of sources: which bulk of each partition is the last one, and where its events may be.
//!
//! One write-ahead log of the node (`path.data/positions/`) holds the [`Intent`] of each bulk with an origin; the last record
//! of a partition wins. A bulk is complete once its events are durable in their shards, which is not recorded: after a restart
//! the last bulk counts as incomplete, its source sends it again, and the marks in the shards tell which of its events are
//! there. Format: `docs/formats/positions.md`.

mod intent;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::wal::{DurableCallback, Position, Syncer, Wal, WalOptions};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

pub(crate) use self::intent::{Intent, Settled, ShardOutcome, TargetShard};

/// Name of the folder in `path.data`.
pub(crate) const FOLDER: &str = "positions";
/// Bytes and records of the log above which it is written anew with the last record of each partition. A multiple of the
/// partitions, so that the work stays in proportion.
const LOG_BYTES_MAX: u64 = 32 << 20;
const RECORDS_MAX: u64 = 20_000;
const RECORDS_PER_PARTITION: u64 = 4;
/// Maximum number of partitions of all sources; each takes some hundred bytes.
const PARTITIONS_MAX: usize = 1_000_000;

/// Stands between source and partition in the keys of marks.
const MARK_SEPARATOR: char = '\u{1f}';

/// Starts what is added to the name of a partition for its dead letters and alerts.
const MARK: char = '#';

type Key = (String, String);

/// Last bulk of a partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastBulk {
    /// `None`: there was no bulk yet.
    pub(crate) intent: Option<Intent>,
    /// Everything up to this offset is stored; `None`: unknown, the bulk of the intent may be stored in part, or its dead
    /// letters may be missing.
    pub(crate) complete_to: Option<u64>,
    /// Shards of earlier intents, until the last one is durable.
    shards_before: Vec<TargetShard>,
    /// Every event of the last bulk is stored or rejected.
    pub(crate) is_stored: bool,
    /// Totals of the stored bulks.
    pub(crate) totals: SourceTotals,
}

/// State of a partition. One bulk at a time holds its turn.
#[derive(Debug, Default)]
struct Partition {
    turn: Arc<tokio::sync::Mutex<()>>,
    last: Mutex<LastBulk>,
}

impl Partition {
    /// Returns the position; `None`: there was no bulk yet.
    fn position(&self, name: &str) -> Option<SourcePosition> {
        let last = self.last.lock();
        let intent = last.intent.as_ref()?;
        Some(SourcePosition {
            partition: name.to_owned(),
            resume_offset: last
                .complete_to
                .map_or(intent.first_offset, |last| last.saturating_add(1)),
            complete_offset: last.complete_to,
            totals: last.totals,
            note: intent.note.as_deref().map(Into::into),
        })
    }
}

/// See the module.
pub(crate) struct SourcePositions {
    /// An error if the log could not be opened: bulks with an origin are refused with it.
    log: Result<Wal>,
    partitions: Arc<Partitions>,
    /// Held while the log is written anew.
    rewriting: Mutex<()>,
    /// Records since the log was written anew.
    records: AtomicU64,
}

/// All partitions, by source and name.
#[derive(Default)]
pub(crate) struct Partitions {
    by_key: Mutex<BTreeMap<Key, Arc<Partition>>>,
    /// The log was read: a partition that is not here has no bulk.
    is_complete: AtomicBool,
}

impl Partitions {
    /// Whether a shard's mark of a partition is needed: its last bulk may be stored in part, and may have written to the
    /// shard. `key` as in the marks.
    pub(crate) fn needs_mark(&self, key: &str, index_uuid: &str, shard: u32) -> bool {
        let Some((source, partition)) = key.split_once(MARK_SEPARATOR) else {
            return true;
        };
        if !self.is_complete.load(Ordering::Acquire) {
            return true;
        }
        let partition = self
            .by_key
            .lock()
            .get(&(source.to_owned(), partition.to_owned()))
            .cloned();
        let Some(partition) = partition else { return false };
        let last = partition.last.lock();
        let is_it = |target: &TargetShard| target.shard == shard && target.index_uuid == index_uuid;
        let shards = last.intent.iter().flat_map(|intent| &intent.shards);
        shards.chain(&last.shards_before).any(is_it)
    }
}

/// The turn of a bulk in its partition.
pub(crate) struct Turn {
    partition: Arc<Partition>,
    _turn: OwnedMutexGuard<()>,
}

impl SourcePositions {
    /// Opens or creates the log in the data folder. If it is damaged, the node starts without it, and bulks with an origin
    /// are refused.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path_data: &Path,
        cluster_uuid: &str,
        syncer: &Syncer,
        shared: Arc<Partitions>,
    ) -> Self {
        let mut partitions: BTreeMap<Key, Arc<Partition>> = BTreeMap::new();
        let log = Wal::open(
            disk,
            &path_data.join(FOLDER),
            identity(cluster_uuid),
            WalOptions::default(),
            syncer,
            &mut |record| {
                let intent = Intent::from_bytes(record.payload)?;
                if intent.is_forgotten {
                    partitions.remove(&key_of(&intent));
                    return Ok(());
                }
                let partition: &Arc<Partition> = partitions.entry(key_of(&intent)).or_default();
                *partition.last.lock() = LastBulk {
                    totals: intent.totals_before(),
                    complete_to: intent.complete_to,
                    is_stored: intent.complete_to.is_some(),
                    intent: Some(intent),
                    shards_before: Vec::new(),
                };
                Ok(())
            },
        );
        if let Err(error) = &log {
            tracing::error!(%error, "cannot open the positions of sources: sources that can be read again do not run");
        }
        *shared.by_key.lock() = partitions;
        shared.is_complete.store(log.is_ok(), Ordering::Release);
        Self {
            records: AtomicU64::new(log.as_ref().map_or(0, Wal::operations)),
            log,
            partitions: shared,
            rewriting: Mutex::default(),
        }
    }

    /// Waits for the turn of a bulk.
    pub(crate) async fn turn(&self, origin: &Origin) -> Result<Turn> {
        self.log()?;
        let partition = {
            let mut partitions = self.partitions.by_key.lock();
            let key = (origin.source.to_string(), origin.partition.to_string());
            if partitions.len() >= PARTITIONS_MAX && !partitions.contains_key(&key) {
                return Err(Error::new(
                    ErrorKind::Rejected,
                    format!("this node has the maximum of [{PARTITIONS_MAX}] partitions of sources"),
                ));
            }
            Arc::clone(partitions.entry(key).or_default())
        };
        let turn = Arc::clone(&partition.turn).lock_owned().await;
        Ok(Turn { partition, _turn: turn })
    }

    /// Appends an intent to the log. It is durable after [`SourcePositions::wait_durable`].
    pub(crate) fn record(&self, turn: &Turn, intent: Intent) -> Result<Position> {
        let log = self.log()?;
        let bytes = intent.to_bytes()?;
        // The memory first: a log that is written anew meanwhile must hold the record, too.
        {
            let mut last = turn.partition.last.lock();
            last.totals = intent.totals_before();
            let before = last.intent.replace(intent);
            last.shards_before
                .extend(before.into_iter().flat_map(|before| before.shards));
            last.complete_to = None;
            last.is_stored = false;
        }
        if log.failure().is_some() {
            // A disk that was full may have space again.
            log.try_heal()?;
        }
        self.records.fetch_add(1, Ordering::Relaxed);
        log.append(&[&bytes])
    }

    /// Calls back once an intent is durable, or cannot become durable; see [`Wal::wait_durable`].
    pub(crate) fn wait_durable(&self, position: Position, callback: DurableCallback) {
        match &self.log {
            Ok(log) => log.wait_durable(position, callback),
            Err(error) => callback(Err(error.clone())),
        }
    }

    /// Returns the positions of a source, sorted by partition.
    pub(crate) fn of_source(&self, source: &str) -> Result<Vec<SourcePosition>> {
        self.log()?;
        let partitions = self.partitions.by_key.lock();
        let of_source = partitions
            .range((source.to_owned(), String::new())..)
            .take_while(|((of, _), _)| of == source);
        let position = |((_, name), partition): (&Key, &Arc<Partition>)| partition.position(name);
        Ok(of_source.filter_map(position).collect())
    }

    /// Returns the position of one partition; `None`: it has none.
    pub(crate) fn of_partition(&self, source: &str, name: &str) -> Result<Option<SourcePosition>> {
        self.log()?;
        let partitions = self.partitions.by_key.lock();
        let partition = partitions.get(&(source.to_owned(), name.to_owned()));
        Ok(partition.and_then(|partition| partition.position(name)))
    }

    /// Forgets partitions of a source, and those of their dead letters and alerts. Returns how many were forgotten; one that is being
    /// written stays. After a crash a partition may be there again.
    pub(crate) fn forget(&self, source: &str, names: &[String]) -> Result<u64> {
        let log = self.log()?;
        let mut forgotten = 0;
        for name in names {
            // Under the lock, so that neither a bulk nor a log that is written anew takes the partition up meanwhile.
            let mut partitions = self.partitions.by_key.lock();
            let own = std::iter::once(name.clone());
            let marked = partitions
                .range((source.to_owned(), format!("{name}{MARK}"))..)
                .map(|((of, partition), _)| (of, partition))
                .take_while(|(of, partition)| *of == source && partition.strip_prefix(name).is_some_and(is_marked))
                .map(|(_, partition)| partition.clone());
            let keys: Vec<Key> = own
                .chain(marked)
                .map(|partition| (source.to_owned(), partition))
                .collect();
            let is_busy = |key: &Key| {
                partitions
                    .get(key)
                    .is_some_and(|partition| Arc::strong_count(partition) > 1)
            };
            if keys.iter().any(is_busy) {
                continue;
            }
            for key in keys {
                if !partitions.contains_key(&key) {
                    continue;
                }
                let (source, partition) = key.clone();
                let record = Intent {
                    source,
                    partition,
                    is_forgotten: true,
                    ..Intent::default()
                };
                log.append(&[&record.to_bytes()?])?;
                self.records.fetch_add(1, Ordering::Relaxed);
                partitions.remove(&key);
                forgotten += u64::from(key.1 == *name);
            }
        }
        Ok(forgotten)
    }

    /// Writes the log anew if it is too large: the last record of each partition. Waits for the disk.
    pub(crate) fn rewrite_if_large(&self) -> Result<()> {
        let log = self.log()?;
        let partitions_count = self.partitions.by_key.lock().len() as u64;
        let records_max = RECORDS_MAX.max(RECORDS_PER_PARTITION * partitions_count);
        if log.size_bytes() <= LOG_BYTES_MAX.max(partitions_count * 1024)
            && self.records.load(Ordering::Relaxed) <= records_max
        {
            return Ok(());
        }
        self.rewrite(log)
    }

    fn rewrite(&self, log: &Wal) -> Result<()> {
        let Some(_rewriting) = self.rewriting.try_lock() else {
            return Ok(());
        };
        let generation = log.rotate()?;
        // From here on every record goes to the new file; those before are in memory.
        let partitions: Vec<_> = self.partitions.by_key.lock().values().cloned().collect();
        self.records.store(partitions.len() as u64, Ordering::Relaxed);
        let mut completed = Vec::new();
        for partition in partitions {
            // Under the lock of the partition: a later intent must come later in the log.
            let last = partition.last.lock();
            let Some(intent) = &last.intent else { continue };
            let bytes = match last.complete_to {
                Some(complete_to) => intent.complete(complete_to, &last.totals).to_bytes()?,
                None => intent.to_bytes()?,
            };
            log.append(&[&bytes])?;
            completed.extend(
                last.complete_to
                    .map(|_| (Arc::clone(&partition), intent.epoch, intent.last_offset)),
            );
        }
        log.sync_blocking(log.end())?;
        log.trim(generation)?;
        // Now that it is durable, the marks of these bulks are not needed.
        for (partition, epoch, last_offset) in completed {
            let mut last = partition.last.lock();
            let LastBulk {
                intent: Some(intent),
                complete_to: Some(complete_to),
                totals,
                ..
            } = &mut *last
            else {
                continue;
            };
            if (intent.epoch, intent.last_offset) == (epoch, last_offset) {
                *intent = intent.complete(*complete_to, totals);
            }
        }
        Ok(())
    }

    /// Makes everything durable and releases the files.
    pub(crate) fn close(&self, reason: Error) {
        if let Ok(log) = &self.log {
            log.close(reason);
        }
    }

    /// Releases the files without a sync, as a killed process.
    pub(crate) fn abandon(&self, reason: Error) {
        if let Ok(log) = &self.log {
            log.abandon(reason);
        }
    }

    fn log(&self) -> Result<&Wal> {
        self.log.as_ref().map_err(Error::clone)
    }
}

impl Turn {
    /// Returns the last bulk of the partition.
    pub(crate) fn last(&self) -> LastBulk {
        self.partition.last.lock().clone()
    }

    /// Returns the totals of the stored bulks.
    pub(crate) fn totals(&self) -> SourceTotals {
        self.partition.last.lock().totals
    }

    /// Notes that the last intent is durable.
    pub(crate) fn recorded(&self) {
        self.partition.last.lock().shards_before = Vec::new();
    }

    /// Notes the totals of a bulk that is stored but for rejected events. `complete_to`: everything up to this offset is
    /// stored.
    pub(crate) fn complete(&self, complete_to: Option<u64>, totals: SourceTotals) {
        let mut last = self.partition.last.lock();
        last.complete_to = complete_to;
        last.is_stored = true;
        last.totals = totals;
    }
}

fn is_marked(rest: &str) -> bool {
    rest.starts_with(MARK)
}

fn key_of(intent: &Intent) -> Key {
    (intent.source.clone(), intent.partition.clone())
}

/// Returns the key of a partition in the marks of shards.
pub(crate) fn mark_key(origin: &Origin) -> String {
    format!("{}{MARK_SEPARATOR}{}", origin.source, origin.partition)
}

/// Identity that ties the log to its cluster: FNV-1a of the uuid.
fn identity(cluster_uuid: &str) -> u64 {
    cluster_uuid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
