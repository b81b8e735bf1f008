//! The field of `collapse`, whose values group hits.

use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_query::query::{Bool, Exists, Query, Term};
use firn_query::search::{SortBy, SortKey};
use firn_segment::columns::column::Number;
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use serde_json::Value;
use tantivy::DocId;

use crate::compile::Compiler;
use crate::compile::field::Target;
use crate::sort::{SegmentKey, ShardKey, SortValue};

/// The collapse field on one shard. Its values are read like those of a sort key.
pub(crate) struct GroupField(ShardKey);

impl GroupField {
    /// Resolves the field; only keywords and numbers with doc values group hits.
    pub(crate) fn compile(compiler: &Compiler, path: &str) -> Result<Self> {
        let unmapped = || Error::illegal_argument(format!("no mapping found for `{path}` in order to collapse on"));
        let Target::Field(field) = compiler.resolve(path) else {
            return Err(unmapped());
        };
        if field.mapping.is_none() {
            return Err(unmapped());
        }
        let groups = matches!(
            field.field_type,
            FieldType::Keyword
                | FieldType::Long
                | FieldType::Integer
                | FieldType::Short
                | FieldType::Byte
                | FieldType::Double
                | FieldType::Float
                | FieldType::HalfFloat
                | FieldType::UnsignedLong
        );
        if !groups {
            return Err(Error::illegal_argument(format!(
                "collapse is not supported for the field [{path}] of the type [{}]",
                field.type_name()
            )));
        }
        if !matches!(field.class, Class::Keyword | Class::KeywordColumn | Class::Number) {
            return Err(Error::illegal_argument(format!(
                "cannot collapse on field `{path}` without `doc_values`"
            )));
        }
        let key = SortKey::new(SortBy::Field(path.to_owned()));
        Ok(Self(ShardKey::compile(compiler, &key)?))
    }

    /// Opens the field on a segment; `order` is the segment's number in the search.
    pub(crate) fn open(&self, segment: &Segment, order: u32) -> Result<SegmentGroups> {
        Ok(SegmentGroups {
            key: self.0.open(segment, order)?,
        })
    }

    /// Returns the value as answers show it; null for documents without a value.
    pub(crate) fn print(&self, group: &Group) -> Value {
        match group {
            Group::None => Value::Null,
            Group::Int(value) => self.0.print(&SortValue::Number(Number::Int(*value))),
            Group::Float(bits) => self.0.print(&SortValue::Number(Number::Float(f64::from_bits(*bits)))),
            Group::Text(text) => self.0.print(&SortValue::Text(text.clone())),
        }
    }
}

/// The collapse field on one segment.
pub(crate) struct SegmentGroups {
    key: SegmentKey,
}

impl SegmentGroups {
    /// Returns a number for the document's group that is valid in this segment; `None`: the
    /// document has no value. Fails if the document has several values.
    pub(crate) fn read(&self, doc: DocId) -> Result<Option<u64>> {
        // Elasticsearch prints the document number here. It would reveal to a tenant how many
        // documents of other tenants come before it.
        self.key
            .single_raw(doc)
            .map_err(|()| Error::illegal_argument("failed to collapse, the collapse field must be single valued"))
    }

    /// Returns the document's group.
    pub(crate) fn group(&self, doc: DocId) -> Result<Group> {
        Ok(match self.key.value(doc, 0.0)? {
            SortValue::Missing => Group::None,
            SortValue::Text(text) => Group::Text(text),
            SortValue::Number(Number::Int(value)) => Group::Int(value),
            // One segment may store as integers what another segment stores as floats.
            SortValue::Number(Number::Float(value)) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Group::Int(value as i128)
            }
            SortValue::Number(Number::Float(value)) => Group::Float(value.to_bits()),
        })
    }
}

/// A group of hits, comparable across segments and shards.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// Documents without a value.
    None,
    Int(i128),
    /// The bits of the float.
    Float(u64),
    Text(Box<str>),
}

/// Returns the query for the documents of a group; `value` is the group's value as
/// [`GroupField::print`] shows it.
pub(crate) fn group_query(field: &str, value: &Value) -> Query {
    if value.is_null() {
        let exists = Query::Exists(Exists {
            field: field.to_owned(),
            boost: 1.0,
        });
        return Query::Bool(Bool {
            must_not: vec![exists],
            ..Bool::default()
        });
    }
    Query::Term(Term {
        field: field.to_owned(),
        value: value.clone(),
        boost: 1.0,
        case_insensitive: false,
    })
}
