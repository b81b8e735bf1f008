//! Maintenance decisions for one shard: a pure function that the ticker calls several times a second.

use std::sync::atomic::Ordering;

use firn_shard::Shard;

use crate::config::EmbeddedConfig;
use crate::node::state::{IndexState, ShardSlot};

/// State of a shard for the decision. Instants are ms since the epoch in UTC.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShardView {
    /// There are documents that a search cannot see yet.
    pub(crate) unsearchable: bool,
    /// There are writes that no flush covers yet.
    pub(crate) unflushed: bool,
    /// The WAL is past `index.translog.flush_threshold_size`.
    pub(crate) wal_full: bool,
    /// A request waits for the next refresh.
    pub(crate) waiters: bool,
    /// Last refresh, or start of the shard.
    pub(crate) refreshed_ms: i64,
    /// Last search, or start of the shard.
    pub(crate) searched_ms: i64,
    /// Last write, or start of the shard.
    pub(crate) written_ms: i64,
}

/// The settings that decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// `index.refresh_interval`; `None`: only by request.
    pub(crate) refresh_interval_ms: Option<u64>,
    /// The user set the interval: refresh even without searches.
    pub(crate) refresh_explicit: bool,
    /// `index.search.idle.after`.
    pub(crate) search_idle_after_ms: u64,
    /// Flush shards after this time without writes.
    pub(crate) idle_flush_after_ms: u64,
}

/// Maintenance to start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Due {
    /// Make searchable.
    pub(crate) refresh: bool,
    /// Make durable and trim the WAL.
    pub(crate) flush: bool,
}

/// Returns the maintenance that a shard needs at `now_ms`.
pub(crate) fn due(shard: &ShardView, policy: &Policy, now_ms: i64) -> Due {
    // A clock that was set back must not delay everything, hence `unsigned_abs`.
    let since = |then_ms: i64| now_ms.saturating_sub(then_ms).unsigned_abs();
    let refresh = match policy.refresh_interval_ms {
        // A request that waits for a refresh gets one even if none is scheduled.
        None => shard.waiters,
        Some(interval_ms) => {
            let wanted = shard.waiters || policy.refresh_explicit || !is_search_idle(shard, policy, now_ms);
            (shard.unsearchable || shard.waiters) && wanted && since(shard.refreshed_ms) >= interval_ms
        }
    };
    let flush = shard.unflushed && (shard.wal_full || since(shard.written_ms) >= policy.idle_flush_after_ms);
    Due { refresh, flush }
}

/// Whether there was no search for so long that the next search refreshes instead of the clock.
pub(crate) fn is_search_idle(shard: &ShardView, policy: &Policy, now_ms: i64) -> bool {
    !policy.refresh_explicit && now_ms.saturating_sub(shard.searched_ms).unsigned_abs() >= policy.search_idle_after_ms
}

/// Returns the state of a shard for the maintenance decision.
pub(crate) fn view_of(slot: &ShardSlot, shard: &Shard) -> ShardView {
    ShardView {
        unsearchable: shard.needs_refresh(),
        unflushed: shard.has_uncommitted(),
        wal_full: shard.needs_flush(),
        waiters: slot.has_waiters(),
        refreshed_ms: slot.refreshed_ms.load(Ordering::Relaxed),
        searched_ms: slot.searched_ms.load(Ordering::Relaxed),
        written_ms: slot.written_ms.load(Ordering::Relaxed),
    }
}

/// Returns the settings that decide for the shards of an index.
pub(crate) fn policy_of(config: &EmbeddedConfig, index: &IndexState) -> Policy {
    let settings = &index.metadata.settings;
    Policy {
        refresh_interval_ms: settings.refresh_interval_ms,
        refresh_explicit: settings.typed.contains_key("index.refresh_interval"),
        search_idle_after_ms: config.search_idle_after_ms,
        idle_flush_after_ms: config.idle_flush_after_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        refresh_interval_ms: Some(1000),
        refresh_explicit: false,
        search_idle_after_ms: 30_000,
        idle_flush_after_ms: 10_000,
    };

    /// A shard written and searched just now, refreshed two seconds ago.
    const BUSY: ShardView = ShardView {
        unsearchable: true,
        unflushed: true,
        wal_full: false,
        waiters: false,
        refreshed_ms: 98_000,
        searched_ms: 100_000,
        written_ms: 100_000,
    };

    fn check(shard: ShardView, policy: Policy, expect: Due) {
        assert_eq!(due(&shard, &policy, 100_000), expect, "{shard:?} {policy:?}");
    }

    const NOTHING: Due = Due {
        refresh: false,
        flush: false,
    };
    const REFRESH: Due = Due {
        refresh: true,
        ..NOTHING
    };
    const FLUSH: Due = Due { flush: true, ..NOTHING };

    #[test]
    fn refreshes_what_is_new_while_someone_searches() {
        check(BUSY, POLICY, REFRESH);
        check(
            ShardView {
                unsearchable: false,
                ..BUSY
            },
            POLICY,
            NOTHING,
        );
        check(
            ShardView {
                refreshed_ms: 99_500,
                ..BUSY
            },
            POLICY,
            NOTHING,
        );
        let idle = ShardView {
            searched_ms: 70_000,
            ..BUSY
        };
        check(idle, POLICY, NOTHING);
        check(ShardView { waiters: true, ..idle }, POLICY, REFRESH);
        let explicit = Policy {
            refresh_explicit: true,
            ..POLICY
        };
        check(idle, explicit, REFRESH);
        let never = Policy {
            refresh_interval_ms: None,
            ..POLICY
        };
        check(BUSY, never, NOTHING);
        check(ShardView { waiters: true, ..BUSY }, never, REFRESH);
    }

    #[test]
    fn flushes_by_size_and_when_idle() {
        let clean = ShardView {
            unsearchable: false,
            ..BUSY
        };
        check(
            ShardView {
                wal_full: true,
                ..clean
            },
            POLICY,
            FLUSH,
        );
        check(
            ShardView {
                written_ms: 90_000,
                ..clean
            },
            POLICY,
            FLUSH,
        );
        check(
            ShardView {
                written_ms: 90_000,
                unflushed: false,
                ..clean
            },
            POLICY,
            NOTHING,
        );
    }
}
