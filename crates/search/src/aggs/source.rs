//! Source of an aggregation's values.

use std::sync::Arc;

use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_query::aggs::{DecimalFormat, ValueFormat};
use firn_segment::columns::column::Number;
use firn_segment::schema;
use firn_segment::schema::Class;
use serde_json::Value;

use super::super::compile::Compiler;
use crate::compile::field::{Meta, NANOS, Numeric, Target, parse_ip_or_block, read_number, scalar_text};

/// The values of a field on one shard.
#[derive(Clone)]
pub(super) enum Source {
    /// Numbers, dates, booleans.
    Numbers { path: String, numeric: Numeric },
    /// A metadata column of integers.
    MetaNumbers(&'static str),
    /// Strings.
    Strings { class: Class, path: String, is_ip: bool },
    /// The same string for every document.
    Constant(String),
    /// No document has a value.
    Nothing,
}

impl Source {
    /// Resolves a field; rejects text and fields without doc values.
    pub(super) fn compile(compiler: &Compiler, path: &str) -> Result<Self> {
        let index = &compiler.snapshot.index;
        Ok(match compiler.resolve(path) {
            Target::Nothing => Self::Nothing,
            Target::Meta(Meta::Index) => Self::Constant(index.to_string()),
            Target::Meta(Meta::SeqNo) => Self::MetaNumbers("_seq_no"),
            Target::Meta(Meta::Ignored) => Self::Strings {
                class: Class::Keyword,
                path: schema::IGNORED.to_owned(),
                is_ip: false,
            },
            Target::Meta(Meta::Id) => {
                return Err(Error::illegal_argument(
                    "Fielddata access on the _id field is disallowed, you can re-enable it by updating the dynamic \
                     cluster setting: indices.id_field_data.enabled",
                ));
            }
            Target::Meta(meta) => return Err(Error::not_implemented(format!("aggregating on [{meta:?}]"))),
            Target::Field(field) => match (field.class, field.numeric()) {
                (Class::Number, Some(numeric)) => Self::Numbers {
                    path: field.path,
                    numeric,
                },
                (class @ (Class::Keyword | Class::KeywordColumn), _) => Self::Strings {
                    class,
                    is_ip: field.field_type == FieldType::Ip,
                    path: field.path,
                },
                (Class::Text(_), _) => return Err(field.fielddata_error(index)),
                _ if field.field_type == FieldType::ConstantKeyword => {
                    match field.mapping.as_ref().and_then(|mapping| mapping.constant.clone()) {
                        Some(constant) => Self::Constant(constant),
                        None => Self::Nothing,
                    }
                }
                _ => return Err(field.doc_values_error()),
            },
        })
    }

    /// Resolves a field of numbers, dates or booleans; rejects others with the name of the aggregation. An unmapped
    /// field has no values.
    pub(super) fn numbers(compiler: &Compiler, path: &str, name: &str) -> Result<Self> {
        match Self::compile(compiler, path)? {
            source @ (Self::Numbers { .. } | Self::MetaNumbers(_) | Self::Nothing) => Ok(source),
            _ if is_unmapped(compiler, path) => Ok(Self::Nothing),
            Self::Strings { .. } | Self::Constant(_) => Err(unsupported(compiler, path, name)),
        }
    }

    /// Returns the format of its keys and metrics: dates by `format` or their own, numbers by a pattern.
    pub(super) fn value_format(&self, format: Option<&str>) -> Result<ValueFormat> {
        let custom = format.map(DateFormat::new).transpose();
        let pattern = || format.map(DecimalFormat::new).transpose();
        Ok(match self {
            Self::Numbers { numeric, .. } => match numeric {
                Numeric::Date(own) | Numeric::DateNanos(own) => {
                    ValueFormat::Date(custom?.map_or_else(|| Arc::clone(own), Arc::new))
                }
                Numeric::Boolean if format.is_some() => {
                    return Err(Error::illegal_argument(
                        "Field type [boolean] does not support custom formats",
                    ));
                }
                Numeric::Boolean => ValueFormat::Boolean,
                Numeric::Integer => {
                    pattern()?.map_or(ValueFormat::Integer, |pattern| ValueFormat::Decimal(pattern.into()))
                }
                Numeric::Float { .. } | Numeric::Scaled(_) => ValueFormat::of_pattern(pattern()?),
            },
            Self::MetaNumbers(_) => ValueFormat::Integer,
            Self::Strings { .. } | Self::Constant(_) | Self::Nothing => ValueFormat::Raw,
        })
    }

    /// Returns how to read its numbers.
    pub(super) fn numeric(&self) -> Numeric {
        match self {
            Self::Numbers { numeric, .. } => numeric.clone(),
            _ => Numeric::Integer,
        }
    }
}

/// Returns whether the mapping has no such field. It then resolves to a keyword that no segment has.
pub(super) fn is_unmapped(compiler: &Compiler, path: &str) -> bool {
    matches!(compiler.resolve(path), Target::Field(field) if field.mapping.is_none())
}

/// Returns Elasticsearch's error for a field whose type an aggregation cannot read.
pub(super) fn unsupported(compiler: &Compiler, path: &str, name: &str) -> Error {
    let kind = match compiler.resolve(path) {
        Target::Field(field) => field.type_name(),
        Target::Meta(_) | Target::Nothing => "keyword",
    };
    Error::illegal_argument(format!(
        "Field [{path}] of type [{kind}] is not supported for aggregation [{name}]"
    ))
}

/// Reads a value of `missing` for numbers, in the units that aggregations compute with (dates in ms).
pub(super) fn missing_number(numeric: &Numeric, value: &Value, now_ms: i64) -> Result<Number> {
    let bad = || Error::illegal_argument(format!("[missing] value [{value}] does not fit the field"));
    if let Some(format) = numeric.date_format() {
        let nanos = Numeric::parse_date_nanos(format, value, now_ms, false, &Zone::utc())?;
        return Ok(Number::Int(nanos.div_euclid(NANOS.into())));
    }
    let number = match numeric.read(value) {
        Some(number) => number,
        None => scalar_text(value).and_then(|text| read_number(&text)).ok_or_else(bad)?,
    };
    Ok(match numeric {
        Numeric::Integer | Numeric::Boolean => match number {
            Number::Float(float) => Number::Int(float as i128),
            int @ Number::Int(_) => int,
        },
        _ => Number::Float(number.as_f64()),
    })
}

/// Reads a value of `missing`, `include` or `exclude` for strings, as it is stored.
pub(super) fn stored_string(is_ip: bool, value: &Value) -> Result<String> {
    let text = scalar_text(value)
        .ok_or_else(|| Error::illegal_argument(format!("value [{value}] is neither string, number nor boolean")))?;
    if !is_ip {
        return Ok(text);
    }
    match parse_ip_or_block(&text) {
        Some((first, last)) if first == last => Ok(schema::encode_ip(first)),
        _ => Err(Error::illegal_argument(format!(
            "'{text}' is not an IP string literal."
        ))),
    }
}

/// Converts stored units of dates to ms.
pub(super) fn stored_to_ms(stored: i64, units_per_ms: i64) -> i64 {
    debug_assert!(units_per_ms == 1 || units_per_ms == NANOS);
    match units_per_ms {
        1 => stored,
        units => stored.div_euclid(units),
    }
}
