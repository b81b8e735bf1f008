//! Coercion of a JSON scalar to the type of a field, or the reason why it does not fit.

use std::net::IpAddr;

use firn_model::mapping::{FieldMapping, FieldType};

/// Scalar value during mapping.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'t> {
    Text(&'t str),
    /// As written.
    Number(&'t str),
    Bool(bool),
}

impl<'t> Scalar<'t> {
    /// Returns the text as Elasticsearch prints it.
    pub(super) fn as_text(self) -> &'t str {
        match self {
            Scalar::Text(text) | Scalar::Number(text) => text,
            Scalar::Bool(true) => "true",
            Scalar::Bool(false) => "false",
        }
    }
}

/// Number as it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    I64(i64),
    U64(u64),
    F64(f64),
}

/// Result with a reason in Elasticsearch's words where known.
pub(super) type Coerced<T> = Result<T, String>;

/// Returns the value of a number field. Strings are accepted only with `coerce`, as are fractions, which are truncated.
pub(super) fn number(field: &FieldMapping, scalar: Scalar<'_>, coerce: bool) -> Coerced<Number> {
    let text = match scalar {
        Scalar::Number(text) => text,
        Scalar::Text(text) if coerce => text.trim(),
        Scalar::Text(text) => {
            return Err(format!(
                "{} value passed as String and coerce is disabled: \"{text}\"",
                java_name(field.field_type)
            ));
        }
        Scalar::Bool(_) => {
            return Err(format!(
                "Current token (VALUE_BOOLEAN) not numeric, can not use numeric value accessors; field of type [{}]",
                field.field_type.name()
            ));
        }
    };
    match field.field_type {
        FieldType::Byte => integer(text, coerce, i64::from(i8::MIN), i64::from(i8::MAX), "a byte"),
        FieldType::Short => integer(text, coerce, i64::from(i16::MIN), i64::from(i16::MAX), "a short"),
        FieldType::Integer => integer(text, coerce, i64::from(i32::MIN), i64::from(i32::MAX), "an integer"),
        FieldType::Long => integer(text, coerce, i64::MIN, i64::MAX, "a long"),
        FieldType::UnsignedLong => unsigned(text, coerce),
        FieldType::ScaledFloat => scaled(text, field.scaling_factor),
        FieldType::Double => finite(text, "double").map(Number::F64),
        FieldType::Float => single(text, f64::from(f32::MAX), "float"),
        FieldType::HalfFloat => single(text, 65_504.0, "half_float").map(|value| match value {
            Number::F64(value) => Number::F64(round_to_half(value)),
            other => other,
        }),
        _ => Err(format!(
            "a field of type [{}] does not accept numbers",
            field.field_type.name()
        )),
    }
}

fn java_name(field_type: FieldType) -> &'static str {
    match field_type {
        FieldType::Byte | FieldType::Short | FieldType::Integer => "Integer",
        FieldType::Long | FieldType::UnsignedLong => "Long",
        FieldType::Float | FieldType::HalfFloat => "Float",
        _ => "Double",
    }
}

fn parse_float(text: &str) -> Coerced<f64> {
    let plausible = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        Ok(value) if plausible => Ok(value),
        _ if text.is_empty() => Err("empty String".to_owned()),
        _ => Err(format!("For input string: \"{text}\"")),
    }
}

fn integer(text: &str, coerce: bool, low: i64, high: i64, name: &str) -> Coerced<Number> {
    let out_of_range = || Err(format!("Value [{text}] is out of range for {name}"));
    if let Ok(value) = text.parse::<i64>() {
        if value < low || value > high {
            return out_of_range();
        }
        return Ok(Number::I64(value));
    }
    let value = parse_float(text)?;
    if !coerce && value.fract() != 0.0 {
        return Err(format!("Value [{text}] has a decimal part"));
    }
    // 2^63 is not a valid long; as a float it is exact.
    if value < low as f64 || value > high as f64 || value >= 9_223_372_036_854_775_808.0 {
        return out_of_range();
    }
    // The long digits of "9007199254740993.0" must stay: truncate the text, not the float.
    let whole = text.split(['.', 'e', 'E']).next().unwrap_or_default();
    if !text.contains(['e', 'E'])
        && let Ok(value) = whole.parse::<i64>()
    {
        return Ok(Number::I64(value));
    }
    Ok(Number::I64(value as i64))
}

fn unsigned(text: &str, coerce: bool) -> Coerced<Number> {
    if let Ok(value) = text.parse::<u64>() {
        return Ok(Number::U64(value));
    }
    let value = parse_float(text)?;
    if !(0.0..18_446_744_073_709_551_616.0).contains(&value) {
        return Err(format!("Value [{text}] is out of range for unsigned long"));
    }
    if !coerce && value.fract() != 0.0 {
        return Err(format!("Value \"{text}\" has a decimal part"));
    }
    Ok(Number::U64(value as u64))
}

fn finite(text: &str, name: &str) -> Coerced<f64> {
    let value = parse_float(text)?;
    if value.is_finite() {
        // There is one zero: -0.0 and 0.0 are the same value for a search.
        Ok(value + 0.0)
    } else {
        Err(format!("[{name}] supports only finite values, but got [{text}]"))
    }
}

/// Rounds to single precision before storing, so that reads return the same value as Elasticsearch.
fn single(text: &str, max: f64, name: &str) -> Coerced<Number> {
    let value = finite(text, name)?;
    let rounded = f64::from(value as f32);
    if rounded.abs() > max {
        return Err(format!("[{name}] supports only finite values, but got [{text}]"));
    }
    Ok(Number::F64(rounded))
}

fn scaled(text: &str, factor: f64) -> Coerced<Number> {
    let value = finite(text, "scaled_float")?;
    let scaled = (value * factor).round();
    if scaled.abs() >= 9_223_372_036_854_775_808.0 {
        return Err(format!(
            "Value [{text}] is out of range for a scaled_float with scaling factor {factor}"
        ));
    }
    Ok(Number::I64(scaled as i64))
}

/// Returns the nearest half-precision float (11 bits of significand, exponents from -14), ties to even.
fn round_to_half(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    let exponent = value.abs().log2().floor().max(-14.0);
    let unit = (exponent - 10.0).exp2();
    (value / unit).round_ties_even() * unit
}

/// Parses `true`, `false`, and the same as strings; an empty string is false.
pub(super) fn boolean(scalar: Scalar<'_>) -> Coerced<bool> {
    match scalar {
        Scalar::Bool(value) => Ok(value),
        Scalar::Text("true") => Ok(true),
        Scalar::Text("false" | "") => Ok(false),
        Scalar::Text(text) | Scalar::Number(text) => Err(format!(
            "Failed to parse value [{text}] as only [true] or [false] are allowed."
        )),
    }
}

/// Parses an address, v4 or v6.
pub(super) fn address(scalar: Scalar<'_>) -> Coerced<IpAddr> {
    let text = scalar.as_text();
    match scalar {
        Scalar::Text(text) => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| format!("'{text}' is not an IP string literal."))
}

/// Parses `lat,lon` or `POINT (lon lat)`.
pub(super) fn point(text: &str) -> Coerced<(f64, f64)> {
    let text = text.trim();
    let wkt = text
        .get(..5)
        .filter(|word| word.eq_ignore_ascii_case("point"))
        .map(|_| text[5..].trim());
    let (lat, lon) = if let Some(inner) = wkt {
        let inner = inner
            .strip_prefix('(')
            .and_then(|inner| inner.strip_suffix(')'))
            .ok_or_else(|| format!("failed to parse WKT point [{text}]"))?;
        let mut numbers = inner.split_whitespace();
        let lon = numbers.next().unwrap_or_default();
        (numbers.next().unwrap_or_default(), lon)
    } else {
        let mut parts = text.split(',');
        let lat = parts.next().unwrap_or_default();
        let lon = parts
            .next()
            .ok_or_else(|| format!("unsupported symbol in geohash [{text}], firn reads no geohashes"))?;
        (lat, lon)
    };
    check_point(parse_float(lat.trim())?, parse_float(lon.trim())?)
}

/// Checks latitude (within 90 degrees) and longitude (within 180 degrees). As in Elasticsearch, values outside
/// are refused, not normalized.
pub(super) fn check_point(lat: f64, lon: f64) -> Coerced<(f64, f64)> {
    if !(-90.0..=90.0).contains(&lat) {
        return Err(format!("illegal latitude value [{lat}]"));
    }
    if !(-180.0..=180.0).contains(&lon) {
        return Err(format!("illegal longitude value [{lon}]"));
    }
    Ok((lat, lon))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field_type: FieldType, scalar: Scalar<'_>, expected: Option<Number>) {
        let mut field = FieldMapping::of(field_type);
        field.scaling_factor = 100.0;
        assert_eq!(number(&field, scalar, true).ok(), expected, "{field_type:?} {scalar:?}");
    }

    #[test]
    fn numbers() {
        use FieldType as T;
        use Number::{F64, I64, U64};
        use Scalar::{Number as N, Text as S};
        check(T::Long, N("12"), Some(I64(12)));
        check(T::Long, S("12"), Some(I64(12)));
        check(T::Long, S(" 12 "), Some(I64(12)));
        check(T::Long, N("12.7"), Some(I64(12)));
        check(T::Long, N("-12.7"), Some(I64(-12)));
        check(T::Long, N("1e3"), Some(I64(1000)));
        check(T::Long, N("9007199254740993.0"), Some(I64(9_007_199_254_740_993)));
        check(T::Long, N("9223372036854775807"), Some(I64(i64::MAX)));
        check(T::Long, N("9223372036854775808"), None);
        check(T::Long, N("-9223372036854775808"), Some(I64(i64::MIN)));
        check(T::Long, N("1e400"), None);
        check(T::Long, S(""), None);
        check(T::Long, S("x"), None);
        check(T::Long, S("inf"), None);
        check(T::Long, Scalar::Bool(true), None);
        check(T::Byte, N("127"), Some(I64(127)));
        check(T::Byte, N("128"), None);
        check(T::Short, N("-32768"), Some(I64(-32768)));
        check(T::Short, N("-32769"), None);
        check(T::Integer, N("2147483648"), None);
        check(T::UnsignedLong, N("18446744073709551615"), Some(U64(u64::MAX)));
        check(T::UnsignedLong, N("-1"), None);
        check(T::Double, N("0.1"), Some(F64(0.1)));
        check(T::Double, N("1e999"), None);
        check(T::Float, N("0.1"), Some(F64(f64::from(0.1f32))));
        check(T::Float, N("1e39"), None);
        check(T::HalfFloat, N("0.1"), Some(F64(0.099_975_585_937_5)));
        check(T::HalfFloat, N("70000"), None);
        check(T::ScaledFloat, N("0.126"), Some(I64(13)));
    }

    #[test]
    fn without_coerce() {
        let field = FieldMapping::of(FieldType::Long);
        assert!(number(&field, Scalar::Text("5"), false).is_err());
        assert!(number(&field, Scalar::Number("5.5"), false).is_err());
        assert_eq!(number(&field, Scalar::Number("5.0"), false), Ok(Number::I64(5)));
    }

    #[test]
    fn points() {
        assert_eq!(point("41.12,-71.34"), Ok((41.12, -71.34)));
        assert_eq!(point("POINT (-71.34 41.12)"), Ok((41.12, -71.34)));
        assert!(point("91,0").is_err());
        assert!(point("drm3btev3e86").is_err());
        assert!(point("").is_err());
    }
}
