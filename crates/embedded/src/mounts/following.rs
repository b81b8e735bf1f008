//! Other nodes rewrite snapshots too: what this one has mounted follows.
//!
//! Nobody tells a node that a snapshot is another one now, and what it has of the old one goes on to answer, most of all
//! where all of it is here. So each repository is asked once in a while what its log says, which is one request as long
//! as that is nothing new, and at once when something suggests it: a split that is gone, a copy of an earlier process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use firn_model::Result;
use firn_model::settings::SnapshotStore;
use parking_lot::Mutex;

use super::switching::{is_same_index, key_of_index};
use crate::engine::Core;

/// Between two looks at the log of a repository, ms.
const LOOK_EVERY_MS: i64 = 60_000;
/// How long searches may go on, all together, that read what is gone: most are over by then.
const READERS_PATIENCE: Duration = Duration::from_secs(5);

/// By the uuids of a snapshot and of an index in it, the id of the manifest that the snapshot had.
type Seen = HashMap<(String, String), String>;

/// When repositories were looked at, and what was found.
pub(crate) struct Following {
    /// ms since epoch UTC.
    looked_ms: AtomicI64,
    is_looking: Arc<AtomicBool>,
    /// By repository, of what is mounted: so that a mount that nobody has read yet follows too.
    seen: Mutex<HashMap<String, Seen>>,
    /// Repositories that did not answer the last time, so that the log says it once.
    away: Mutex<HashSet<String>>,
}

/// A look is under way until this is dropped.
struct Looking(Arc<AtomicBool>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Following {
    /// The first look comes when anything of this node is used, or as late as any other.
    pub(crate) fn new(now_ms: i64) -> Self {
        Self {
            looked_ms: AtomicI64::new(now_ms),
            is_looking: Arc::default(),
            seen: Mutex::default(),
            away: Mutex::default(),
        }
    }

    /// Whether it is time to look at repositories again.
    fn is_due(&self, now_ms: i64) -> bool {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        // A clock that went back makes it look once more.
        !(looked_ms..looked_ms.saturating_add(LOOK_EVERY_MS)).contains(&now_ms)
    }
}

impl Core {
    /// Mounts read again what they read, if their snapshot is not what it was. To be called once in a while.
    pub(crate) fn follow_rewritten(self: &Arc<Self>) {
        let now_ms = self.now_ms();
        let following = &self.mounts.following;
        if following.is_looking.load(Ordering::Acquire) {
            return;
        }
        let suggested = [
            self.mounts.missed.swap(false, Ordering::AcqRel),
            self.mounts.manifests.take_unverified(),
        ];
        if !following.is_due(now_ms) && !suggested.contains(&true) {
            return;
        }
        let Ok(io) = self.io().cloned() else { return };
        following.looked_ms.store(now_ms, Ordering::Relaxed);
        let by_repository = self.mounted_by_repository();
        let is_mounted = |name: &String| by_repository.contains_key(name);
        following.seen.lock().retain(|name, _| is_mounted(name));
        following.away.lock().retain(is_mounted);
        following.is_looking.store(true, Ordering::Release);
        let looking = Looking(Arc::clone(&following.is_looking));
        // Weak, so that it keeps no closed engine alive.
        let core = Arc::downgrade(self);
        io.spawn_blocking(move || {
            let _looking = looking;
            let until = Instant::now() + READERS_PATIENCE;
            for (repository, stores) in &by_repository {
                let Some(core) = core.upgrade().filter(|core| !core.is_closing()) else {
                    return;
                };
                let looked = core.look_at_mounted(repository, stores, until);
                let mut away = core.mounts.following.away.lock();
                match looked {
                    Ok(()) => drop(away.remove(repository)),
                    Err(error) if away.insert(repository.clone()) => {
                        tracing::warn!(repository, %error, "cannot look whether mounted snapshots were rewritten");
                    }
                    Err(_) => {}
                }
            }
        });
    }

    /// What is mounted, each index of a snapshot once, by repository.
    fn mounted_by_repository(&self) -> BTreeMap<String, Vec<Arc<SnapshotStore>>> {
        let state = self.state();
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

    /// Holds what is mounted from a repository against what its log says now. One that cannot be read again holds up no other;
    /// the first such error comes back.
    fn look_at_mounted(&self, repository: &str, stores: &[Arc<SnapshotStore>], until: Instant) -> Result<()> {
        let log = self.io()?.block_on(self.repository(repository)?.state())?;
        let seen = self.mounts.following.seen.lock().remove(repository);
        let seen = seen.unwrap_or_default();
        let mut now_seen = Seen::new();
        let mut outcome = Ok(());
        for store in stores {
            // One that was removed is found out by whoever reads it.
            let entry = log.snapshots.get(&store.snapshot);
            let Some(entry) = entry.filter(|entry| entry.uuid == store.snapshot_uuid) else {
                continue;
            };
            let key = (store.snapshot_uuid.clone(), store.index_uuid.clone());
            let manifests = &self.mounts.manifests;
            let before = match manifests.known(store) {
                Some(known) => known.origin().snapshot_manifest,
                // Nobody reads it, so a copy of which that is not known can wait until somebody does.
                None => {
                    let kept = || manifests.kept_of(store).unwrap_or_else(|| entry.manifest.clone());
                    Some(seen.get(&key).cloned().unwrap_or_else(kept))
                }
            };
            let followed = match before.as_ref() == Some(&entry.manifest) {
                true => Ok(()),
                false => self.follow(store, until.saturating_duration_since(Instant::now())),
            };
            match (followed, before) {
                (Ok(()), _) => drop(now_seen.insert(key, entry.manifest.clone())),
                (Err(error), before) => {
                    // The next look tries again.
                    now_seen.extend(before.map(|before| (key, before)));
                    outcome = outcome.and(Err(error));
                }
            }
        }
        self.mounts
            .following
            .seen
            .lock()
            .insert(repository.to_owned(), now_seen);
        outcome
    }

    fn follow(&self, store: &SnapshotStore, patience: Duration) -> Result<()> {
        self.check_open()?;
        let state = self.state();
        let shards = state.mounted_slots().filter_map(|(_, slot)| slot.mounted());
        for shard in shards.filter(|shard| is_same_index(&shard.store, store)) {
            // Whoever knows what it read lets go what the cache has of it.
            let _ = self.manifest_here(&shard);
        }
        self.reread_mounted(store, patience)
    }
}
