//! Partial updates: read, merge, write if nobody else did meanwhile.

use bytes::Bytes;
use firn_engine::document::{BulkItem, Effect, Expectation, StoredDocument, Update, Written};
use firn_engine::source::SourceFilter;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::wal::Position;
use serde_json::{Map, Value};

use super::merge_source::merge_source;
use super::periods::check_time;
use super::tenant;
use crate::engine::Core;
use crate::engine::state::IndexState;
use crate::shard::{Shard, ShardOp};

/// What an update did.
pub(super) struct Updated {
    pub(super) written: Written,
    /// `None`: nothing was written.
    pub(super) position: Option<Position>,
}

/// What an update comes down to once the stored document is known.
enum Plan {
    /// Write this source, if the document is still as it was read.
    Write {
        source: Bytes,
        create: bool,
        expect: Expectation,
        routing: Option<String>,
    },
    /// Everything is as it should be.
    Noop(StoredDocument),
}

/// Updates one document, trying again after conflicts as often as the request allows.
pub(super) fn update(
    core: &Core,
    index: &IndexState,
    shard: &Shard,
    item: &BulkItem,
    update: &Update,
    routing: Option<&str>,
) -> Result<Updated> {
    let id = item.id.as_deref().unwrap_or_default();
    let mut tries_left = update.retry_on_conflict;
    loop {
        let stored = shard.get(id, true)?;
        let result = match plan(id, item.expect, update, stored, routing)? {
            Plan::Noop(stored) => return noop(update, stored),
            Plan::Write {
                source,
                create,
                expect,
                routing,
            } => write(core, index, shard, id, source, create, expect, routing, update),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::VersionConflict && tries_left > 0 => tries_left -= 1,
            result => return result,
        }
    }
}

fn plan(
    id: &str,
    expect: Expectation,
    update: &Update,
    stored: Option<StoredDocument>,
    routing: Option<&str>,
) -> Result<Plan> {
    let Some(stored) = stored else {
        let upsert = match (&update.upsert, &update.doc) {
            (Some(upsert), _) => upsert,
            (None, Some(doc)) if update.doc_as_upsert => doc,
            _ => {
                return Err(Error::new(
                    ErrorKind::DocumentMissing,
                    format!("[{id}]: document missing"),
                ));
            }
        };
        return Ok(Plan::Write {
            source: Bytes::from(serde_json::to_vec(object(upsert)?)?),
            create: true,
            expect: Expectation::Any,
            routing: routing.map(str::to_owned),
        });
    };
    check_expectation(id, expect, &stored)?;
    let Value::Object(mut source) = serde_json::from_slice(&stored.source)? else {
        return Err(Error::internal(format!("[{id}]: the stored source is no object")));
    };
    let changed = match &update.doc {
        Some(doc) => merge_source(&mut source, object(doc)?),
        None => false,
    };
    if !changed && update.detect_noop {
        return Ok(Plan::Noop(stored));
    }
    Ok(Plan::Write {
        source: Bytes::from(serde_json::to_vec(&source)?),
        create: false,
        expect: Expectation::SeqNo {
            seq_no: stored.seq_no,
            primary_term: stored.primary_term,
        },
        routing: routing.map(str::to_owned).or(stored.routing),
    })
}

fn object(value: &Value) -> Result<&Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| Error::parsing("the document of an update must be an object"))
}

fn check_expectation(id: &str, expect: Expectation, stored: &StoredDocument) -> Result<()> {
    match expect {
        Expectation::Any => Ok(()),
        Expectation::SeqNo { seq_no, primary_term }
            if (seq_no, primary_term) == (stored.seq_no, stored.primary_term) =>
        {
            Ok(())
        }
        Expectation::SeqNo { seq_no, primary_term } => Err(Error::new(
            ErrorKind::VersionConflict,
            format!(
                "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. current document has \
                 seqNo [{}] and primary term [{}]",
                stored.seq_no, stored.primary_term
            ),
        )),
        Expectation::External(_) | Expectation::ExternalGte(_) => Err(Error::illegal_argument(
            "internal versioning can not be used for optimistic concurrency control of updates: use [if_seq_no] and \
             [if_primary_term]",
        )),
    }
}

#[allow(clippy::too_many_arguments)] // One call, straight from the plan's parts.
fn write(
    core: &Core,
    index: &IndexState,
    shard: &Shard,
    id: &str,
    source: Bytes,
    create: bool,
    expect: Expectation,
    routing: Option<String>,
    update: &Update,
) -> Result<Updated> {
    if let Some(field) = &index.metadata.settings.tenant_field {
        tenant::check_unchanged(&source, routing.as_deref(), &index.name, field)?;
    }
    let document = core.map_adding_fields(&index.name, &source, Some(id))?;
    check_time(index, &document)?;
    let mut applied = shard.apply(vec![ShardOp::Index {
        id: Some(id.to_owned()),
        create,
        document: Box::new(document),
        expect,
        routing,
    }])?;
    let mut written = applied
        .results
        .pop()
        .ok_or_else(|| Error::internal("a batch of one has one result"))??;
    written.get = filtered(update.source.as_ref(), &source)?;
    Ok(Updated {
        written,
        position: applied.durable,
    })
}

fn noop(update: &Update, stored: StoredDocument) -> Result<Updated> {
    Ok(Updated {
        written: Written {
            effect: Effect::Noop,
            version: stored.version,
            seq_no: stored.seq_no,
            primary_term: stored.primary_term,
            forced_refresh: false,
            get: filtered(update.source.as_ref(), &stored.source)?,
        },
        position: None,
    })
}

fn filtered(filter: Option<&SourceFilter>, source: &Bytes) -> Result<Option<Value>> {
    let Some(filter) = filter else { return Ok(None) };
    match filter.apply(source)? {
        Some(source) => Ok(Some(serde_json::from_slice(&source)?)),
        None => Ok(None),
    }
}
