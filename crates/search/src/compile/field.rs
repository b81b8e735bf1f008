//! Resolution of a query's path on one shard, and conversion of its values to numbers.

use std::net::IpAddr;
use std::sync::Arc;

use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::{FieldMapping, FieldType, Mapping, Resolved};
use firn_model::{Error, ErrorKind, Result};
use firn_segment::columns::column::Number;
use firn_segment::schema;
use firn_segment::schema::Class;
use serde_json::Value;

/// The result of resolving a path on one shard.
#[derive(Clone)]
pub(crate) enum Target {
    /// A metadata field.
    Meta(Meta),
    /// A field with its own values.
    Field(Field),
    /// An object, or a field that is never indexed.
    Nothing,
}

/// A metadata field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meta {
    Id,
    Index,
    SeqNo,
    Version,
    Ignored,
    Routing,
}

impl Meta {
    pub(crate) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "_id" => Self::Id,
            "_index" => Self::Index,
            "_seq_no" => Self::SeqNo,
            "_version" => Self::Version,
            "_ignored" => Self::Ignored,
            "_routing" => Self::Routing,
            _ => return None,
        })
    }
}

/// A leaf field: the place and the meaning of its values.
#[derive(Clone)]
pub(crate) struct Field {
    /// The path under which it is stored, with aliases resolved.
    pub(crate) path: String,
    /// The class of its values.
    pub(crate) class: Class,
    /// Its type; `Keyword` where the mapping has none.
    pub(crate) field_type: FieldType,
    /// Its mapping; `None`: unmapped (events past the field limit are indexed as keywords).
    pub(crate) mapping: Option<Arc<FieldMapping>>,
}

/// Resolves a path. An unmapped path resolves to a keyword that most likely no segment has: past the field limit,
/// leaves are indexed as keywords without an entry in the mapping.
pub(crate) fn resolve(mapping: &Mapping, path: &str) -> Target {
    if let Some(meta) = Meta::of(path) {
        return Target::Meta(meta);
    }
    match mapping.resolve(path) {
        None => Target::Field(Field {
            path: path.to_owned(),
            class: Class::Keyword,
            field_type: FieldType::Keyword,
            mapping: None,
        }),
        Some(Resolved::Object(_)) => Target::Nothing,
        Some(Resolved::Field(path, field)) => Target::Field(Field {
            path,
            class: schema::class_of(field),
            field_type: field.field_type,
            mapping: Some(Arc::clone(field)),
        }),
        Some(Resolved::Flattened(path, field, key)) => Target::Field(Field {
            path: format!("{path}.{key}"),
            class: schema::class_of(field),
            field_type: FieldType::Keyword,
            mapping: Some(Arc::clone(field)),
        }),
    }
}

impl Field {
    /// Returns the name of the type, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        self.field_type.name()
    }

    /// Returns how to read its numbers; `None`: it has no numbers.
    pub(crate) fn numeric(&self) -> Option<Numeric> {
        let mapping = self.mapping.as_ref()?;
        let format = || match &mapping.format {
            Some(format) => Arc::clone(format),
            None => Arc::new(DateFormat::default_millis()),
        };
        Some(match self.field_type {
            FieldType::Long | FieldType::Integer | FieldType::Short | FieldType::Byte | FieldType::UnsignedLong => {
                Numeric::Integer
            }
            FieldType::Double => Numeric::Float { single: false },
            FieldType::Float | FieldType::HalfFloat => Numeric::Float { single: true },
            FieldType::ScaledFloat => Numeric::Scaled(mapping.scaling_factor),
            FieldType::Boolean => Numeric::Boolean,
            FieldType::Date => Numeric::Date(format()),
            FieldType::DateNanos => Numeric::DateNanos(format()),
            _ => return None,
        })
    }

    /// Returns Elasticsearch's error for sorting or aggregating on text.
    pub(crate) fn fielddata_error(&self, index: &str) -> Error {
        Error::illegal_argument(format!(
            "Fielddata is disabled on [{path}] in [{index}]. Text fields are not optimised for operations that require \
             per-document field data like aggregations and sorting, so these operations are disabled by default. \
             Please use a keyword field instead. Alternatively, set fielddata=true on [{path}] in order to load field \
             data by uninverting the inverted index. Note that this can use significant memory.",
            path = self.path
        ))
    }

    /// Returns the error for sorting or aggregating on a field without doc values.
    pub(crate) fn doc_values_error(&self) -> Error {
        Error::illegal_argument(format!(
            "Can't load fielddata on [{}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
            self.path,
            self.type_name()
        ))
    }
}

/// The way to read and write the numbers of a field.
#[derive(Debug, Clone)]
pub(crate) enum Numeric {
    Integer,
    Float {
        /// Whether it is stored with the precision of an `f32`.
        single: bool,
    },
    /// Stored times this, rounded.
    Scaled(f64),
    /// 0 and 1.
    Boolean,
    /// ms since epoch UTC.
    Date(Arc<DateFormat>),
    /// ns since epoch UTC.
    DateNanos(Arc<DateFormat>),
}

/// A value of a query after parsing for a numeric field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parsed {
    /// This number, as stored.
    Number(Number),
    /// A number that no document can hold.
    Never,
    /// Not a number at all.
    NotANumber,
}

/// Nanoseconds per millisecond.
pub(crate) const NANOS: i64 = 1_000_000;

impl Numeric {
    /// Reads a number, not yet scaled. It does not read dates.
    pub(crate) fn read(&self, value: &Value) -> Option<Number> {
        match (self, value) {
            (Self::Boolean, Value::Bool(value)) => Some(Number::Int((*value).into())),
            (Self::Boolean, Value::String(text)) => match text.as_str() {
                "true" => Some(Number::Int(1)),
                "false" | "" => Some(Number::Int(0)),
                _ => None,
            },
            (Self::Boolean, _) => None,
            (_, Value::Number(number)) => {
                if let Some(value) = number.as_i64() {
                    Some(Number::Int(value.into()))
                } else if let Some(value) = number.as_u64() {
                    Some(Number::Int(value.into()))
                } else {
                    number.as_f64().map(Number::Float)
                }
            }
            (_, Value::String(text)) => read_number(text),
            _ => None,
        }
    }

    /// Reads a value for an equality test, as it would be stored.
    pub(crate) fn parse_exact(&self, value: &Value) -> Parsed {
        let Some(number) = self.read(value) else {
            return Parsed::NotANumber;
        };
        match self {
            Self::Integer | Self::Boolean => match number {
                Number::Float(float) if float.fract() != 0.0 || !float.is_finite() => Parsed::Never,
                Number::Float(float) => Parsed::Number(Number::Int(float as i128)),
                int @ Number::Int(_) => Parsed::Number(int),
            },
            Self::Float { single: false } => Parsed::Number(Number::Float(number.as_f64())),
            Self::Float { single: true } => Parsed::Number(Number::Float(f64::from(number.as_f64() as f32))),
            Self::Scaled(factor) => Parsed::Number(Number::Float((number.as_f64() * factor).round())),
            Self::Date(_) | Self::DateNanos(_) => Parsed::NotANumber,
        }
    }

    /// Reads a bound of a range, in stored units; returns whether it is inclusive.
    pub(crate) fn parse_bound(&self, value: &Value, included: bool, is_lower: bool) -> Result<(Number, bool)> {
        let number = self.read(value).ok_or_else(|| bad_number(value))?;
        Ok(match self {
            Self::Scaled(factor) => {
                // As in Elasticsearch: an exclusive bound moves to the next double, then to a step.
                let float = number.as_f64();
                let float = match (included, is_lower) {
                    (true, _) => float,
                    (false, true) => float.next_up(),
                    (false, false) => float.next_down(),
                };
                let scaled = float * factor;
                (
                    Number::Float(if is_lower { scaled.ceil() } else { scaled.floor() }),
                    true,
                )
            }
            Self::Float { single: true } => match number {
                Number::Float(float) => (Number::Float(f64::from(float as f32)), included),
                int @ Number::Int(_) => (int, included),
            },
            _ => (number, included),
        })
    }

    /// Returns a stored number as Elasticsearch computes with it: descaled; dates in ms.
    pub(crate) fn value(&self, stored: f64) -> f64 {
        match self {
            Self::Scaled(factor) => stored / factor,
            Self::DateNanos(_) => (stored / NANOS as f64).floor(),
            _ => stored,
        }
    }

    /// Returns the date format of a date field.
    pub(crate) fn date_format(&self) -> Option<&Arc<DateFormat>> {
        match self {
            Self::Date(format) | Self::DateNanos(format) => Some(format),
            _ => None,
        }
    }

    /// Returns the number of stored units per millisecond, for dates.
    pub(crate) fn units_per_ms(&self) -> i64 {
        match self {
            Self::DateNanos(_) => NANOS,
            _ => 1,
        }
    }

    /// Reads a date of a query, in ns. Numbers that the format does not accept are ms.
    pub(crate) fn parse_date_nanos(
        format: &DateFormat,
        value: &Value,
        now_ms: i64,
        round_up: bool,
        zone: &Zone,
    ) -> Result<i128> {
        let text = scalar_text(value).ok_or_else(|| bad_date(value, format, None))?;
        match format.parse_math_nanos(&text, now_ms, round_up, zone) {
            Ok(nanos) => Ok(nanos),
            Err(error) => match value.as_i64() {
                Some(ms) => Ok(i128::from(ms) * i128::from(NANOS)),
                None => Err(bad_date(value, format, Some(error))),
            },
        }
    }

    /// Converts a date to the unit of a date field, and truncates finer digits.
    pub(crate) fn date_units(&self, nanos: i128) -> i128 {
        nanos.div_euclid(i128::from(NANOS / self.units_per_ms()))
    }
}

fn bad_date(value: &Value, format: &DateFormat, cause: Option<Error>) -> Error {
    let error = Error::parsing(format!(
        "failed to parse date field [{}] with format [{}]",
        scalar_text(value).unwrap_or_else(|| value.to_string()),
        format.pattern()
    ));
    match cause {
        Some(cause) => error.caused_by(cause),
        None => error,
    }
}

/// Returns Elasticsearch's error for a value that is not a number.
pub(crate) fn bad_number(value: &Value) -> Error {
    let text = scalar_text(value).unwrap_or_else(|| value.to_string());
    Error::new(
        ErrorKind::QueryShard,
        format!("failed to create query: For input string: \"{text}\""),
    )
}

/// Reads a number from a string with the coercion rules of Elasticsearch.
pub(crate) fn read_number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(value) = text.parse::<i128>() {
        return Some(Number::Int(value));
    }
    // Rust also parses `inf` and `nan`, which are not numbers here.
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse::<f64>()
        .ok()
        .filter(|value| !value.is_nan())
        .map(Number::Float)
}

/// Returns a scalar of a query as text; `None` for null, arrays and objects.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Parses an address or a CIDR block (`10.0.0.0/8`) into inclusive bounds.
pub(crate) fn parse_ip_or_block(text: &str) -> Option<(IpAddr, IpAddr)> {
    let Some((address, length)) = text.split_once('/') else {
        let address: IpAddr = text.parse().ok()?;
        return Some((address, address));
    };
    let length: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(v4) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            let first = v4.to_bits() & mask;
            Some((IpAddr::V4(first.into()), IpAddr::V4((first | !mask).into())))
        }
        IpAddr::V6(v6) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            let first = v6.to_bits() & mask;
            Some((IpAddr::V6(first.into()), IpAddr::V6((first | !mask).into())))
        }
        _ => None,
    }
}
