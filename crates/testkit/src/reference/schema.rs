//! Fields of the reference's index, and conversion of JSON scalars to their values.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};

use super::dates;
use super::text;

/// Type of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `keyword`.
    Keyword,
    /// `keyword` with `normalizer: lowercase`.
    Lower,
    /// `wildcard`.
    Wildcard,
    /// `constant_keyword` of this value.
    Constant(&'static str),
    /// `text` with the standard analyzer.
    Text,
    /// `long` and smaller integers: name and bounds.
    Integer(&'static str, i128, i128),
    /// `double`.
    Double,
    /// `float`.
    Float,
    /// `scaled_float` with this factor.
    Scaled(f64),
    /// `boolean`.
    Boolean,
    /// `date`.
    Date,
    /// `date_nanos`.
    DateNanos,
    /// `ip`.
    Ip,
}

/// Indexed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Strings.
    Text(String),
    /// Integers, booleans (0 and 1), `date` in ms and `date_nanos` in ns since 1970.
    Int(i128),
    /// Floats.
    Float(f64),
    /// Addresses as IPv6, v4 mapped.
    Ip(u128),
}

/// Every field with its type. `seq` is unique per document, so sorts may end with it.
pub const FIELDS: &[(&str, Kind)] = &[
    ("seq", Kind::Integer("long", i64::MIN as i128, i64::MAX as i128)),
    ("@timestamp", Kind::Date),
    ("kw", Kind::Keyword),
    ("tags", Kind::Keyword),
    ("lower", Kind::Lower),
    ("wild", Kind::Wildcard),
    ("env", Kind::Constant("prod")),
    ("msg", Kind::Text),
    ("msg.raw", Kind::Keyword),
    ("num", Kind::Integer("long", i64::MIN as i128, i64::MAX as i128)),
    ("small", Kind::Integer("short", i16::MIN as i128, i16::MAX as i128)),
    ("big", Kind::Integer("unsigned_long", 0, u64::MAX as i128)),
    ("ratio", Kind::Double),
    ("single", Kind::Float),
    ("price", Kind::Scaled(100.0)),
    ("flag", Kind::Boolean),
    ("nanos", Kind::DateNanos),
    ("ip", Kind::Ip),
    ("obj.name", Kind::Keyword),
    (
        "obj.count",
        Kind::Integer("integer", i32::MIN as i128, i32::MAX as i128),
    ),
    ("tenant", Kind::Keyword),
];

/// Returns the type of a field. Panics if it does not exist.
pub(crate) fn kind(field: &str) -> Kind {
    let found = FIELDS.iter().find(|(name, _)| *name == field);
    found
        .unwrap_or_else(|| panic!("the reference has no field [{field}]"))
        .1
}

/// Returns whether a field of this name exists; an object is not a field.
pub(crate) fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|(field, _)| *field == name)
}

/// Returns the `mappings` of the index.
pub fn mappings() -> Json {
    let mut properties = serde_json::Map::new();
    let mut object = serde_json::Map::new();
    for (name, kind) in FIELDS {
        let definition = match kind {
            Kind::Keyword => json!({"type": "keyword"}),
            Kind::Lower => json!({"type": "keyword", "normalizer": "lowercase"}),
            Kind::Wildcard => json!({"type": "wildcard"}),
            Kind::Constant(value) => json!({"type": "constant_keyword", "value": value}),
            Kind::Text => json!({"type": "text", "fields": {"raw": {"type": "keyword"}}}),
            Kind::Integer(name, ..) => json!({"type": name}),
            Kind::Double => json!({"type": "double"}),
            Kind::Float => json!({"type": "float"}),
            Kind::Scaled(factor) => json!({"type": "scaled_float", "scaling_factor": factor}),
            Kind::Boolean => json!({"type": "boolean"}),
            Kind::Date => json!({"type": "date"}),
            Kind::DateNanos => json!({"type": "date_nanos"}),
            Kind::Ip => json!({"type": "ip"}),
        };
        match name.split_once('.') {
            None => drop(properties.insert((*name).to_owned(), definition)),
            Some(("obj", leaf)) => drop(object.insert(leaf.to_owned(), definition)),
            // The multi-field of `msg` is part of its definition.
            Some(_) => {}
        }
    }
    properties.insert("obj".to_owned(), json!({"properties": object}));
    json!({"properties": properties})
}

impl Kind {
    /// Returns whether metrics accept the type.
    pub fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::Integer(..)
                | Self::Double
                | Self::Float
                | Self::Scaled(_)
                | Self::Boolean
                | Self::Date
                | Self::DateNanos
        )
    }

    /// Returns whether the type is `date` or `date_nanos`.
    pub fn is_date(self) -> bool {
        matches!(self, Self::Date | Self::DateNanos)
    }

    /// Converts a value of a document; `None` if it does not fit.
    pub fn coerce(self, scalar: &Json) -> Option<Value> {
        let text = scalar_text(scalar)?;
        let is_number = scalar.is_number() || scalar.is_string();
        match self {
            Self::Keyword | Self::Wildcard | Self::Text => Some(Value::Text(text)),
            Self::Lower => Some(Value::Text(text.to_lowercase())),
            Self::Constant(value) => (text == value).then_some(Value::Text(text)),
            Self::Integer(_, low, high) => {
                let number = text.trim().parse::<i128>().ok();
                let number = number.or_else(|| parse_float(&text).map(|float| float.trunc() as i128));
                number
                    .filter(|number| is_number && (low..=high).contains(number))
                    .map(Value::Int)
            }
            Self::Double => parse_float(&text).filter(|_| is_number).map(Value::Float),
            Self::Float => {
                let float = parse_float(&text)
                    .filter(|_| is_number)
                    .map(|float| f64::from(float as f32));
                float.filter(|float| float.is_finite()).map(Value::Float)
            }
            Self::Scaled(factor) => {
                let float = parse_float(&text).filter(|_| is_number);
                float.map(|float| Value::Float((float * factor).round() / factor))
            }
            Self::Boolean => match (scalar, text.as_str()) {
                (Json::Number(_), _) => None,
                (_, "true") => Some(Value::Int(1)),
                (_, "false" | "") => Some(Value::Int(0)),
                _ => None,
            },
            Self::Date | Self::DateNanos => {
                if !is_number {
                    return None;
                }
                let ns = dates::parse(&text, false, &TimeZone::UTC)?;
                Some(self.of_ns(ns))
            }
            Self::Ip => Some(Value::Ip(address(scalar.as_str()?)?)),
        }
    }

    /// Returns an instant in the unit of a date field.
    pub fn of_ns(self, ns: i128) -> Value {
        match self {
            Self::DateNanos => Value::Int(ns),
            _ => Value::Int(ns.div_euclid(1_000_000)),
        }
    }
}

impl Value {
    /// Returns the number that metrics use; dates in ms.
    pub fn number(&self, kind: Kind) -> f64 {
        match (self, kind) {
            (Self::Int(ns), Kind::DateNanos) => ns.div_euclid(1_000_000) as f64,
            (Self::Int(number), _) => *number as f64,
            (Self::Float(number), _) => *number,
            (Self::Text(_) | Self::Ip(_), _) => panic!("{self:?} is no number"),
        }
    }

    /// Total order within a field.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Int(left), Self::Int(right)) => left.cmp(right),
            (Self::Ip(left), Self::Ip(right)) => left.cmp(right),
            (Self::Int(left), Self::Float(right)) => compare_mixed(*left, *right),
            (Self::Float(left), Self::Int(right)) => compare_mixed(*right, *left).reverse(),
            (Self::Float(left), Self::Float(right)) => left.total_cmp(right),
            _ => panic!("{self:?} and {other:?} are not of one field"),
        }
    }
}

fn compare_mixed(int: i128, float: f64) -> std::cmp::Ordering {
    let floor = float.floor();
    int.cmp(&(floor as i128)).then(if float > floor {
        std::cmp::Ordering::Less
    } else {
        std::cmp::Ordering::Equal
    })
}

/// Converts a scalar to text, as Elasticsearch does for string fields.
pub(crate) fn scalar_text(scalar: &Json) -> Option<String> {
    match scalar {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Parses a finite number.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let float = text.parse::<f64>().ok()?;
    (float.is_finite() && text.bytes().any(|byte| byte.is_ascii_digit())).then_some(float)
}

/// Parses an address as IPv6.
pub(crate) fn address(text: &str) -> Option<u128> {
    Some(match text.parse().ok()? {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    })
}

/// Returns the first and the last address of a block such as `10.0.0.0/8`.
pub(crate) fn block(text: &str) -> Option<(u128, u128)> {
    let (base, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    let length = if base.contains(':') { length } else { length + 96 };
    let mask = u128::MAX.checked_shr(length).unwrap_or(0);
    let first = address(base)? & !mask;
    Some((first, first | mask))
}

/// Prints an address.
pub(crate) fn print_address(bits: u128) -> String {
    let v6 = std::net::Ipv6Addr::from_bits(bits);
    v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
}

/// Document with its values by field.
#[derive(Debug, Clone)]
pub struct Document {
    /// `_id`.
    pub id: String,
    /// `_source`.
    pub source: Json,
    /// Values by field, in the order of doc values: ascending; strings without duplicates.
    pub values: BTreeMap<&'static str, Vec<Value>>,
    /// Words by field: one list per value of a text, or per malformed value.
    pub words: BTreeMap<String, Vec<Vec<String>>>,
}

impl Document {
    /// Reads a source.
    pub fn new(id: &str, source: Json) -> Self {
        let mut document = Self {
            id: id.to_owned(),
            source: source.clone(),
            values: BTreeMap::new(),
            words: BTreeMap::new(),
        };
        document.read("", &source);
        for (field, kind) in FIELDS {
            if let Kind::Constant(value) = kind {
                document.values.insert(field, vec![Value::Text((*value).to_owned())]);
            }
        }
        for values in document.values.values_mut() {
            values.sort_by(Value::compare);
            if matches!(values.first(), Some(Value::Text(_) | Value::Ip(_))) {
                values.dedup();
            }
        }
        document
    }

    fn read(&mut self, path: &str, value: &Json) {
        match value {
            Json::Null => {}
            Json::Array(elements) => elements.iter().for_each(|element| self.read(path, element)),
            Json::Object(members) if path.is_empty() || !is_field(path) => {
                for (key, member) in members {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    self.read(&path, member);
                }
            }
            // An object in place of a value is not searchable.
            Json::Object(_) => {}
            scalar => self.scalar(path, scalar),
        }
    }

    fn scalar(&mut self, path: &str, scalar: &Json) {
        let words = || text::words(&scalar_text(scalar).unwrap_or_default());
        let fields = FIELDS
            .iter()
            .filter(|(name, _)| *name == path || (path == "msg" && *name == "msg.raw"));
        let mut found = false;
        for (name, kind) in fields {
            found = true;
            match kind.coerce(scalar) {
                Some(_) if *kind == Kind::Text => self.words.entry(path.to_owned()).or_default().push(words()),
                Some(value) => self.values.entry(name).or_default().push(value),
                None => self.words.entry(path.to_owned()).or_default().push(words()),
            }
        }
        assert!(found || path == "obj", "the reference has no field [{path}]");
    }

    /// Returns the values of a field; may be empty.
    pub fn values(&self, field: &str) -> &[Value] {
        self.values.get(field).map_or(&[], Vec::as_slice)
    }
}
