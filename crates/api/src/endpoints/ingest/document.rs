//! Conversion between an item of a bulk and a document of a pipeline.

use bytes::Bytes;
use firn_engine::document::{BulkItem, Expectation, Operation};
use firn_engine::{Error, Result};
use firn_pipeline::processors::Document;
use serde_json::{Map, Value};

/// Creates the document of an item: of an index or create operation its source, of an update the document that it stores
/// if there is none yet. `None` if no pipeline applies: deletes, updates without such a document, and sources that are no
/// JSON objects, whose errors the engine reports.
pub(super) fn of_item(item: &BulkItem) -> Option<Document> {
    let source = match &item.operation {
        Operation::Index { source } | Operation::Create { source } => object(source)?,
        Operation::Update(update) => match (&update.upsert, &update.doc) {
            (_, Some(Value::Object(doc))) if update.doc_as_upsert => doc.clone(),
            (Some(Value::Object(upsert)), _) if !update.doc_as_upsert => upsert.clone(),
            _ => return None,
        },
        Operation::Delete => return None,
    };
    let document = Document::new(&item.index, item.id.as_deref(), source).with_routing(item.routing.as_deref());
    Some(match item.expect {
        Expectation::Any => document,
        Expectation::SeqNo { seq_no, primary_term } => {
            document.with_sequence(Some(seq_no as i64), Some(primary_term as i64))
        }
        Expectation::External(version) => document.with_version(Some(version as i64), Some("external")),
        Expectation::ExternalGte(version) => document.with_version(Some(version as i64), Some("external_gte")),
    })
}

fn object(source: &Bytes) -> Option<Map<String, Value>> {
    serde_json::from_slice(source).ok()
}

/// Writes a document back into its item.
pub(super) fn into_item(document: &Document, item: &mut BulkItem) -> Result<()> {
    if document
        .dynamic_templates()
        .is_some_and(|templates| !templates.is_empty())
    {
        return Err(Error::not_implemented("[_dynamic_templates] of an ingest pipeline"));
    }
    let index = document.index();
    if index.is_empty() {
        return Err(Error::illegal_argument(
            "an ingest pipeline removed the [_index] of a document",
        ));
    }
    index.clone_into(&mut item.index);
    item.id = document.id().map(str::to_owned);
    item.routing = document.routing().map(str::to_owned);
    item.expect = expectation(document)?;
    match &mut item.operation {
        Operation::Index { source } | Operation::Create { source } => {
            *source = Bytes::from(serde_json::to_vec(&document.source)?);
        }
        Operation::Update(update) => {
            let changed = Some(Value::Object(document.source.clone()));
            if update.doc_as_upsert {
                update.doc = changed;
            } else {
                update.upsert = changed;
            }
        }
        Operation::Delete => {}
    }
    Ok(())
}

fn expectation(document: &Document) -> Result<Expectation> {
    let unsigned = |name: &str, number: i64| {
        u64::try_from(number).map_err(|_| Error::illegal_argument(format!("[{name}] must not be negative: [{number}]")))
    };
    match document.sequence() {
        (Some(seq_no), Some(primary_term)) => {
            return Ok(Expectation::SeqNo {
                seq_no: unsigned("_if_seq_no", seq_no)?,
                primary_term: unsigned("_if_primary_term", primary_term)?,
            });
        }
        (None, None) => {}
        _ => {
            return Err(Error::illegal_argument(
                "[_if_seq_no] and [_if_primary_term] must be set together",
            ));
        }
    }
    let version = document
        .version()
        .map(|version| unsigned("_version", version))
        .transpose()?;
    match (version, document.version_type()) {
        (Some(version), Some("external" | "external_gt")) => Ok(Expectation::External(version)),
        (Some(version), Some("external_gte")) => Ok(Expectation::ExternalGte(version)),
        // Internal versions are given out by the engine.
        _ => Ok(Expectation::Any),
    }
}
