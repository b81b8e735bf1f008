//! Index administration: refresh, flush, force merge, cache clearing and analyze.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_engine::admin::{AnalyzeRequest, AnalyzedToken, ForceMergeRequest, ShardCheckpoint, ShardsOutcome};
use firn_model::metadata::resolve;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::IndexTarget;
use firn_segment::analysis;
use firn_segment::segment_memo::DependentCache;

use super::services::Services;
use crate::node::state::{IndexState, ShardSlot};

impl Services {
    /// Makes all acknowledged writes searchable.
    pub(super) fn refresh(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<ShardsOutcome> {
        let now_ms = self.node.now_ms();
        self.for_each_shard(ctx, target, |_, slot| slot.refresh(now_ms).map(|_| ()))
    }

    /// Makes the writes of the shards durable and searchable. Shards that fail are missing.
    pub(super) fn checkpoints(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<ShardCheckpoint>> {
        let now_ms = self.node.now_ms();
        let checkpoints = RefCell::new(Vec::new());
        self.for_each_shard(ctx, target, |index, slot| {
            if let Some(seq_no) = slot.checkpoint(now_ms)? {
                checkpoints.borrow_mut().push(ShardCheckpoint {
                    index: index.name.to_string(),
                    index_uuid: index.metadata.uuid.clone(),
                    shard: slot.number,
                    seq_no,
                });
            }
            Ok(())
        })?;
        Ok(checkpoints.into_inner())
    }

    /// Makes buffered documents durable segments and trims the WAL.
    pub(super) fn flush(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<ShardsOutcome> {
        self.for_each_shard(ctx, target, |_, slot| slot.flush().map(|_| ()))
    }

    /// Clears the request cache of the shards.
    pub(super) fn clear_cache(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<ShardsOutcome> {
        self.for_each_shard(ctx, target, |_, slot| {
            slot.clearings.fetch_add(1, Ordering::Relaxed);
            let segments = match slot.mounted() {
                // Other indices that mount the same splits lose their cached results too.
                Some(shard) => self.mounts.open_segments(&shard, self.node.now_ms()),
                None => slot.shard()?.snapshot().segments.clone(),
            };
            for segment in &segments {
                self.searches.request_cache.forget(segment.reader.segment_id());
            }
            Ok(())
        })
    }

    /// Runs a force merge.
    pub(super) fn force_merge(&self, ctx: &RequestContext, request: &ForceMergeRequest) -> Result<ShardsOutcome> {
        if request.only_expunge_deletes && request.max_num_segments.is_some() {
            return Err(Error::illegal_argument(
                "cannot set only_expunge_deletes and max_num_segments at the same time, those two parameters are \
                 mutually exclusive",
            ));
        }
        self.for_each_shard(ctx, &request.target, |index, slot| {
            // Mounted shards are immutable: the snapshot does not change.
            if slot.mounted().is_some() {
                return Ok(());
            }
            // A merge writes new segments before it removes the old ones, so it needs disk space.
            self.devices.check_room(&index.metadata)?;
            slot.on_shard(|shard| {
                match (request.max_num_segments, request.only_expunge_deletes) {
                    (None, false) => while shard.merge_tick()? {},
                    (segments_max, expunge) => shard.force_merge(segments_max.unwrap_or(usize::MAX), expunge)?,
                }
                Ok(())
            })?;
            if request.flush {
                slot.flush()?;
            }
            Ok(())
        })
    }

    /// Runs `work` on every shard of the target. Shards of closed indices are skipped, as in Elasticsearch; other
    /// failures are listed.
    fn for_each_shard(
        &self,
        ctx: &RequestContext,
        target: &IndexTarget,
        work: impl Fn(&IndexState, &ShardSlot) -> Result<()>,
    ) -> Result<ShardsOutcome> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms())?;
        let mut outcome = ShardsOutcome::default();
        for target in resolved {
            let Some(index) = state.indices.get(&target.name).map(Arc::clone) else {
                continue;
            };
            for slot in index.shards.iter() {
                match work(&index, slot) {
                    Ok(()) => outcome.successful += 1,
                    // The index was deleted or closed after the expression was resolved.
                    Err(error) if matches!(error.kind(), ErrorKind::IndexClosed | ErrorKind::IndexNotFound) => continue,
                    Err(error) => outcome.failures.push((index.name.to_string(), slot.number, error)),
                }
                outcome.total += 1;
            }
        }
        Ok(outcome)
    }
}

/// Elasticsearch's `position_increment_gap` between two texts of one field.
const POSITION_GAP: u32 = 100;
/// Maximum number of tokens of one answer (`index.analyze.max_token_count`).
const TOKENS_MAX: usize = 10_000;

/// Runs an analyzer on texts.
pub(super) fn analyze(request: &AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
    let mut tokens: Vec<AnalyzedToken> = Vec::new();
    let mut offset = 0;
    let mut position = 0;
    for text in &request.text {
        // Analysis stops at the limit: a body full of short words would give some thirty million tokens.
        let ended = analysis::each_token(request.analyzer, text, |token| {
            if tokens.len() == TOKENS_MAX {
                return ControlFlow::Break(());
            }
            tokens.push(AnalyzedToken {
                token: token.text,
                start_offset: token.start_offset + offset,
                end_offset: token.end_offset + offset,
                token_type: token.kind,
                position: token.position + position,
            });
            ControlFlow::Continue(())
        });
        if ended.is_break() {
            return Err(Error::illegal_argument(format!(
                "The number of tokens produced by calling _analyze has exceeded the allowed maximum of \
                 [{TOKENS_MAX}]. This limit can be set by changing the [index.analyze.max_token_count] index \
                 level setting."
            )));
        }
        // The offset advances by one between two texts, as between two values of a field.
        offset += text.encode_utf16().count() as u32 + 1;
        position = tokens.last().map_or(0, |last| last.position + 1) + POSITION_GAP;
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
