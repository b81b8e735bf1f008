//! Published results of other systems, for comparison with the targets. This program measured none of them.

use super::split::Question;

/// A search tier of 50 shards of 80 GB on a cloud object store, one node of 8 vCPU.
pub(super) struct Record {
    pub(super) needle_ms: [f64; 2],
    /// First, repeated, similar, with a cache of 5 % of the data.
    pub(super) dashboard_s: [f64; 3],
    /// The same with 0.5 %.
    pub(super) dashboard_small_cache_s: [f64; 3],
    pub(super) dashboard_fetched_percent: f64,
    /// Mount, and restore.
    pub(super) mount_s: f64,
    pub(super) restore_s: f64,
    /// A needle over 12,500 mounted shards: first, repeated.
    pub(super) many_s: [f64; 2],
}

pub(super) const RECORD: Record = Record {
    needle_ms: [6257.0, 76.0],
    dashboard_s: [282.8, 11.1, 23.4],
    dashboard_small_cache_s: [321.5, 224.1, 238.4],
    dashboard_fetched_percent: 3.0,
    mount_s: 47.0,
    restore_s: 72.0 * 60.0,
    many_s: [554.0, 127.0],
};

/// Quickwit 0.9 on one split of a million web logs, 30 ms a request: requests, bytes, ms of a cold query.
pub(super) const fn quickwit(question: Question) -> (u64, u64, f64) {
    match question {
        Question::Needle => (6, 284_000, 153.0),
        Question::TopHundred => (7, 1_200_000, 203.0),
        Question::HistogramOfTenant => (12, 2_700_000, 132.0),
        Question::HistogramOfAll => (8, 2_600_000, 139.0),
    }
}

/// Targets of firn for the same: requests, bytes, ms.
pub(super) const fn to_reach(question: Question) -> (u64, u64, f64) {
    match question {
        Question::Needle => (4, 40_000, 110.0),
        Question::TopHundred => (5, 100_000, 130.0),
        Question::HistogramOfTenant => (6, 1_500_000, 120.0),
        Question::HistogramOfAll => (6, 2_500_000, 130.0),
    }
}

/// Bytes that OpenSearch's `remote_snapshot` fetched of 226 MB: to mount, and for the first needle.
pub(super) const REMOTE_SNAPSHOT_BYTES: [u64; 2] = [67_000_000, 8_000_000];
