//! Disclosure rules: the part of an engine's answer that a caller may see, by the scope of the request.
//!
//! All functions are pure: they take an answer for all callers, and return the one for this caller.

use firn_model::names::known_as;

use crate::admin::{IndexStats, ShardCheckpoint, ShardStats};
use crate::origin::SourcePosition;
use crate::tiers::ShardMove;
use crate::{Error, ErrorKind, RequestContext, Scope, TenantUsage};

/// Failure of a shard as tenants see it: the reason may name a path, a repository, or a file with data of other
/// tenants.
const SHARD_UNAVAILABLE: &str = "the shard is not available";

/// Message that tenants see instead of an error that would reveal the location of a snapshot repository.
fn redacted(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable => Some("the snapshot repository does not answer"),
        ErrorKind::Repository => Some("the snapshot repository is damaged or incomplete"),
        _ => None,
    }
}

/// Whether the details of a snapshot repository failure are withheld from the caller; then the log has to record them.
pub fn is_withheld(scope: &Scope, error: &Error) -> bool {
    let is_redacted = |sentence| error.reason() == sentence && error.cause().is_none();
    scope.tenant_id().is_some() && redacted(error.kind()).is_some_and(|sentence| !is_redacted(sentence))
}

/// Returns the error that the caller sees instead of `error`. If the scope is limited, a missing name and a forbidden
/// name get the same error. No tenant sees where a snapshot repository is or how its objects are named.
pub fn disclose_error(ctx: &RequestContext, error: Error) -> Error {
    match error.kind() {
        ErrorKind::IndexNotFound if !ctx.scope.is_unlimited() => {
            ctx.scope.refusal(ctx.action, error.index().unwrap_or_default())
        }
        kind if is_withheld(&ctx.scope, &error) => {
            let disclosed = Error::new(kind, redacted(kind).unwrap_or_default());
            match error.index() {
                Some(index) => disclosed.with_index(index),
                None => disclosed,
            }
        }
        _ => error,
    }
}

/// As [`disclose_error`] for the error of a command, which may name a tenant's own index as the node names it: the
/// caller sees the name that the tenant gave the index.
pub fn disclose_command_error(ctx: &RequestContext, error: Error) -> Error {
    let tenant = ctx.scope.tenant_id();
    let own_name = tenant
        .and_then(|tenant| known_as(tenant, error.index()?))
        .map(str::to_owned);
    let error = match own_name {
        Some(name) => error.with_index(name),
        None => error,
    };
    disclose_error(ctx, error)
}

/// Replaces errors of failed shards (index, shard number, error) whose details are withheld from the caller.
pub fn disclose_failures(scope: &Scope, failures: &mut [(String, u32, Error)]) {
    for (index, _, error) in failures {
        if is_withheld(scope, error) {
            let name = error.index().unwrap_or(index).to_owned();
            *error = Error::new(error.kind(), redacted(error.kind()).unwrap_or_default()).with_index(name);
        }
    }
}

/// Returns the statistics of shards without what concerns other tenants: a tenant sees number and bytes of its
/// documents, and which shards are not available. All other counters are for all tenants together.
pub fn disclose_stats(scope: &Scope, mut indices: Vec<IndexStats>) -> Vec<IndexStats> {
    if scope.tenant_id().is_none() {
        return indices;
    }
    for shard in indices.iter_mut().flat_map(|index| &mut index.shards) {
        *shard = ShardStats {
            shard: shard.shard,
            failure: shard.failure.as_ref().map(|_| SHARD_UNAVAILABLE.to_owned()),
            is_recovering: shard.is_recovering,
            doc_count: shard.doc_count,
            store_size_bytes: shard.store_size_bytes,
            data_set_size_bytes: shard.data_set_size_bytes,
            max_seq_no: -1,
            ..ShardStats::default()
        };
    }
    indices
}

/// Returns the usage of the tenant alone; for an operator, the usage of all tenants.
pub fn disclose_usage(scope: &Scope, mut usage: Vec<TenantUsage>) -> Vec<TenantUsage> {
    if let Some(tenant) = scope.tenant_id() {
        usage.retain(|usage| *usage.tenant == *tenant.as_str());
    }
    usage
}

/// Returns the positions of a source; none for a tenant, because a source may carry the events of others.
pub fn disclose_positions(scope: &Scope, positions: Vec<SourcePosition>) -> Vec<SourcePosition> {
    match scope.tenant_id() {
        Some(_) => Vec::new(),
        None => positions,
    }
}

/// Returns checkpoints of shards; none for a tenant, because a shard may hold the events of others.
pub fn disclose_checkpoints(scope: &Scope, checkpoints: Vec<ShardCheckpoint>) -> Vec<ShardCheckpoint> {
    match scope.tenant_id() {
        Some(_) => Vec::new(),
        None => checkpoints,
    }
}

/// Returns the moves of shards; none for a tenant, because a shard moves for all tenants together.
pub fn disclose_moves(scope: &Scope, moves: Vec<ShardMove>) -> Vec<ShardMove> {
    match scope.tenant_id() {
        Some(_) => Vec::new(),
        None => moves,
    }
}

/// Returns the number of folders in quarantine; 0 for a limited scope, because a folder may hold anything.
pub fn disclose_quarantined_count(scope: &Scope, count: u64) -> u64 {
    match scope.is_unlimited() {
        true => count,
        false => 0,
    }
}
