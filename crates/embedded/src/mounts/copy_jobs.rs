//! Background download of full copies of splits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::local_copies::LocalSplit;
use super::{MountService, MountedShard};

/// Splits that are copied concurrently: two keep a network busy while one is verified, and leave most requests to
/// searches.
const COPIES_MAX: usize = 2;

/// The uuid of an index and the number of a shard.
type ShardKey = (Arc<str>, u32);

/// Shards that are being copied.
#[derive(Default)]
pub(crate) struct Copying {
    /// Each with the shard that wants the copy.
    shards: Mutex<HashMap<ShardKey, Weak<MountedShard>>>,
}

impl MountService {
    /// Starts missing copies of the shards of indices that are mounted as `full_copy`. Must be called regularly: failed
    /// copies are tried again, damaged ones are made again.
    pub(crate) fn copy_mounted(self: &Arc<Self>) {
        if self.repositories.io().is_err() {
            return;
        }
        let (state, now) = (self.node.state(), Instant::now());
        for (_, slot) in state.mounted_slots() {
            let Some(shard) = slot.mounted().filter(|shard| !shard.store.partial) else {
                continue;
            };
            let is_whole = || {
                let copies = shard.copies(&self.node.config.disk);
                copies.iter().all(|copy| copy.is_whole())
            };
            if shard.known().is_some() && is_whole() || !shard.copy_backoff.is_over(now) {
                continue;
            }
            self.copy_shard(shard);
        }
    }

    fn copy_shard(self: &Arc<Self>, shard: Arc<MountedShard>) {
        let key = (Arc::clone(&shard.uuid), shard.number);
        {
            let mut copying = self.copying.shards.lock();
            if copying.len() >= COPIES_MAX || copying.contains_key(&key) {
                return;
            }
            copying.insert(key.clone(), Arc::downgrade(&shard));
        }
        let Ok(io) = self.repositories.io().cloned() else {
            return;
        };
        // Weak, so that a copy does not keep a closed engine alive.
        let service = Arc::downgrade(self);
        io.spawn(async move {
            let Some(service) = service.upgrade() else { return };
            let copied = service.copy_splits(&shard).await;
            shard.copy_backoff.note(copied.is_ok(), Instant::now());
            service.copying.shards.lock().remove(&key);
            match copied {
                Ok(()) => {
                    shard.note_copied(service.node.now_ms());
                    tracing::info!(index = &*shard.index, shard = shard.number, "copied a mounted shard");
                }
                Err(error) if error.kind() == ErrorKind::Cancelled => {}
                Err(error) => {
                    tracing::warn!(index = &*shard.index, shard = shard.number, %error, "cannot copy a mounted shard");
                }
            }
        });
    }

    async fn copy_splits(&self, shard: &Arc<MountedShard>) -> Result<()> {
        let repository = self.repositories.repository(&shard.store.repository)?;
        if shard.known().is_none() {
            let known = self.manifests.get(&shard.store, || Ok(Arc::clone(&repository)));
            shard.learn(known.await?);
        }
        for copy in shard.copies(&self.node.config.disk) {
            let copy: &Arc<LocalSplit> = copy;
            if copy.is_whole() {
                continue;
            }
            self.check_room_for(shard, copy.len())?;
            let go_on = || self.check_room_for(shard, 0);
            copy.complete(&**repository.store(), &go_on).await?;
        }
        Ok(())
    }

    /// Whether splits are being copied for an older shard that this one replaced.
    pub(super) fn copies_for_another(&self, shard: &Arc<MountedShard>) -> bool {
        let copying = self.copying.shards.lock();
        let wanting = copying.get(&(Arc::clone(&shard.uuid), shard.number));
        wanting.is_some_and(|wanting| !std::ptr::eq(wanting.as_ptr(), Arc::as_ptr(shard)))
    }

    /// Whether more bytes of a shard may be copied: its index still exists and reads the same manifest, and the device
    /// of its copies has free space. A copy ends when its device fills up.
    fn check_room_for(&self, shard: &MountedShard, bytes: u64) -> Result<()> {
        let gone = || Error::new(ErrorKind::Cancelled, "the index was deleted, or the node stops");
        let state = self.node.state();
        let index = state.index(&shard.index).map_err(|_| gone())?;
        let slot = index.shards.get(shard.number as usize);
        let reads_it = |now: Arc<MountedShard>| std::ptr::eq(&*now, shard);
        if self.node.is_closing()
            || index.metadata.uuid != *shard.uuid
            || !slot.and_then(|slot| slot.mounted()).is_some_and(reads_it)
        {
            return Err(gone());
        }
        let Some(watch) = self.devices.watch(self.node.factory.tier_of_mounted(&index.metadata)) else {
            return Ok(());
        };
        watch.look_if_near();
        watch.check(&shard.index)?;
        match watch.room_bytes() {
            room if room > bytes => Ok(()),
            room => Err(Error::new(
                ErrorKind::DiskFull,
                format!(
                    "no space for a copy of {bytes} bytes of [{}][{}]: {room} bytes remain before the flood-stage \
                     watermark",
                    shard.index, shard.number
                ),
            )),
        }
    }
}
