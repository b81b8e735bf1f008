//! A tenant's documents of a segment, for readers that bypass the query: dictionaries and columns hold the values
//! of all tenants.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use firn_model::Result;
use firn_model::mapping::{FieldMapping, FieldType, Mapping, Node};
use firn_segment::columns::column::{NumColumn, failed, open_strings};
use firn_segment::columns::paths;
use firn_segment::schema;
use firn_segment::schema::Class;
use firn_segment::segment::{Segment, ShardSnapshot};
use firn_segment::segment_cache::{CACHE, CacheKey};
use firn_segment::splits::dry_run::catch;
use tantivy::columnar::ColumnIndex;
use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED};

use crate::TenantRestriction;
use crate::compile::field;
use crate::compile::field::{Field, Target};

/// Returns the documents of a tenant in a segment, ascending, deleted ones included; `None`: it has none.
pub(crate) fn docs(reader: &SegmentReader, restriction: &TenantRestriction) -> Result<Option<SegmentPostings>> {
    let terms = schema::fields().kw;
    let term = paths::term(terms, &restriction.field, restriction.tenant.as_str());
    let index = reader.inverted_index(terms).map_err(failed)?;
    let found = index.read_postings(&term, IndexRecordOption::Basic)?;
    Ok(found.filter(|docs| docs.doc() != TERMINATED))
}

/// Calls `visit` with every live document of a tenant until it returns false.
pub(crate) fn for_each(
    segment: &Segment,
    restriction: &TenantRestriction,
    mut visit: impl FnMut(DocId) -> Result<bool>,
) -> Result<()> {
    let Some(mut docs) = docs(&segment.reader, restriction)? else {
        return Ok(());
    };
    while docs.doc() != TERMINATED {
        if segment.is_alive(docs.doc()) && !visit(docs.doc())? {
            break;
        }
        docs.advance();
    }
    Ok(())
}

/// Returns the number of live documents of a tenant in a segment.
pub fn count(segment: &Segment, restriction: &TenantRestriction) -> Result<u64> {
    catch(|| count_in(segment, restriction))
}

fn count_in(segment: &Segment, restriction: &TenantRestriction) -> Result<u64> {
    let mut count = 0;
    for_each(segment, restriction, |_| {
        count += 1;
        Ok(true)
    })?;
    Ok(count)
}

/// Returns the ordinals of the values that a tenant's documents have in a string column.
pub(crate) fn ordinals(
    segment: &Segment,
    restriction: &TenantRestriction,
    strings: &firn_segment::columns::strings::StrColumn,
) -> Result<HashSet<u64>> {
    let mut found = HashSet::new();
    for_each(segment, restriction, |doc| {
        found.extend(strings.term_ords(doc));
        Ok(true)
    })?;
    Ok(found)
}

/// The leaf fields for which a tenant's documents of a segment have values; holds only the fields that were
/// requested so far. Deleted documents count, because they belonged to the tenant too.
#[derive(Default, Clone)]
struct Presence(HashMap<Box<str>, bool>);

/// Approximate bytes of an entry of [`Presence`].
const PRESENCE_BYTES: usize = 80;

/// Returns the leaf fields of a mapping, without multi-fields, for which some document of a tenant has a value,
/// directly or in one of their multi-fields.
pub fn fields_of(
    snapshots: &[Arc<ShardSnapshot>],
    mapping: &Mapping,
    restriction: &TenantRestriction,
) -> Result<BTreeSet<String>> {
    let leaves = mapping.leaves();
    let mut missing: Vec<&(String, Arc<FieldMapping>)> = leaves.iter().collect();
    let mut found = BTreeSet::new();
    for segment in snapshots.iter().flat_map(|snapshot| &snapshot.segments) {
        if missing.is_empty() {
            break;
        }
        let paths: Vec<&str> = missing.iter().map(|(path, _)| path.as_str()).collect();
        let presence = presence(segment, mapping, restriction, &paths)?;
        missing.retain(|(path, _)| {
            let is_there = presence.0.get(path.as_str()).copied().unwrap_or(false);
            if is_there {
                found.insert(group_of(mapping, path).to_owned());
            }
            !is_there
        });
    }
    Ok(found)
}

/// Returns the parent field of a multi-field, or the path itself.
fn group_of<'a>(mapping: &Mapping, path: &'a str) -> &'a str {
    match path.rsplit_once('.') {
        Some((parent, _)) if matches!(mapping.node(parent), Some(Node::Field(_))) => parent,
        _ => path,
    }
}

fn presence(
    segment: &Segment,
    mapping: &Mapping,
    restriction: &TenantRestriction,
    paths: &[&str],
) -> Result<Arc<Presence>> {
    let key = CacheKey {
        segment: segment.reader.segment_id(),
        name: format!("fields of {} {}", restriction.field, restriction.tenant).into(),
    };
    let known = CACHE.get::<Presence>(&key);
    if let Some(known) = &known
        && paths.iter().all(|path| known.0.contains_key(*path))
    {
        return Ok(Arc::clone(known));
    }
    let mut presence = known.map(|known| Presence::clone(&known)).unwrap_or_default();
    for path in paths {
        if !presence.0.contains_key(*path) {
            let is_there = match field::resolve(mapping, path) {
                Target::Field(field) => has_value(&segment.reader, restriction, &field)?,
                _ => false,
            };
            presence.0.insert((*path).into(), is_there);
        }
    }
    let presence = Arc::new(presence);
    let bytes = presence.0.keys().map(|path| path.len() + PRESENCE_BYTES).sum();
    CACHE.put(key, Arc::clone(&presence), bytes);
    Ok(presence)
}

fn has_value(reader: &SegmentReader, restriction: &TenantRestriction, field: &Field) -> Result<bool> {
    let Some(mut docs) = docs(reader, restriction)? else {
        return Ok(false);
    };
    Ok(match field.class {
        Class::Keyword | Class::KeywordColumn => {
            let strings = open_strings(reader, field.class, &field.path)?;
            strings.is_some_and(|strings| any_in(&mut docs, &strings.ords().index))
        }
        Class::Number => {
            let path = match field.field_type {
                FieldType::GeoPoint => format!("{}#lat", field.path),
                _ => field.path.clone(),
            };
            NumColumn::open(reader, &path)?.is_some_and(|column| any_in(&mut docs, &column.column.index))
        }
        Class::KeywordTerms | Class::Text(_) => {
            let terms = schema::fields().kw_terms;
            let name = paths::term(terms, schema::FIELD_NAMES, &field.path);
            let index = reader.inverted_index(terms).map_err(failed)?;
            match index.read_postings(&name, IndexRecordOption::Basic)? {
                Some(mut with_field) => intersects(&mut docs, &mut with_field),
                None => false,
            }
        }
        // The operator sets its value: no event of an index with tenants sets it.
        Class::None => field.field_type == FieldType::ConstantKeyword,
    })
}

fn any_in(docs: &mut SegmentPostings, index: &ColumnIndex) -> bool {
    while docs.doc() != TERMINATED {
        if index.has_value(docs.doc()) {
            return true;
        }
        docs.advance();
    }
    false
}

fn intersects(left: &mut SegmentPostings, right: &mut SegmentPostings) -> bool {
    while left.doc() != TERMINATED && right.doc() != TERMINATED {
        match left.doc().cmp(&right.doc()) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => left.seek(right.doc()),
            std::cmp::Ordering::Greater => right.seek(left.doc()),
        };
    }
    false
}

/// Returns whether a tenant's documents have a value for exactly this leaf.
pub(crate) fn has_own_value(
    snapshot: &ShardSnapshot,
    mapping: &Mapping,
    restriction: &TenantRestriction,
    path: &str,
) -> Result<bool> {
    for segment in &snapshot.segments {
        if presence(segment, mapping, restriction, &[path])?.0.get(path) == Some(&true) {
            return Ok(true);
        }
    }
    Ok(false)
}
