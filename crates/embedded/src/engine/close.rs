//! Closing of the engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::services::Services;
use crate::node::closing_error;

/// Time for which closing waits for a running merge.
const MERGE_PATIENCE: Duration = Duration::from_secs(3);

impl Services {
    /// Makes everything durable and releases the files.
    pub(super) fn close(&self) -> Result<()> {
        self.opener.end_recovery();
        self.devices.hot.release_reserve_if_full();
        self.pools.write.close();
        self.positions.close(closing_error());
        self.pools.get.close();
        self.pools.maintenance.close();
        self.pools.search.close();
        self.contexts.clear();
        let state = self.node.state();
        let slots: Vec<_> = state.slots().collect();
        let next = AtomicUsize::new(0);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.node.config.write_threads.clamp(1, 4) {
                scope.spawn(|| {
                    while let Some((index, slot)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                        slot.replace(Err(closing_error()));
                        slot.release_waiters();
                        match slot.close_retired() {
                            Ok(()) => {}
                            Err(error) if error.kind() == ErrorKind::DiskFull => {
                                tracing::warn!(
                                    index = &*index.name, shard = slot.number, %error,
                                    "the disk is full: the next start replays the write-ahead log of the shard"
                                );
                            }
                            Err(error) => {
                                failure.lock().get_or_insert(error.with_index(&*index.name));
                            }
                        }
                    }
                });
            }
        });
        self.repositories.stop();
        // A snapshot that does not end soon is waiting for its store, and touches no file of a shard.
        self.pools.snapshot.close_within(MERGE_PATIENCE);
        if let Err(error) = self.metadata_copies.copy_metadata(true) {
            tracing::warn!(%error, "cannot write the copy of the catalog");
        }
        self.commands.serial.lock().catalog = None;
        // Files of an unfinished merge are removed at the next start. The folder stays locked while a
        // merge runs; at the end of the process that time is short.
        let moved = self.pools.relocation.close_within(MERGE_PATIENCE);
        if self.pools.merge.close_within(MERGE_PATIENCE) && moved {
            *self.lock.lock() = None;
        } else {
            self.merges_left_behind.store(true, Ordering::Release);
        }
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
