//! `ids` query: documents by id.
//!
//! Generated ids contain their sequence number, which is a column; ids from users are terms.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_model::Result;
use firn_model::ids::{AutoId, id_of_key, key_of};
use firn_query::query::Ids;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, Place};
use firn_segment::schema;
use tantivy::Term;
use tantivy::schema::Field;

use super::super::weight::{ColumnWeight, Compiled, TermFinder, TermsWeight, Test};
use crate::compile::Compiler;
use crate::compile::limits::Stop;
use crate::run::preemption::look_up;

pub(crate) fn compile(compiler: &Compiler, ids: &Ids) -> Result<Compiled> {
    Ok(by_ids(compiler, &ids.values)?.constant(ids.boost, compiler.scoring()))
}

/// Compiles to the documents with any of some ids. Not scored.
pub(crate) fn by_ids(compiler: &Compiler, ids: &[String]) -> Result<Compiled> {
    let mut made = BTreeSet::new();
    let mut given = BTreeSet::new();
    let mut of_this_index = BTreeSet::new();
    for id in ids {
        match AutoId::decode(id) {
            Some(auto) if auto.index_tag == compiler.snapshot.index_tag => {
                if u32::from(auto.shard) == compiler.snapshot.shard {
                    made.insert(auto.seq_no);
                }
                // A user may supply an id of this form, too; then it is a term. So is that of a document that was changed.
                given.insert(id.as_str());
                of_this_index.insert(id.as_str());
            }
            _ => drop(given.insert(id.as_str())),
        }
    }
    let mut parts = Vec::new();
    if !given.is_empty() {
        parts.push(by_keys(compiler, given, &of_this_index));
    }
    if !made.is_empty() {
        // A generated id contains the sequence number of the write that created the document. That is the document's
        // `_seq_no` only while it has no stored id; a stored id is a term.
        let seq_nos: Vec<u64> = made.into_iter().collect();
        parts.push(Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
            let Some(column) = NumColumn::open_named(reader, "_seq_no").map_err(column::into_tantivy)? else {
                return Ok(None);
            };
            let raws: Vec<u64> = seq_nos
                .iter()
                .filter_map(|&seq_no| match column.place(Number::Int(seq_no.into())) {
                    Place::At(raw) => Some(raw),
                    Place::Before(_) | Place::Past => None,
                })
                .collect();
            let (min, max) = (column.column.values.min_value(), column.column.values.max_value());
            let raws: Vec<u64> = raws.into_iter().filter(|raw| (min..=max).contains(raw)).collect();
            Ok(match raws.as_slice() {
                [] => None,
                [raw] => Some((column.column, Test::Range(*raw..=*raw))),
                _ => Some((column.column, Test::Set(Arc::from(raws)))),
            })
        })))));
    }
    Ok(Compiled::any(parts, false))
}

/// Compiles to the documents whose ids are terms: the ids themselves, or keys with the tenant. `generated` are those among them that
/// this index may have generated, which are keys without a tenant.
fn by_keys(compiler: &Compiler, ids: BTreeSet<&str>, generated: &BTreeSet<&str>) -> Compiled {
    let field = schema::fields().id;
    let generated: Vec<Term> = generated.iter().map(|id| Term::from_field_text(field, id)).collect();
    let stop = compiler.guard.stop.clone();
    let find: Box<TermFinder> = match (&compiler.snapshot.tenant_field, compiler.tenant) {
        (None, _) => find_terms(
            stop,
            field,
            ids.iter().map(|id| Term::from_field_text(field, id)).collect(),
        ),
        (Some(_), Some(restriction)) => {
            let tenant = restriction.tenant.as_str();
            let key = |id: &&str| Term::from_field_text(field, &key_of(tenant, id));
            find_terms(stop, field, ids.iter().map(key).chain(generated).collect())
        }
        (Some(tenant_field), None) => {
            let ids: BTreeSet<String> = ids.into_iter().map(str::to_owned).collect();
            find_of_any_tenant(stop, field, Arc::clone(tenant_field), ids, generated)
        }
    };
    Compiled::Some(Box::new(TermsWeight { field, find }))
}

fn find_terms(stop: Stop, field: Field, mut terms: Vec<Term>) -> Box<TermFinder> {
    terms.sort_unstable();
    Box::new(move |reader, found| look_up(reader.inverted_index(field)?.as_ref(), &terms, &stop, found))
}

/// Finds terms for callers that see all tenants: each tenant may have a document with such an id.
fn find_of_any_tenant(
    stop: Stop,
    field: Field,
    tenant_field: Arc<str>,
    ids: BTreeSet<String>,
    generated: Vec<Term>,
) -> Box<TermFinder> {
    Box::new(move |reader, found| {
        let index = reader.inverted_index(field)?;
        let Some(tenants) =
            column::open_strings(reader, schema::Class::Keyword, &tenant_field).map_err(column::into_tantivy)?
        else {
            return look_up(&index, &generated, &stop, found);
        };
        let terms = index.terms();
        if tenants.num_terms() * ids.len() > terms.num_terms() {
            let mut stream = terms.stream()?;
            let pace = stop.pace();
            while stream.advance() {
                pace.step(16).map_err(column::into_tantivy)?;
                if std::str::from_utf8(stream.key()).is_ok_and(|key| ids.contains(id_of_key(key))) {
                    found(stream.value())?;
                }
            }
            return Ok(());
        }
        let mut stream = tenants.dictionary().stream()?;
        while stream.advance() {
            let Ok(tenant) = std::str::from_utf8(stream.key()) else {
                continue;
            };
            let mut keys: Vec<Term> = ids
                .iter()
                .map(|id| Term::from_field_text(field, &key_of(tenant, id)))
                .collect();
            keys.sort_unstable();
            look_up(&index, &keys, &stop, found)?;
        }
        look_up(&index, &generated, &stop, found)
    })
}
