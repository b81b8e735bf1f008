//! Sort keys of documents: comparable within a segment as integers and across segments as values.
//!
//! A [`ShardKey`] is a key of the request resolved against a mapping; opened on a segment, it is a [`SegmentKey`].
//! A segment returns its keys as [`SortValue`]s.

mod after;
mod comparable;
mod number;
mod segment_key;

use std::cmp::Ordering;

use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::FieldType;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{SortBy, SortKey, SortMissing, SortMode};
use firn_segment::columns::column::Number;
use firn_segment::schema;
use firn_segment::schema::Class;
use serde_json::Value;

use super::compile::Compiler;
use super::format;
use crate::compile::field::{Field, Meta, Numeric, Target, parse_ip_or_block, read_number, scalar_text};

pub use self::after::After;
use self::number::{Convert, Kind};
pub(super) use self::segment_key::SegmentKey;

/// The value of a key, comparable across segments and shards.
#[derive(Debug, Clone)]
pub(super) enum SortValue {
    /// The document has no value.
    Missing,
    /// A number, as stored.
    Number(Number),
    /// A string (addresses in their encoded form).
    Text(Box<str>),
}

/// A sort key on one shard.
#[derive(Clone)]
pub(super) struct ShardKey {
    source: Source,
    pub(super) descending: bool,
    missing: Missing,
    mode: Option<SortMode>,
    /// The format in which dates are printed.
    format: Option<DateFormat>,
}

#[derive(Clone)]
enum Source {
    Score,
    Doc,
    Number {
        path: String,
        numeric: Numeric,
        kind: Kind,
        convert: Option<Convert>,
    },
    /// A metadata column of integers.
    MetaNumber(&'static str),
    Text {
        class: Class,
        path: String,
        is_ip: bool,
    },
    /// The same value for every document.
    Constant(SortValue),
}

#[derive(Clone)]
enum Missing {
    First,
    Last,
    Value(SortValue),
}

impl ShardKey {
    /// Resolves a key. Fails like Elasticsearch for unmapped fields, text and fields without doc values.
    pub(super) fn compile(compiler: &Compiler, key: &SortKey) -> Result<Self> {
        let index = &compiler.snapshot.index;
        let source = match &key.by {
            SortBy::Score => Source::Score,
            SortBy::Doc | SortBy::ShardDoc => Source::Doc,
            SortBy::Field(path) => match compiler.resolve(path) {
                Target::Meta(Meta::Index) => Source::Constant(SortValue::Text(index.as_ref().into())),
                Target::Meta(Meta::SeqNo) => Source::MetaNumber("_seq_no"),
                Target::Meta(Meta::Id) => {
                    return Err(Error::illegal_argument(
                        "Fielddata access on the _id field is disallowed, you can re-enable it by updating the \
                         dynamic cluster setting: indices.id_field_data.enabled",
                    ));
                }
                Target::Meta(Meta::Version | Meta::Ignored | Meta::Routing) => {
                    return Err(Error::illegal_argument(format!(
                        "Fielddata is not supported on field [{path}] of type [{path}]"
                    )));
                }
                Target::Nothing => unmapped(path, key)?,
                Target::Field(field) => match (field.class, field.numeric()) {
                    _ if field.mapping.is_none() => unmapped(path, key)?,
                    (Class::Number, Some(numeric)) => {
                        let (convert, numeric) = match key.numeric_type {
                            Some(numeric_type) => Convert::of(numeric_type, numeric)?,
                            None => (None, numeric),
                        };
                        if key.format.is_some() && numeric.date_format().is_none() {
                            return Err(no_format(&field));
                        }
                        Source::Number {
                            kind: Kind::of(&numeric, field.field_type == FieldType::UnsignedLong),
                            path: field.path,
                            numeric,
                            convert,
                        }
                    }
                    (class @ (Class::Keyword | Class::KeywordColumn), _) => {
                        number::check_not_numeric(&field, key.mode, key.numeric_type.is_some())?;
                        if key.format.is_some() {
                            return Err(no_format(&field));
                        }
                        Source::Text {
                            class,
                            is_ip: field.field_type == FieldType::Ip,
                            path: field.path,
                        }
                    }
                    (Class::Text(_), _) => return Err(field.fielddata_error(index)),
                    _ if field.field_type == FieldType::ConstantKeyword => {
                        let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
                        Source::Constant(constant.map_or(SortValue::Missing, |text| SortValue::Text(text.into())))
                    }
                    _ => return Err(field.doc_values_error()),
                },
            },
        };
        let mut compiled = Self {
            source,
            descending: key.descending,
            missing: match key.missing {
                SortMissing::First => Missing::First,
                _ => Missing::Last,
            },
            mode: key.mode,
            format: key.format.as_deref().map(DateFormat::new).transpose()?,
        };
        if let SortMissing::Value(value) = &key.missing {
            let read = compiled.read(value, compiler.now_ms)?;
            compiled.missing = Missing::Value(read.ok_or_else(|| {
                let text = scalar_text(value).unwrap_or_else(|| value.to_string());
                Error::illegal_argument(format!("For input string: \"{text}\""))
            })?);
        } else if let Source::Number { kind, .. } = &compiled.source
            && *kind != Kind::Double
        {
            // As in Elasticsearch, documents without a value have the most extreme integer, and tie with documents
            // that really have it.
            let (min, max) = kind.extremes();
            let extreme = if compiled.missing_is_largest() { max } else { min };
            compiled.missing = Missing::Value(SortValue::Number(Number::Int(extreme)));
        }
        Ok(compiled)
    }

    /// Returns the key for index order.
    pub(super) fn doc() -> Self {
        Self {
            source: Source::Doc,
            descending: false,
            missing: Missing::Last,
            mode: None,
            format: None,
        }
    }

    /// Returns the key for the highest score first.
    pub(super) fn score() -> Self {
        Self {
            source: Source::Score,
            descending: true,
            ..Self::doc()
        }
    }

    pub(super) fn is_score(&self) -> bool {
        matches!(self.source, Source::Score)
    }

    /// Returns whether the highest score is first.
    pub(super) fn is_best_score(&self) -> bool {
        self.is_score() && self.descending
    }

    /// Returns whether it is `@timestamp`, whose bounds segments store.
    pub(super) fn is_timestamp(&self) -> bool {
        matches!(&self.source, Source::Number { path, .. } if path == firn_model::metadata::TIMESTAMP)
    }

    /// Reads a value of `search_after`.
    pub(super) fn read_after(&self, value: &Value, now_ms: i64) -> Result<SortValue> {
        self.read(value, now_ms)?.ok_or_else(|| {
            Error::illegal_argument(match (&self.source, value) {
                (Source::Text { is_ip: true, .. }, Value::String(text)) => {
                    format!("'{text}' is not an IP string literal.")
                }
                _ => format!("Failed to parse search_after value for field [{}].", self.name()),
            })
        })
    }

    /// Reads a value as answers print it or requests write it; `None`: it is no value of this key.
    fn read(&self, value: &Value, now_ms: i64) -> Result<Option<SortValue>> {
        if value.is_null() {
            return Ok(Some(SortValue::Missing));
        }
        let Some(text) = scalar_text(value) else {
            return Ok(None);
        };
        Ok(match &self.source {
            Source::Text { is_ip: true, .. } => {
                parse_ip_or_block(&text).map(|(address, _)| SortValue::Text(schema::encode_ip(address).into()))
            }
            Source::Text { .. } | Source::Constant(_) => Some(SortValue::Text(text.into())),
            Source::Score | Source::Doc | Source::MetaNumber(_) => read_number(&text).map(SortValue::Number),
            Source::Number { numeric, kind, .. } => self.read_numeric(value, &text, numeric, *kind, now_ms)?,
        })
    }

    fn read_numeric(
        &self,
        value: &Value,
        text: &str,
        numeric: &Numeric,
        kind: Kind,
        now_ms: i64,
    ) -> Result<Option<SortValue>> {
        let number = match value {
            Value::Number(_) => read_number(text),
            _ => None,
        };
        let infinity = match text {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        };
        if let Some(infinity) = infinity {
            let is_missing = (infinity > 0.0) == self.missing_is_largest();
            return Ok(Some(match is_missing {
                true => SortValue::Missing,
                false => SortValue::Number(Number::Float(infinity)),
            }));
        }
        let number = match numeric {
            // A number is already in stored units.
            Numeric::Date(_) | Numeric::DateNanos(_) if number.is_some() => number,
            Numeric::Date(format) | Numeric::DateNanos(format) => {
                let format = self.format.as_ref().unwrap_or(format);
                let nanos = format.parse_math_nanos(text, now_ms, false, &Zone::utc())?;
                Some(Number::Int(numeric.date_units(nanos)))
            }
            Numeric::Scaled(factor) => {
                read_number(text).map(|number| Number::Float((number.as_f64() * factor).round()))
            }
            Numeric::Float { single: true } => {
                read_number(text).map(|number| Number::Float(f64::from(number.as_f64() as f32)))
            }
            _ => numeric.read(value).or_else(|| read_number(text)),
        };
        Ok(number.map(|number| SortValue::Number(kind.fit(number))))
    }

    fn name(&self) -> &str {
        match &self.source {
            Source::Score => "_score",
            Source::Doc => "_doc",
            Source::Number { path, .. } | Source::Text { path, .. } => path,
            Source::MetaNumber(name) => name,
            Source::Constant(_) => "_index",
        }
    }

    fn missing_is_largest(&self) -> bool {
        matches!(self.missing, Missing::First) == self.descending
    }

    /// Returns the value as the answer shows it; [`Self::read_after`] reads it back.
    pub(super) fn print(&self, value: &SortValue) -> Value {
        match (&self.source, value) {
            (Source::Number { kind: Kind::Double, .. }, SortValue::Missing) => {
                Value::from(if self.missing_is_largest() {
                    "Infinity"
                } else {
                    "-Infinity"
                })
            }
            (_, SortValue::Missing) => Value::Null,
            (Source::Text { is_ip: true, .. }, SortValue::Text(text)) => format::ip(text),
            (_, SortValue::Text(text)) => Value::from(text.as_ref()),
            (Source::Number { numeric, kind, .. }, SortValue::Number(number)) => {
                let number = kind.fit(*number);
                let (min, max) = kind.extremes();
                match (numeric, &self.format, number) {
                    // The value of documents without a date.
                    (_, Some(_), Number::Int(extreme)) if extreme == min || extreme == max => format::number(number),
                    (Numeric::Date(_), Some(format), Number::Int(ms)) => {
                        Value::from(format.print_ms(ms as i64, &Zone::utc()))
                    }
                    (Numeric::DateNanos(_), Some(format), Number::Int(nanos)) => {
                        Value::from(format.print_nanos(nanos as i64, &Zone::utc()))
                    }
                    (Numeric::Scaled(factor), ..) => format::float(number.as_f64() / factor),
                    (Numeric::Float { single: true }, ..) => format::single(number.as_f64()),
                    (Numeric::Float { single: false }, ..) => format::float(number.as_f64()),
                    _ => format::number(number),
                }
            }
            (Source::Score, SortValue::Number(number)) => format::single(number.as_f64()),
            (_, SortValue::Number(number)) => format::number(*number),
        }
    }

    /// Returns the value that a document without one counts as.
    fn of_missing(&self) -> SortValue {
        match &self.missing {
            Missing::Value(value) => value.clone(),
            Missing::First | Missing::Last => SortValue::Missing,
        }
    }

    fn rank(&self, value: &SortValue) -> u8 {
        match (value, &self.missing) {
            (SortValue::Missing, Missing::First) => 0,
            (SortValue::Missing, _) => 2,
            _ => 1,
        }
    }

    /// Returns which of two values sorts first.
    pub(super) fn compare(&self, a: &SortValue, b: &SortValue) -> Ordering {
        let by_rank = self.rank(a).cmp(&self.rank(b));
        if by_rank.is_ne() {
            return by_rank;
        }
        let ascending = Self::ascending(a, b);
        if self.descending {
            ascending.reverse()
        } else {
            ascending
        }
    }

    /// Compares two values that are not missing.
    fn ascending(a: &SortValue, b: &SortValue) -> Ordering {
        match (a, b) {
            (SortValue::Number(a), SortValue::Number(b)) => a.compare(*b),
            (SortValue::Text(a), SortValue::Text(b)) => a.cmp(b),
            // If indices disagree about the type, numbers sort before strings.
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
            (SortValue::Missing, _) | (_, SortValue::Missing) => Ordering::Equal,
        }
    }
}

fn unmapped(path: &str, key: &SortKey) -> Result<Source> {
    match key.unmapped_type.as_deref() {
        None => Err(Error::new(
            ErrorKind::QueryShard,
            format!("No mapping found for [{path}] in order to sort on"),
        )),
        Some("keyword" | "ip" | "wildcard" | "constant_keyword" | "text" | "string") => {
            Ok(Source::Constant(SortValue::Missing))
        }
        Some(name) => {
            // Its documents print like documents of this type without a value.
            let kind = match FieldType::from_name(name) {
                None => {
                    return Err(Error::illegal_argument(format!("No mapper found for type [{name}]")));
                }
                Some(FieldType::Float | FieldType::Double | FieldType::HalfFloat | FieldType::ScaledFloat) => {
                    Kind::Double
                }
                Some(FieldType::UnsignedLong) => Kind::UnsignedLong,
                Some(_) => Kind::Long,
            };
            Ok(Source::Number {
                path: path.to_owned(),
                numeric: match kind {
                    Kind::Double => Numeric::Float { single: false },
                    _ => Numeric::Integer,
                },
                kind,
                convert: None,
            })
        }
    }
}

/// Returns the error for a format on a field that is not a date.
fn no_format(field: &Field) -> Error {
    Error::illegal_argument(format!(
        "Field [{}] of type [{}] does not support custom formats",
        field.path,
        field.type_name()
    ))
}
