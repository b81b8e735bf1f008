//! Bulk writes: items in the order of the body are routed to shards, responses return in that order.
//!
//! Admission limits the bytes of all bulks ([`pressure`]). A bulk waits for a write thread, then runs window by window
//! ([`WINDOW_ITEMS`]), so that the memory of mapped documents is limited: [`plan`] finds each item's index and shard
//! (by its time in [`periods`], by its tenant in [`tenant`]), [`map_window`] maps documents in parallel and adds new
//! fields to mappings, [`apply`] applies them to the shards in order. Items whose index was deleted meanwhile run a
//! second time, as the index may be created again. [`complete`] sends the response from the thread that made the last
//! shard's WAL durable; no write thread waits for a disk.

mod apply;
mod complete;
mod exactly_once;
mod map_window;
mod member_lookup;
mod merge_source;
mod periods;
mod plan;
pub(crate) mod pressure;
pub(crate) mod progress;
pub(crate) mod service;
mod tenant_resolution;
mod tenant_routing;
mod update;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use firn_engine::document::{BulkItem, BulkRequest, BulkResponse};
use firn_engine::{RequestContext, Scope};
use firn_model::{ErrorKind, Result};
use firn_scheduler::Flow;
use tokio::sync::oneshot;

pub(crate) use self::plan::shard_of_id;
use self::progress::{Answer, Progress};
use self::service::WriteService;
pub(crate) use self::tenant_resolution::{Located, locate};
use crate::node::pools::panicked;

/// Items that are mapped before they are applied: enough to keep every thread busy, few enough
/// that their mapped form (a few times their source) stays small.
const WINDOW_ITEMS: usize = 4096;
/// Bytes of source that are mapped before they are applied; at least one item.
const WINDOW_BYTES: u64 = 8 << 20;

/// Runs a bulk; the response is sent when the writes are as durable as their indices require.
pub(crate) async fn bulk(
    writes: &Arc<WriteService>,
    ctx: &RequestContext,
    request: BulkRequest,
) -> Result<BulkResponse> {
    if let Some(origin) = request.origin.clone() {
        return exactly_once::bulk(writes, ctx, request, origin).await;
    }
    if request.items.is_empty() {
        return Ok(BulkResponse::default());
    }
    let flow = Flow::of(&ctx.scope);
    let bytes = request.items.iter().map(pressure::item_bytes).sum();
    let permit = writes.pressure.admit(&flow, bytes)?;
    writes.gates.wait_for_writes(ctx, &request.items).await?;
    let (sender, receiver) = oneshot::channel();
    let (shared, scope) = (Arc::clone(writes), Arc::clone(&ctx.scope));
    writes.pools.write.spawn(&flow, move || {
        shared.devices.hot.look_if_near();
        let answer = move |response| {
            drop(permit);
            // The receiver is gone if the client disconnected.
            let _ = sender.send(response);
        };
        run(&shared, &scope, request, Box::new(answer));
    })?;
    receiver.await.map_err(|_| panicked())
}

fn run(writes: &Arc<WriteService>, scope: &Arc<Scope>, request: BulkRequest, answer: Answer) {
    let items = Arc::new(request.items);
    let mut progress = Progress {
        responses: (0..items.len()).map(|_| None).collect(),
        touched: BTreeMap::new(),
    };
    let mut targets = plan::Targets::new(writes, scope, &items);
    let mut rounds = plan::Rounds::new(writes);
    let mut start = 0;
    while start < items.len() {
        let window = window_from(&items, start);
        start = window.end;
        let mut write = |positions: &[usize], targets: &plan::Targets| {
            let groups = plan::plan(writes, scope, &items, positions, targets, &mut rounds, &mut progress);
            let works = map_window::map_groups(writes, scope, &items, groups);
            apply::apply_groups(writes, scope, &items, works, &mut progress);
            // An index was removed meanwhile: unused indices are removed with the tenant that created them.
            let is_gone = |position: &usize| {
                let response = progress.responses[*position].as_ref();
                let error = response.and_then(|response| response.result.as_ref().err());
                error.is_some_and(|error| error.kind() == ErrorKind::IndexNotFound)
                    && targets.may_make(&items[*position])
            };
            positions.iter().copied().filter(is_gone).collect::<Vec<_>>()
        };
        let gone = write(&window.collect::<Vec<_>>(), &targets);
        if !gone.is_empty() {
            targets = plan::Targets::new(writes, scope, &items);
            write(&gone, &targets);
        }
    }
    writes.merges.share_merging(progress.touched.values());
    complete::complete(writes, request.refresh, progress, answer);
}

fn window_from(items: &[BulkItem], start: usize) -> Range<usize> {
    let mut bytes = 0;
    let mut end = start;
    while end < items.len() && end - start < WINDOW_ITEMS {
        bytes += pressure::item_bytes(&items[end]);
        if bytes > WINDOW_BYTES && end > start {
            break;
        }
        end += 1;
    }
    start..end
}
