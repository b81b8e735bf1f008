//! Partial updates: read, merge, and write if the document has not changed meanwhile.

use bytes::Bytes;
use firn_engine::Scope;
use firn_engine::document::{Effect, Expectation, StoredDocument, Update, Written};
use firn_model::{Error, ErrorKind, Result};
use firn_query::source::SourceFilter;
use firn_shard::{Shard, ShardOp};
use firn_storage::wal::Position;
use serde_json::{Map, Value};

use super::merge_source::merge_source;
use super::periods::check_time;
use super::service::WriteService;
use super::tenant_resolution::{check_owner, stamped};
use crate::node::state::IndexState;

/// Result of an update.
pub(super) struct Updated {
    pub(super) written: Written,
    /// `None`: nothing was written.
    pub(super) position: Option<Position>,
}

/// Action of an update once the stored document is known.
enum Plan {
    /// Write this source, if the document is unchanged since it was read.
    Write {
        source: Bytes,
        create: bool,
        expect: Expectation,
        routing: Option<String>,
    },
    /// The update changes nothing.
    Noop(StoredDocument),
}

/// Update of one document.
pub(super) struct Updating<'a> {
    pub(super) writes: &'a WriteService,
    pub(super) scope: &'a Scope,
    pub(super) index: &'a IndexState,
    pub(super) shard: &'a Shard,
    /// Id as the client gives it.
    pub(super) id: &'a str,
    /// Key in the shard.
    pub(super) key: &'a str,
    pub(super) routing: Option<&'a str>,
    pub(super) update: &'a Update,
}

impl Updating<'_> {
    /// Updates the document; retries after conflicts as often as the request allows.
    pub(super) fn run(&self, expect: Expectation) -> Result<Updated> {
        let update = self.update;
        let mut tries_left = update.retry_on_conflict;
        loop {
            let stored = self.shard.get(self.key, true)?.filter(|stored| self.may_change(stored));
            let result = match plan(self.id, expect, update, stored, self.routing)? {
                Plan::Noop(stored) => return noop(update, stored),
                Plan::Write {
                    source,
                    create,
                    expect,
                    routing,
                } => self.write(source, create, expect, routing),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::VersionConflict && tries_left > 0 => tries_left -= 1,
                result => return result,
            }
        }
    }

    /// Whether the stored document may be changed: one of another tenant counts as missing.
    fn may_change(&self, stored: &StoredDocument) -> bool {
        let by_tenant = self.index.metadata.settings.tenant_field.is_some();
        !by_tenant || self.routing.is_none() || stored.routing.as_deref() == self.routing
    }

    fn write(&self, source: Bytes, create: bool, expect: Expectation, routing: Option<String>) -> Result<Updated> {
        let tenant_field = self.index.metadata.settings.tenant_field.as_deref();
        let owner = routing.as_deref();
        let stamped = tenant_field
            .zip(owner)
            .and_then(|(field, owner)| stamped(&source, field, owner));
        let source = stamped.unwrap_or(source);
        let document = self
            .writes
            .commands
            .map_adding_fields(&self.index.name, &source, Some(self.id))?;
        if let Some(field) = tenant_field {
            check_owner(self.scope, &document, field, owner)?;
        }
        check_time(self.index, &document)?;
        let mut applied = self.shard.apply(vec![ShardOp::Index {
            id: Some(self.key.to_owned()),
            create,
            document: Box::new(document),
            expect,
            routing,
        }])?;
        let mut written = applied
            .results
            .pop()
            .ok_or_else(|| Error::internal("a batch of one has one result"))??;
        written.get = filtered(self.update.source.as_ref(), &source)?;
        Ok(Updated {
            written,
            position: applied.durable,
        })
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
        return Err(Error::internal(format!("[{id}]: the stored source is not an object")));
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
