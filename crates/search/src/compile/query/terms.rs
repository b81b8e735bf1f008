//! `terms` query: documents with any of several exact values.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_query::query::Terms;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, Place};
use firn_segment::columns::paths;
use firn_segment::schema;
use serde_json::Value;
use tantivy::SegmentReader;

use super::super::field::{Field, Meta, Parsed, Target, parse_ip_or_block, scalar_text};
use super::super::weight::{ColumnWeight, Compiled, Test};
use super::{ids, term};
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;
use crate::run::preemption::in_turn;

pub(crate) fn compile(compiler: &Compiler, terms: &Terms) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let compiler = &compiler.filter();
    let compiled = match compiler.resolve(&terms.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(Meta::Id) => {
            let texts: Vec<String> = terms.values.iter().filter_map(scalar_text).collect();
            ids::by_ids(compiler, &texts)?
        }
        Target::Meta(meta) => {
            let mut parts = Vec::new();
            for value in &terms.values {
                parts.push(term::on_meta(compiler, meta, value)?);
            }
            Compiled::any(parts, false)
        }
        Target::Field(field) => on_field(compiler, &field, &terms.values)?,
    };
    Ok(compiled.constant(terms.boost, scoring))
}

fn on_field(compiler: &Compiler, field: &Field, values: &[Value]) -> Result<Compiled> {
    // Values that are more than one term or one number are compiled like in a `term` query.
    let mut rest = Vec::new();
    let mut parts = Vec::new();
    match field.numeric() {
        Some(numeric) if numeric.date_format().is_none() && field.class == schema::Class::Number => {
            let mut numbers = Vec::new();
            for value in values {
                match numeric.parse_exact(value) {
                    Parsed::Number(number) => numbers.push(number),
                    Parsed::Never => {}
                    Parsed::NotANumber => rest.push(value),
                }
            }
            parts.push(any_number(field.path.clone(), numbers));
        }
        None if paths::term_field(field.class).is_some() && field.field_type != FieldType::GeoPoint => {
            let mut texts = BTreeSet::new();
            for value in values {
                match whole_term(field, value) {
                    Some(text) => drop(texts.insert(text)),
                    None => rest.push(value),
                }
            }
            for text in &texts {
                compiler.mark(&field.path, || HighlightTerm::Term(text.clone()));
            }
            parts.push(any_string(compiler, field, texts));
        }
        _ => rest.extend(values),
    }
    let stop = &compiler.guard.stop;
    for value in rest {
        stop.turn()?;
        parts.push(in_turn(term::on_field(compiler, field, value, false)?, stop));
    }
    Ok(Compiled::any(parts, false))
}

/// Returns the one term of a value; `None`: it is more than one term.
pub(crate) fn whole_term(field: &Field, value: &Value) -> Option<String> {
    let text = scalar_text(value)?;
    match field.field_type {
        FieldType::Ip => {
            let (first, last) = parse_ip_or_block(&text)?;
            (first == last).then(|| schema::encode_ip(first))
        }
        _ => Some(term::normalized(field, &text)),
    }
}

fn any_number(path: String, numbers: Vec<Number>) -> Compiled {
    if numbers.is_empty() {
        return Compiled::None;
    }
    let name = path.clone();
    let find = move |reader: &SegmentReader| {
        let Some(column) = NumColumn::open(reader, &path).map_err(column::into_tantivy)? else {
            return Ok(None);
        };
        let mut raws: Vec<u64> = numbers
            .iter()
            .filter_map(|&number| match column.place(number) {
                Place::At(raw) => Some(raw),
                Place::Before(_) | Place::Past => None,
            })
            .collect();
        raws.sort_unstable();
        raws.dedup();
        let test = match raws.as_slice() {
            [] => return Ok(None),
            [raw] => Test::Range(*raw..=*raw),
            _ => Test::Set(Arc::from(raws)),
        };
        Ok(Some((column.column, test)))
    };
    Compiled::Some(Box::new(ColumnWeight::of_numbers(&name, Box::new(find))))
}

fn any_string(compiler: &Compiler, field: &Field, texts: BTreeSet<String>) -> Compiled {
    match paths::term_field(field.class) {
        Some((terms, _)) => term::any_term(compiler, terms, &field.path, texts.iter().map(String::as_str)),
        None => Compiled::None,
    }
}
