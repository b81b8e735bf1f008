//! What the first question to a mounted index would wait for first: the footers of its splits.
//!
//! Of a few splits any question needs most of them, and every mount of the same snapshot finds them in the cache. So an
//! index of a few splits is mounted with its footers. Of many a search fetches only those that can hold a match.

use std::sync::Arc;
use std::time::Duration;

use firn_storage::split::PartKind;
use tokio::task::JoinSet;

use crate::engine::Core;
use crate::splits::{SplitBytes, Wanted};

/// So many are a few.
const SPLITS_MAX: usize = 4;
/// Footers that one mount brings together.
const BYTES_MAX: u64 = 1 << 20;
/// Whoever mounts waits no longer for them.
const PATIENCE: Duration = Duration::from_secs(1);

impl Core {
    /// Brings the footers of an index that was just mounted as `shared_cache`, as far as they are not here. What fails
    /// is fetched again, and told, by whoever searches.
    pub(crate) async fn bring_footers(self: Arc<Self>, index: String) {
        let mut fetches = JoinSet::new();
        for (bytes, footer) in self.missing_footers(&index) {
            fetches.spawn(async move {
                if let Err(error) = bytes.fetch(&[footer]).await {
                    tracing::debug!(%error, "a footer could not be fetched ahead");
                }
            });
        }
        let all = async { while fetches.join_next().await.is_some() {} };
        // Late ones come all the same.
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            fetches.detach_all();
        }
    }

    fn missing_footers(&self, index: &str) -> Vec<(Arc<dyn SplitBytes>, Wanted)> {
        let state = self.state();
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
