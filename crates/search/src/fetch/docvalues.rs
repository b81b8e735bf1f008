//! `docvalue_fields` of hits: values from columns.

use firn_model::Result;
use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use firn_query::search::FieldSpec;
use firn_segment::columns::column;
use firn_segment::columns::column::NumColumn;
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use serde_json::{Map, Value};
use tantivy::DocId;

use super::super::ShardSearch;
use super::super::format;
use crate::compile::field;
use crate::compile::field::{Numeric, Target};

/// The requested columns, open on one segment.
pub(super) struct DocValues(Vec<(String, Values)>);

enum Values {
    Numbers {
        column: NumColumn,
        numeric: Numeric,
        format: Option<DateFormat>,
    },
    Strings {
        column: StrColumn,
        is_ip: bool,
    },
    Constant(Value),
}

impl DocValues {
    /// Opens the columns. Fails for fields without doc values that are named exactly.
    pub(super) fn open(shard: &ShardSearch, segment: &Segment, specs: &[FieldSpec]) -> Result<Self> {
        let mapping = &shard.mapping;
        let mut open = Vec::new();
        for spec in specs {
            let is_pattern = spec.field.contains('*');
            let paths = match is_pattern {
                true => mapping
                    .leaves()
                    .into_iter()
                    .map(|(path, _)| path)
                    .filter(|path| matches_pattern(&spec.field, path))
                    .collect(),
                false => vec![spec.field.clone()],
            };
            for path in paths {
                let Target::Field(field) = field::resolve(mapping, &path) else {
                    continue;
                };
                let custom = spec.format.as_deref().filter(|format| *format != "use_field_mapping");
                let format = custom.map(DateFormat::new).transpose()?;
                let values = match (field.class, field.numeric()) {
                    (Class::Number, Some(numeric)) => {
                        NumColumn::open(&segment.reader, &field.path)?.map(|column| Values::Numbers {
                            column,
                            numeric,
                            format,
                        })
                    }
                    (class @ (Class::Keyword | Class::KeywordColumn), _) => {
                        column::open_strings(&segment.reader, class, &field.path)?.map(|column| Values::Strings {
                            column,
                            is_ip: field.field_type == FieldType::Ip,
                        })
                    }
                    _ if field.field_type == FieldType::ConstantKeyword => field
                        .mapping
                        .as_ref()
                        .and_then(|mapping| mapping.constant.clone())
                        .map(|constant| Values::Constant(Value::from(constant))),
                    _ if is_pattern => None,
                    (Class::Text(_), _) => return Err(field.fielddata_error(&shard.snapshot.index)),
                    _ => return Err(field.doc_values_error()),
                };
                open.extend(values.map(|values| (path, values)));
            }
        }
        Ok(Self(open))
    }

    /// Adds the values of a document; fields without values are left out.
    pub(super) fn read(&self, doc: DocId, out: &mut Map<String, Value>) -> Result<()> {
        for (path, values) in &self.0 {
            let found: Vec<Value> = match values {
                Values::Numbers {
                    column,
                    numeric,
                    format,
                } => column
                    .column
                    .values_for_doc(doc)
                    .map(|raw| print(column, numeric, format.as_ref(), raw))
                    .collect(),
                Values::Strings { column, is_ip } => {
                    let mut found = Vec::new();
                    for ordinal in column.term_ords(doc) {
                        let mut text = String::new();
                        column.ord_to_str(ordinal, &mut text)?;
                        found.push(if *is_ip { format::ip(&text) } else { Value::from(text) });
                    }
                    found
                }
                Values::Constant(value) => vec![value.clone()],
            };
            if !found.is_empty() {
                out.insert(path.clone(), Value::Array(found));
            }
        }
        Ok(())
    }
}

fn print(column: &NumColumn, numeric: &Numeric, custom: Option<&DateFormat>, raw: u64) -> Value {
    match numeric {
        Numeric::Boolean => Value::from(column.as_f64(raw) != 0.0),
        Numeric::Float { single: false } => format::float(column.as_f64(raw)),
        Numeric::Float { single: true } => format::single(column.as_f64(raw)),
        Numeric::Scaled(factor) => format::float(column.as_f64(raw) / factor),
        Numeric::Date(own) => Value::from(custom.unwrap_or(own).print_ms(column.as_i64(raw), &Zone::utc())),
        Numeric::DateNanos(own) => Value::from(custom.unwrap_or(own).print_nanos(column.as_i64(raw), &Zone::utc())),
        Numeric::Integer => format::number(column.number(raw)),
    }
}
