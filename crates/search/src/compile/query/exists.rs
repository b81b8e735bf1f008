//! `exists` query: documents with any value for a field, or for any field of an object.

use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use firn_query::query::Exists;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, failed};
use firn_segment::columns::paths;
use firn_segment::schema;
use firn_segment::schema::Class;
use tantivy::SegmentReader;
use tantivy::columnar::{Column, ColumnIndex};
use tantivy::query::{Query as _, TermQuery};
use tantivy::schema::IndexRecordOption;

use super::super::field::{self, Field, Meta, Target};
use super::super::weight::{ColumnWeight, Compiled, Test};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, exists: &Exists) -> Result<Compiled> {
    let filter = compiler.filter();
    Ok(by_name(&filter, &exists.field)?.constant(exists.boost, compiler.scoring()))
}

/// Compiles to the documents with a value for a path, a pattern of paths or an object. Not scored.
pub(crate) fn by_name(compiler: &Compiler, name: &str) -> Result<Compiled> {
    if let Some(meta) = Meta::of(name) {
        return Ok(match meta {
            Meta::Ignored => Values::Strings(Class::Keyword, schema::IGNORED.to_owned()).any(),
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
    if let Some(values) = Values::of_field(field) {
        return Ok(values.any());
    }
    match field.class {
        Class::KeywordTerms | Class::Text(_) => {
            let names = paths::term(schema::fields().kw_terms, schema::FIELD_NAMES, &field.path);
            let query = TermQuery::new(names, IndexRecordOption::Basic);
            Ok(Compiled::Some(query.weight(compiler.unscored()).map_err(failed)?))
        }
        _ => match field.mapping.as_ref().and_then(|mapping| mapping.constant.as_ref()) {
            Some(_) if field.field_type == FieldType::ConstantKeyword => Ok(Compiled::All),
            _ => Ok(Compiled::None),
        },
    }
}

/// The column that holds all values of a field.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Strings(Class, String),
    Numbers(String),
}

impl Values {
    /// Returns the column of a query's field; `None`: it is no field, or its values are in no column or in several.
    pub(crate) fn of(compiler: &Compiler, exists: &Exists) -> Option<Self> {
        if Meta::of(&exists.field).is_some() || exists.field.contains('*') {
            return None;
        }
        match compiler.resolve(&exists.field) {
            Target::Field(field) => Self::of_field(&field),
            _ => None,
        }
    }

    fn of_field(field: &Field) -> Option<Self> {
        match field.class {
            Class::Keyword | Class::KeywordColumn => Some(Self::Strings(field.class, field.path.clone())),
            Class::Number => Some(Self::Numbers(match field.field_type {
                FieldType::GeoPoint => format!("{}#lat", field.path),
                _ => field.path.clone(),
            })),
            _ => None,
        }
    }

    /// Returns the index of the documents of a segment that have a value; `None`: none has one.
    pub(crate) fn index(&self, reader: &SegmentReader) -> Result<Option<ColumnIndex>> {
        Ok(self.column(reader)?.map(|column| column.index))
    }

    fn column(&self, reader: &SegmentReader) -> Result<Option<Column<u64>>> {
        Ok(match self {
            Self::Strings(class, path) => {
                column::open_strings(reader, *class, path)?.map(|strings| strings.ords().clone())
            }
            Self::Numbers(path) => NumColumn::open(reader, path)?.map(|numbers| numbers.column),
        })
    }

    /// Compiles to the documents that have a value.
    fn any(self) -> Compiled {
        Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
            let column = self.column(reader).map_err(column::into_tantivy)?;
            Ok(column.map(|column| (column, Test::Any)))
        }))))
    }
}
