//! Completion of a bulk: waits for durability, refreshes if requested, sends the response.

use std::sync::Arc;

use firn_engine::document::{BulkItemResponse, BulkResponse, Refresh};
use firn_model::Error;
use firn_scheduler::Flow;
use firn_scheduler::parallel::Countdown;
use firn_shard::Shard;
use firn_storage::wal::{DurableCallback, Position};
use parking_lot::Mutex;

use super::progress::{Answer, Progress, WrittenShard};
use super::service::WriteService;

/// Sends the response once all writes are as durable as required and as searchable as requested.
pub(super) fn complete(writes: &Arc<WriteService>, refresh: Refresh, progress: Progress, answer: Answer) {
    complete_when(writes, refresh, progress, answer, Shard::wait_durable);
}

/// Sends the response once all writes are on disk, also those of indices that demand less.
pub(super) fn complete_synced(writes: &Arc<WriteService>, refresh: Refresh, progress: Progress, answer: Answer) {
    complete_when(writes, refresh, progress, answer, Shard::wait_synced);
}

fn complete_when(
    writes: &Arc<WriteService>,
    refresh: Refresh,
    progress: Progress,
    answer: Answer,
    wait: fn(&Shard, Position, DurableCallback),
) {
    let touched: Arc<[WrittenShard]> = progress.touched.into_values().collect();
    if touched.is_empty() {
        return answer(response(progress.responses, &[], &[], false));
    }
    let failures: Arc<Mutex<Vec<Option<Error>>>> = Arc::new(Mutex::new(vec![None; touched.len()]));
    let waits: Vec<_> = touched
        .iter()
        .map(|touched| (Arc::clone(&touched.shard), touched.position))
        .collect();
    let countdown = {
        let (writes, failures) = (Arc::clone(writes), Arc::clone(&failures));
        let responses = progress.responses;
        Countdown::new(waits.len(), move || {
            let failures = std::mem::take(&mut *failures.lock());
            let finish_touched = Arc::clone(&touched);
            refresh_then(&writes, refresh, touched, move |forced| {
                answer(response(responses, &finish_touched, &failures, forced));
            });
        })
    };
    for (number, (shard, position)) in waits.into_iter().enumerate() {
        let (countdown, failures) = (Arc::clone(&countdown), Arc::clone(&failures));
        wait(
            &shard,
            position,
            Box::new(move |durable| {
                failures.lock()[number] = durable.err();
                countdown.done();
            }),
        );
    }
}

/// Calls `then` when the writes are searchable, if the request wants that. Runs on the thread
/// that synced a WAL, so it does not refresh there. `then` is told whether a refresh was forced.
fn refresh_then(
    writes: &Arc<WriteService>,
    refresh: Refresh,
    touched: Arc<[WrittenShard]>,
    then: impl FnOnce(bool) + Send + 'static,
) {
    match refresh {
        Refresh::No => then(false),
        Refresh::Now => refresh_now(writes, touched, then),
        Refresh::WaitFor => {
            // Without a periodic refresh the wait would never end.
            let by_clock = touched
                .iter()
                .all(|touched| touched.index.metadata.settings.refresh_interval_ms.is_some());
            if !by_clock || writes.node.is_closing() {
                return refresh_now(writes, touched, then);
            }
            let waiting: Vec<_> = touched.iter().filter(|touched| touched.shard.needs_refresh()).collect();
            if waiting.is_empty() {
                return then(false);
            }
            let countdown = Countdown::new(waiting.len(), move || then(false));
            for touched in waiting {
                let countdown = Arc::clone(&countdown);
                touched.slot.after_refresh(move || countdown.done());
            }
        }
    }
}

fn refresh_now(writes: &Arc<WriteService>, touched: Arc<[WrittenShard]>, then: impl FnOnce(bool) + Send + 'static) {
    let shared = Arc::clone(writes);
    writes.pools.maintenance.spawn_admitted(&Flow::node(), move || {
        for touched in touched.iter() {
            if let Err(error) = touched.slot.refresh(shared.node.now_ms()) {
                // The write is durable; only its visibility is late.
                tracing::warn!(index = &*touched.index.name, shard = touched.slot.number, %error, "cannot refresh");
            }
        }
        then(true);
    });
}

fn response(
    responses: Vec<Option<BulkItemResponse>>,
    touched: &[WrittenShard],
    failures: &[Option<Error>],
    forced: bool,
) -> BulkResponse {
    let mut items: Vec<BulkItemResponse> = responses
        .into_iter()
        .map(|response| {
            response.unwrap_or_else(|| BulkItemResponse {
                index: String::new(),
                id: String::new(),
                result: Err(Error::internal("the bulk item has no result; this is a bug")),
            })
        })
        .collect();
    for (touched, failure) in touched.iter().zip(failures) {
        for position in &touched.items {
            let result = &mut items[*position].result;
            match (failure, &mut *result) {
                (Some(error), Ok(_)) => *result = Err(error.clone()),
                (None, Ok(written)) => written.forced_refresh = forced,
                (_, Err(_)) => {}
            }
        }
    }
    BulkResponse { items }
}
