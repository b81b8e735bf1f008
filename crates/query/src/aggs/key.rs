//! Bucket keys and the formats of keys and values.

use std::cmp::Ordering;
use std::net::IpAddr;

use firn_model::dates::Zone;
use serde_json::{Map, Value};

use super::DecimalFormat;
use super::cardinality::{hash_bytes, hash_u64};
use super::ip_range::print_address;

/// Format of a bucket key or metric; the engine resolves it from the mapping.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueFormat {
    /// Strings unchanged; numbers as JSON numbers.
    #[default]
    Raw,
    /// ms since epoch, printed with this format as `…_as_string`.
    Date(std::sync::Arc<firn_model::dates::DateFormat>),
    /// 0 and 1 with `true` and `false` as `key_as_string`.
    Boolean,
    /// An integer type: `key` has no fraction.
    Integer,
    /// Numbers, printed by a pattern as `…_as_string`.
    Decimal(std::sync::Arc<DecimalFormat>),
}

impl ValueFormat {
    /// Keeps the first format that is not `Raw`.
    pub fn merge(&mut self, other: &Self) {
        if *self == Self::Raw {
            *self = other.clone();
        }
    }

    /// Returns the format of a pattern, if there is one.
    pub fn of_pattern(pattern: Option<DecimalFormat>) -> Self {
        pattern.map_or(Self::Raw, |pattern| Self::Decimal(pattern.into()))
    }

    /// Returns the `…_as_string` of a metric's value; `None` where Elasticsearch prints none.
    pub(super) fn print(&self, value: f64) -> Option<String> {
        match self {
            Self::Raw | Self::Integer => None,
            Self::Date(format) => Some(format.print_ms(value as i64, &Zone::utc())),
            Self::Boolean => Some((value != 0.0).to_string()),
            Self::Decimal(format) => Some(format.print(value)),
        }
    }

    /// Returns `{"value": …, "value_as_string": …}`; null without a value.
    pub(super) fn print_value(&self, value: Option<f64>) -> Map<String, Value> {
        let mut answer = Map::with_capacity(1);
        answer.insert("value".into(), value.map_or(Value::Null, float));
        if let Some(text) = value.and_then(|value| self.print(value)) {
            answer.insert("value_as_string".into(), text.into());
        }
        answer
    }

    /// Like [`Self::print`], for metrics with several values: there Elasticsearch prints booleans as JSON booleans.
    pub(super) fn print_one_of_several(&self, value: f64) -> Option<Value> {
        match self {
            Self::Boolean => Some((value != 0.0).into()),
            _ => self.print(value).map(Value::from),
        }
    }
}

/// A bucket key. Strings order by bytes, numbers by value.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// No value, in a tuple.
    Null,
    /// Keyword and similar types.
    Str(String),
    /// An address as IPv6, with IPv4 addresses mapped.
    Ip(u128),
    /// Integers, dates (ms), booleans.
    I64(i64),
    /// `unsigned_long` beyond i64.
    U64(u64),
    /// Floats.
    F64(f64),
    /// Values of several fields.
    Tuple(Vec<Self>),
}

impl Key {
    /// Compares keys: null before numbers (by value) before addresses before strings (by bytes) before tuples (element
    /// by element).
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Less,
            (_, Self::Null) => Ordering::Greater,
            (Self::Tuple(left), Self::Tuple(right)) => {
                let mut parts = left.iter().zip(right).map(|(left, right)| left.compare(right));
                let unequal = parts.find(|ordering| ordering.is_ne());
                unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Tuple(_), _) => Ordering::Greater,
            (_, Self::Tuple(_)) => Ordering::Less,
            (Self::Str(left), Self::Str(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Self::Str(_), _) => Ordering::Greater,
            (_, Self::Str(_)) => Ordering::Less,
            (Self::Ip(left), Self::Ip(right)) => left.cmp(right),
            (Self::Ip(_), _) => Ordering::Greater,
            (_, Self::Ip(_)) => Ordering::Less,
            (Self::F64(left), right) => left.total_cmp(&right.as_f64()),
            (left, Self::F64(right)) => left.as_f64().total_cmp(right),
            (left, right) => left.as_integer().cmp(&right.as_integer()),
        }
    }

    /// Returns a numeric key as a number; 0 for other keys.
    pub(super) fn as_f64(&self) -> f64 {
        match self {
            Self::Null | Self::Str(_) | Self::Ip(_) | Self::Tuple(_) => 0.0,
            Self::I64(value) => *value as f64,
            Self::U64(value) => *value as f64,
            Self::F64(value) => *value,
        }
    }

    fn as_integer(&self) -> i128 {
        match self {
            Self::I64(value) => i128::from(*value),
            Self::U64(value) => i128::from(*value),
            Self::Null | Self::Str(_) | Self::Ip(_) | Self::F64(_) | Self::Tuple(_) => 0,
        }
    }

    /// Returns `key`.
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Str(text) => Value::String(text),
            Self::Ip(bits) => Value::String(print_address(bits)),
            Self::Tuple(parts) => parts.into_iter().map(Self::into_json).collect(),
            Self::I64(value) => Value::from(value),
            Self::U64(value) => Value::from(value),
            Self::F64(value) => float(value),
        }
    }

    /// Returns `key_as_string`; `None` where Elasticsearch prints none.
    pub(super) fn print_as_string(&self, format: &ValueFormat) -> Option<String> {
        match (self, format) {
            (Self::I64(ms), ValueFormat::Date(format)) => Some(format.print_ms(*ms, &Zone::utc())),
            (Self::I64(value), ValueFormat::Boolean) => Some((*value != 0).to_string()),
            (Self::I64(value), ValueFormat::Decimal(format)) => Some(format.print_integer((*value).into())),
            (Self::U64(value), ValueFormat::Decimal(format)) => Some(format.print_integer((*value).into())),
            (Self::F64(value), ValueFormat::Decimal(format)) => Some(format.print(*value)),
            _ => None,
        }
    }
}

/// Returns a JSON number; for values without one (NaN, infinities) the string that Elasticsearch prints.
pub(super) fn float(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}

/// Returns a double as Java prints it (`Double.toString`), which Elasticsearch uses for keys.
pub(super) fn double_text(value: f64) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// A [`Key`] in hashable form (f64 by its bits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyBytes {
    /// See [`Key::Null`].
    Null,
    /// See [`Key::Str`].
    Str(Box<str>),
    /// See [`Key::Ip`].
    Ip(u128),
    /// See [`Key::I64`].
    I64(i64),
    /// See [`Key::U64`].
    U64(u64),
    /// Order-preserving bits of an f64.
    F64(u64),
    /// See [`Key::Tuple`].
    Tuple(Box<[Self]>),
}

const SIGN: u64 = 1 << 63;

impl KeyBytes {
    /// Returns the key of a float; `-0.0` becomes `0.0`.
    pub fn from_f64(value: f64) -> Self {
        let bits = if value == 0.0 { 0 } else { value.to_bits() };
        Self::F64(if bits & SIGN == 0 { bits | SIGN } else { !bits })
    }

    /// Returns the key of an address.
    pub fn from_ip(address: IpAddr) -> Self {
        Self::Ip(match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        })
    }

    /// Returns a hash that is the same in every process; equal keys of different number types differ.
    pub fn hash64(&self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Str(text) => hash_bytes(text.as_bytes()),
            Self::Ip(bits) => hash_bytes(&bits.to_le_bytes()),
            Self::I64(value) => hash_u64(*value as u64),
            Self::U64(value) | Self::F64(value) => hash_u64(*value),
            Self::Tuple(parts) => parts
                .iter()
                .fold(0, |hash: u64, part| hash_u64(hash.rotate_left(7) ^ part.hash64())),
        }
    }
}

impl From<Key> for KeyBytes {
    fn from(key: Key) -> Self {
        match key {
            Key::Null => Self::Null,
            Key::Str(text) => Self::Str(text.into_boxed_str()),
            Key::Ip(bits) => Self::Ip(bits),
            Key::Tuple(parts) => Self::Tuple(parts.into_iter().map(Self::from).collect()),
            Key::I64(value) => Self::I64(value),
            Key::U64(value) => Self::U64(value),
            Key::F64(value) => Self::from_f64(value),
        }
    }
}

impl From<KeyBytes> for Key {
    fn from(key: KeyBytes) -> Self {
        match key {
            KeyBytes::Null => Self::Null,
            KeyBytes::Str(text) => Self::Str(text.into_string()),
            KeyBytes::Ip(bits) => Self::Ip(bits),
            KeyBytes::Tuple(parts) => Self::Tuple(parts.into_iter().map(Self::from).collect()),
            KeyBytes::I64(value) => Self::I64(value),
            KeyBytes::U64(value) => Self::U64(value),
            KeyBytes::F64(bits) => Self::F64(f64::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN })),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_all_kinds_are_ordered() {
        let sorted = [
            Key::Null,
            Key::F64(-1.5),
            Key::I64(-1),
            Key::I64(3),
            Key::F64(3.5),
            Key::U64(u64::MAX),
            Key::Ip(3),
            Key::Ip(1 << 100),
            Key::Str("A".into()),
            Key::Str("a".into()),
            Key::Str("é".into()),
            Key::Tuple(vec![Key::Null, Key::I64(9)]),
            Key::Tuple(vec![Key::I64(1), Key::Str("a".into())]),
            Key::Tuple(vec![Key::I64(1), Key::Str("b".into())]),
        ];
        for pair in sorted.windows(2) {
            assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(pair[1].compare(&pair[0]), Ordering::Greater, "{pair:?}");
        }
    }

    #[test]
    fn zeros_are_one_key() {
        assert_eq!(KeyBytes::from_f64(-0.0), KeyBytes::from_f64(0.0));
    }

    #[test]
    fn doubles_print_as_in_java() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.5, "-0.5"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.25e10, "-1.25E10"),
            (0.00025, "2.5E-4"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(double_text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn float_keys_keep_value_and_order(left in any::<f64>(), right in any::<f64>()) {
            let (left_key, right_key) = (KeyBytes::from_f64(left), KeyBytes::from_f64(right));
            if let Key::F64(back) = Key::from(left_key.clone()) {
                prop_assert!(back == left || left.is_nan());
            }
            if left != right {
                prop_assert_eq!(left_key.cmp(&right_key), left.total_cmp(&right));
            }
        }
    }
}
