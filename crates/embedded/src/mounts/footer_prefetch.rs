//! Prefetch of the footers that the first search of a mounted index needs.
//!
//! If an index has few splits, every search needs most of them, and every mount of the same snapshot finds them in the
//! cache. So such an index is mounted with its footers. With many splits, a search fetches only the footers of splits
//! that can hold a match.

use std::sync::Arc;
use std::time::Duration;

use firn_segment::splits::{ReadRange, SplitBytes};
use firn_storage::split::PartKind;
use tokio::task::JoinSet;

use super::MountService;

/// Maximum of splits for a prefetch.
const SPLITS_MAX: usize = 4;
/// Footer bytes that one mount fetches in total.
const BYTES_MAX: u64 = 1 << 20;
/// How long a mount waits for the footers.
const PATIENCE: Duration = Duration::from_secs(1);

impl MountService {
    /// Fetches the missing footers of an index that was just mounted as `shared_cache`. If a fetch fails, the next
    /// search repeats it and reports the error.
    pub(crate) async fn bring_footers(self: Arc<Self>, index: String) {
        let mut fetches = JoinSet::new();
        for (bytes, footer) in self.missing_footers(&index) {
            fetches.spawn(async move {
                if let Err(error) = bytes.fetch(&[footer]).await {
                    tracing::debug!(%error, "cannot prefetch a footer");
                }
            });
        }
        let all = async { while fetches.join_next().await.is_some() {} };
        // Late requests continue without the mount.
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            fetches.detach_all();
        }
    }

    fn missing_footers(&self, index: &str) -> Vec<(Arc<dyn SplitBytes>, ReadRange)> {
        let state = self.node.state();
        let Ok(index) = state.index(index) else {
            return Vec::new();
        };
        let mut missing: Vec<(Arc<dyn SplitBytes>, _)> = Vec::new();
        let mut len = 0;
        for shard in index.shards.iter().filter_map(|slot| slot.mounted()) {
            let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
            for (place, segment) in segments.iter().enumerate() {
                let footer = (PartKind::Footer, segment.split.footer_logical());
                let Ok(bytes) = self.bytes_of(&shard, place, segment) else {
                    continue;
                };
                let (_, own) = bytes.missing(std::slice::from_ref(&footer));
                if own == 0 {
                    continue;
                }
                len += own;
                missing.push((bytes, footer));
                if !shard.store.partial || len > BYTES_MAX || missing.len() > SPLITS_MAX {
                    return Vec::new();
                }
            }
        }
        missing
    }
}
