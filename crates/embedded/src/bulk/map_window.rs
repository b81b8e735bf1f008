//! Parallel mapping of a window of documents, and addition of their new fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Scope;
use firn_engine::document::BulkItem;
use firn_model::mapping::Mapping;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::parallel::run_indexed;
use firn_scheduler::yield_now;
use firn_shard::mapper::{MappedDocument, map_document};

use super::member_lookup;
use super::periods::check_time;
use super::plan::{Group, Planned};
use super::progress::source_of;
use super::service::WriteService;
use super::tenant_resolution::{check_owner, stamped};
use crate::engine::mapping::{MAPPING_PASSES, unmapped_in};
use crate::node::state::{IndexState, ShardSlot};

/// Documents that one task maps: some hundred microseconds of work.
const CHUNK_DOCUMENTS: usize = 128;

/// Items of one shard, with their mapped documents.
pub(super) struct Work {
    pub(super) index: Arc<IndexState>,
    pub(super) slot: Arc<ShardSlot>,
    pub(super) items: Vec<WorkItem>,
}

/// Item of a [`Work`].
pub(super) struct WorkItem {
    pub(super) planned: Planned,
    /// `None` for updates and deletes.
    pub(super) document: Option<Result<MappedDocument>>,
}

/// Document to map: its item and its index.
#[derive(Clone)]
struct MapJob {
    position: usize,
    index: Arc<str>,
    /// Backing indices of data streams require a timestamp.
    needs_timestamp: bool,
    /// Its tenant, if events are held by tenant.
    owner: Option<String>,
}

/// Result of one task.
#[derive(Default)]
struct Chunk {
    done: Vec<(usize, Result<MappedDocument>)>,
    /// Documents to map again once `new_fields` are in the mapping.
    again: Vec<MapJob>,
    new_fields: BTreeMap<Arc<str>, Mapping>,
}

/// Maps the documents of all groups.
pub(super) fn map_groups(
    writes: &Arc<WriteService>,
    scope: &Arc<Scope>,
    items: &Arc<Vec<BulkItem>>,
    groups: Vec<Group>,
) -> Vec<Work> {
    let mut wanted = Vec::new();
    for group in &groups {
        let needs_timestamp = group.index.metadata.mapping.data_stream_timestamp;
        let by_tenant = group.index.metadata.settings.tenant_field.is_some();
        for planned in &group.items {
            if source_of(&items[planned.position]).is_some() {
                wanted.push(MapJob {
                    position: planned.position,
                    index: Arc::clone(&group.index.name),
                    needs_timestamp,
                    owner: planned.routing.clone().filter(|_| by_tenant),
                });
            }
        }
    }
    let first = wanted.iter().map(|wanted| wanted.position).min().unwrap_or(0);
    let mut documents = map_documents(writes, scope, items, wanted, first);
    groups
        .into_iter()
        .map(|group| Work {
            index: group.index,
            slot: group.slot,
            items: group
                .items
                .into_iter()
                .map(|planned| WorkItem {
                    document: planned
                        .position
                        .checked_sub(first)
                        .and_then(|place| documents.get_mut(place)?.take()),
                    planned,
                })
                .collect(),
        })
        .collect()
}

/// Maps documents; the results are by position, from `first` on.
fn map_documents(
    writes: &Arc<WriteService>,
    scope: &Arc<Scope>,
    items: &Arc<Vec<BulkItem>>,
    mut wanted: Vec<MapJob>,
    first: usize,
) -> Vec<Option<Result<MappedDocument>>> {
    let end = wanted.iter().map(|wanted| wanted.position + 1).max().unwrap_or(first);
    let mut documents: Vec<_> = (first..end).map(|_| None).collect();
    for pass in 0..MAPPING_PASSES {
        let mut new_fields: BTreeMap<Arc<str>, Mapping> = BTreeMap::new();
        let mut again = Vec::new();
        for chunk in map_in_parallel(writes, scope, items, wanted, pass) {
            for (position, document) in chunk.done {
                documents[position - first] = Some(document);
            }
            again.extend(chunk.again);
            for (index, fields) in chunk.new_fields {
                add_to(&mut new_fields, &index, fields);
            }
        }
        let mut failures: BTreeMap<Arc<str>, Error> = BTreeMap::new();
        for (index, fields) in new_fields {
            if let Err(error) = writes.commands.add_fields(&index, fields) {
                failures.insert(index, error);
            }
        }
        wanted = Vec::new();
        for document in again {
            match failures.get(&document.index) {
                Some(error) => {
                    documents[document.position - first] = Some(Err(error.clone()));
                }
                None => wanted.push(document),
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    documents
}

fn map_in_parallel(
    writes: &Arc<WriteService>,
    scope: &Arc<Scope>,
    items: &Arc<Vec<BulkItem>>,
    wanted: Vec<MapJob>,
    pass: usize,
) -> Vec<Chunk> {
    let state = writes.node.state();
    let (items, scope) = (Arc::clone(items), Arc::clone(scope));
    let chunk_count = wanted.len().div_ceil(CHUNK_DOCUMENTS);
    run_indexed(&writes.pools.write, chunk_count, move |number| {
        let first = number * CHUNK_DOCUMENTS;
        let last = (first + CHUNK_DOCUMENTS).min(wanted.len());
        let mut chunk = Chunk::default();
        // Documents of one index share its name and mostly follow each other.
        let mut found: Option<(&Arc<str>, Result<&Arc<IndexState>>)> = None;
        for document in &wanted[first..last] {
            yield_now();
            let index = match &found {
                Some((name, index)) if Arc::ptr_eq(name, &document.index) => index.clone(),
                _ => {
                    let index = state.index(&document.index);
                    found.insert((&document.index, index)).1.clone()
                }
            };
            map_one(&scope, index, &items[document.position], document, pass, &mut chunk);
        }
        chunk
    })
}

fn map_one(
    scope: &Scope,
    index: Result<&Arc<IndexState>>,
    item: &BulkItem,
    wanted: &MapJob,
    pass: usize,
    chunk: &mut Chunk,
) {
    let Some(source) = source_of(item) else { return };
    let mapped = index.and_then(|index| {
        let tenant_field = index.metadata.settings.tenant_field.as_deref();
        let stamped = match (tenant_field, &wanted.owner) {
            (Some(field), Some(owner)) => stamped(source, field, owner),
            _ => None,
        };
        let source = stamped.as_ref().unwrap_or(source);
        let mapped = map_document(index.compiled()?, source, item.id.as_deref(), unmapped_in(pass))?;
        if let Some(field) = tenant_field {
            check_owner(scope, &mapped.document, field, wanted.owner.as_deref())?;
        }
        if wanted.needs_timestamp {
            check_timestamp(source)?;
        }
        check_time(index, &mapped.document)?;
        Ok(mapped)
    });
    match mapped {
        Ok(mapped) => match mapped.new_fields {
            Some(fields) if pass + 1 < MAPPING_PASSES => {
                add_to(&mut chunk.new_fields, &wanted.index, fields);
                chunk.again.push(wanted.clone());
            }
            _ => chunk.done.push((wanted.position, Ok(mapped.document))),
        },
        Err(error) => chunk.done.push((wanted.position, Err(error))),
    }
}

/// Adds fields to the new fields of an index. If two documents disagree on a field's type, the
/// first one wins; the other document is mapped again with that type.
fn add_to(new_fields: &mut BTreeMap<Arc<str>, Mapping>, index: &Arc<str>, fields: Mapping) {
    match new_fields.get_mut(index) {
        None => {
            new_fields.insert(Arc::clone(index), fields);
        }
        Some(known) if *known == fields => {}
        Some(known) => {
            if let Ok(merged) = known.merge(&fields) {
                *known = merged;
            }
        }
    }
}

/// Checks that a document of a data stream has exactly one `@timestamp`. The mapper has accepted the rest.
fn check_timestamp(source: &bytes::Bytes) -> Result<()> {
    use sonic_rs::JsonValueTrait;
    let reason = match member_lookup::member(source, "@timestamp") {
        Ok(Some(value)) if value.is_array() => "data stream timestamp field [@timestamp] encountered multiple values",
        Ok(Some(value)) if !value.is_null() => return Ok(()),
        _ => "data stream timestamp field [@timestamp] is missing",
    };
    Err(Error::new(ErrorKind::DocumentParsing, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stream_documents_need_one_timestamp() {
        let check = |source: &'static str| check_timestamp(&bytes::Bytes::from_static(source.as_bytes()));
        check(r#"{"a":1,"@timestamp":"2026-01-01T00:00:00Z"}"#).unwrap();
        check(r#"{"@timestamp":5}"#).unwrap();
        for missing in [r#"{"a":1}"#, r#"{"@timestamp":null}"#] {
            let error = check(missing).unwrap_err();
            assert_eq!(error.reason(), "data stream timestamp field [@timestamp] is missing");
        }
        let error = check(r#"{"@timestamp":[1,2]}"#).unwrap_err();
        assert!(error.reason().contains("multiple values"));
    }
}
