//! `exists`: documents with any value for a field, or for any field of an object.

use firn_engine::query::Exists;
use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use tantivy::query::{Query as _, TermQuery};
use tantivy::schema::IndexRecordOption;

use super::super::column::{self, NumColumn, failed};
use super::super::compile::Compiler;
use super::super::field::{self, Field, Meta, Target};
use super::super::paths;
use super::super::weight::{ColumnWeight, Compiled, Test};
use crate::schema::{self, Class};

pub(in super::super) fn compile(compiler: &Compiler, exists: &Exists) -> Result<Compiled> {
    let filter = compiler.filter();
    Ok(by_name(&filter, &exists.field)?.constant(exists.boost, compiler.scoring()))
}

/// Documents with a value for a path, a pattern of paths or an object. Not scored.
pub(in super::super) fn by_name(compiler: &Compiler, name: &str) -> Result<Compiled> {
    if let Some(meta) = Meta::of(name) {
        return Ok(match meta {
            Meta::Ignored => any_string(Class::Keyword, schema::IGNORED.to_owned()),
            Meta::Id | Meta::Index | Meta::SeqNo | Meta::Version => Compiled::All,
            Meta::Routing => return Err(firn_model::Error::not_implemented("exists on [_routing]")),
        });
    }
    let is_pattern = name.contains('*');
    let is_object = !is_pattern && matches!(compiler.resolve(name), Target::Nothing);
    if !is_pattern && !is_object {
        return match compiler.resolve(name) {
            Target::Field(field) => on_field(compiler, &field),
            _ => Ok(Compiled::None),
        };
    }
    let prefix = format!("{name}.");
    let mut parts = Vec::new();
    for (path, _) in compiler.mapping.leaves() {
        let hit = if is_pattern {
            matches_pattern(name, &path)
        } else {
            path.starts_with(&prefix)
        };
        if !hit {
            continue;
        }
        if let Target::Field(field) = field::resolve(compiler.mapping, &path) {
            parts.push(on_field(compiler, &field)?);
        }
    }
    Ok(Compiled::any(parts, false))
}

fn on_field(compiler: &Compiler, field: &Field) -> Result<Compiled> {
    match field.class {
        Class::Keyword | Class::KeywordColumn => Ok(any_string(field.class, field.path.clone())),
        Class::Number => {
            let path = match field.field_type {
                FieldType::GeoPoint => format!("{}#lat", field.path),
                _ => field.path.clone(),
            };
            Ok(any_number(path))
        }
        Class::KeywordTerms | Class::Text(_) => {
            let names = paths::term(schema::fields().kw_terms, schema::FIELD_NAMES, &field.path);
            let query = TermQuery::new(names, IndexRecordOption::Basic);
            Ok(Compiled::Some(query.weight(compiler.unscored()).map_err(failed)?))
        }
        Class::None => match field.mapping.as_ref().and_then(|mapping| mapping.constant.as_ref()) {
            Some(_) if field.field_type == FieldType::ConstantKeyword => Ok(Compiled::All),
            _ => Ok(Compiled::None),
        },
    }
}

fn any_string(class: Class, path: String) -> Compiled {
    Compiled::Some(Box::new(ColumnWeight(Box::new(move |reader| {
        let strings = column::open_strings(reader, class, &path).map_err(column::into_tantivy)?;
        Ok(strings.map(|strings| (strings.ords().clone(), Test::Any)))
    }))))
}

fn any_number(path: String) -> Compiled {
    Compiled::Some(Box::new(ColumnWeight(Box::new(move |reader| {
        let column = NumColumn::open(reader, &path).map_err(column::into_tantivy)?;
        Ok(column.map(|column| (column.column, Test::Any)))
    }))))
}
