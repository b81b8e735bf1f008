//! Detection of snapshots that other nodes rewrote, and update of their mounts.
//!
//! No message tells a node that a snapshot was rewritten, and its copies of the old snapshot keep answering, above all
//! if they are complete. So each repository's log is read regularly, which is one request if there is no new commit,
//! and at once if there is a sign of a change: a missing split, or a manifest copy of an earlier process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use firn_model::Result;
use firn_model::settings::SnapshotStore;
use parking_lot::Mutex;

use super::MountService;
use super::snapshot_switch::{is_same_index, key_of_index};

/// Interval between reads of a repository's log, ms.
const LOOK_EVERY_MS: i64 = 60_000;
/// How long searches that read removed splits may continue, in total: most have ended by then.
const READERS_PATIENCE: Duration = Duration::from_secs(5);

/// The id of the snapshot's manifest, by the uuids of a snapshot and of an index in it.
type KnownManifest = HashMap<(String, String), String>;

/// State of the detection: time of the last check and its results.
pub(crate) struct SnapshotChanges {
    /// ms since epoch UTC.
    looked_ms: AtomicI64,
    is_looking: Arc<AtomicBool>,
    /// Results by repository. With them also a mount that was never searched follows a rewrite.
    seen: Mutex<HashMap<String, KnownManifest>>,
    /// Repositories that failed at the last check, so that this is logged once.
    away: Mutex<HashSet<String>>,
}

/// A running check, until this is dropped.
struct CheckGuard(Arc<AtomicBool>);

impl Drop for CheckGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl SnapshotChanges {
    /// The first check runs when a manifest copy of this node is used, or after one interval.
    pub(crate) fn new(now_ms: i64) -> Self {
        Self {
            looked_ms: AtomicI64::new(now_ms),
            is_looking: Arc::default(),
            seen: Mutex::default(),
            away: Mutex::default(),
        }
    }

    /// Whether the next check is due.
    fn is_due(&self, now_ms: i64) -> bool {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        // A clock that went back causes one more check.
        !(looked_ms..looked_ms.saturating_add(LOOK_EVERY_MS)).contains(&now_ms)
    }
}

impl MountService {
    /// Reloads mounts whose snapshot was rewritten. Must be called regularly.
    pub(crate) fn follow_rewritten(self: &Arc<Self>) {
        let now_ms = self.node.now_ms();
        let following = &self.following;
        if following.is_looking.load(Ordering::Acquire) {
            return;
        }
        let suggested = [
            self.missed.swap(false, Ordering::AcqRel),
            self.manifests.take_unverified(),
        ];
        if !following.is_due(now_ms) && !suggested.contains(&true) {
            return;
        }
        let Ok(io) = self.repositories.io().cloned() else {
            return;
        };
        following.looked_ms.store(now_ms, Ordering::Relaxed);
        let by_repository = self.mounted_by_repository();
        let is_mounted = |name: &String| by_repository.contains_key(name);
        following.seen.lock().retain(|name, _| is_mounted(name));
        following.away.lock().retain(is_mounted);
        following.is_looking.store(true, Ordering::Release);
        let looking = CheckGuard(Arc::clone(&following.is_looking));
        // Weak, so that the check does not keep a closed engine alive.
        let service = Arc::downgrade(self);
        io.spawn_blocking(move || {
            let _looking = looking;
            let until = Instant::now() + READERS_PATIENCE;
            for (repository, stores) in &by_repository {
                let Some(service) = service.upgrade().filter(|service| !service.node.is_closing()) else {
                    return;
                };
                let looked = service.look_at_mounted(repository, stores, until);
                let mut away = service.following.away.lock();
                match looked {
                    Ok(()) => drop(away.remove(repository)),
                    Err(error) if away.insert(repository.clone()) => {
                        tracing::warn!(repository, %error, "cannot check whether mounted snapshots were rewritten");
                    }
                    Err(_) => {}
                }
            }
        });
    }

    /// Returns the mounted indices, each index of a snapshot once, by repository.
    fn mounted_by_repository(&self) -> BTreeMap<String, Vec<Arc<SnapshotStore>>> {
        let state = self.node.state();
        let stores = state.metadata.indices.values();
        let stores = stores.filter_map(|index| index.settings.snapshot.as_ref());
        let each: BTreeMap<_, _> = stores.map(|store| (key_of_index(store), store)).collect();
        let mut by_repository: BTreeMap<String, Vec<Arc<SnapshotStore>>> = BTreeMap::new();
        for store in each.into_values() {
            let own = by_repository.entry(store.repository.clone()).or_default();
            own.push(Arc::clone(store));
        }
        by_repository
    }

    /// Compares the mounts of a repository with its log. If one mount cannot be reloaded, the others still are; returns
    /// the first such error.
    fn look_at_mounted(&self, repository: &str, stores: &[Arc<SnapshotStore>], until: Instant) -> Result<()> {
        let log = self
            .repositories
            .io()?
            .block_on(self.repositories.repository(repository)?.state())?;
        let seen = self.following.seen.lock().remove(repository);
        let seen = seen.unwrap_or_default();
        let mut now_seen = KnownManifest::new();
        let mut outcome = Ok(());
        for store in stores {
            // A removed snapshot is found by the next read of it.
            let entry = log.snapshots.get(&store.snapshot);
            let Some(entry) = entry.filter(|entry| entry.uuid == store.snapshot_uuid) else {
                continue;
            };
            let key = (store.snapshot_uuid.clone(), store.index_uuid.clone());
            let manifests = &self.manifests;
            let before = match manifests.known(store) {
                Some(known) => known.origin().snapshot_manifest,
                // The manifest is not in memory. If its copy does not record the snapshot's manifest, this waits until
                // the manifest is read.
                None => {
                    let recorded = || manifests.id_in_copy(store).unwrap_or_else(|| entry.manifest.clone());
                    Some(seen.get(&key).cloned().unwrap_or_else(recorded))
                }
            };
            let followed = match before.as_ref() == Some(&entry.manifest) {
                true => Ok(()),
                false => self.follow(store, until.saturating_duration_since(Instant::now())),
            };
            match (followed, before) {
                (Ok(()), _) => drop(now_seen.insert(key, entry.manifest.clone())),
                (Err(error), before) => {
                    // The next check tries again.
                    now_seen.extend(before.map(|before| (key, before)));
                    outcome = outcome.and(Err(error));
                }
            }
        }
        self.following.seen.lock().insert(repository.to_owned(), now_seen);
        outcome
    }

    fn follow(&self, store: &SnapshotStore, patience: Duration) -> Result<()> {
        self.node.check_open()?;
        let state = self.node.state();
        let shards = state.mounted_slots().filter_map(|(_, slot)| slot.mounted());
        for shard in shards.filter(|shard| is_same_index(&shard.store, store)) {
            // A shard that knows its old manifest can release the cached data of it.
            let _ = self.manifest_here(&shard);
        }
        self.reread_mounted(store, patience)
    }
}
