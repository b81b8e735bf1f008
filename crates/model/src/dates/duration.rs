//! Parsing of time values: `30s`, `5m`.

use crate::{Error, Result};

/// Parses an Elasticsearch time value (`30s`, `100ms`, `2d`, `500micros`, `10nanos`, `0`) to ms (fractions of an ms are
/// rounded up to 1). Signs, fractions and missing units fail with [`crate::ErrorKind::IllegalArgument`], as in
/// Elasticsearch.
pub fn parse_duration_ms(text: &str) -> Result<u64> {
    parse(text, &format!("value [{text}]"))
}

/// Parses like [`parse_duration_ms`]; errors name the setting.
pub fn parse_duration_setting_ms(setting: &str, text: &str) -> Result<u64> {
    parse(text, &format!("setting [{setting}] with value [{text}]"))
}

fn parse(text: &str, what: &str) -> Result<u64> {
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(0);
    }
    let lower = trimmed.to_ascii_lowercase();
    // Longer suffixes first, because `ms` ends in `s`.
    let units: [(&str, u64, u64); 7] = [
        ("nanos", 1, 1_000_000),
        ("micros", 1, 1000),
        ("ms", 1, 1),
        ("s", 1000, 1),
        ("m", 60_000, 1),
        ("h", 3_600_000, 1),
        ("d", 86_400_000, 1),
    ];
    let found = units
        .iter()
        .find_map(|(suffix, factor, divisor)| Some((lower.strip_suffix(suffix)?, *factor, *divisor)));
    let Some((number, factor, divisor)) = found else {
        return Err(Error::illegal_argument(format!(
            "failed to parse {what} as a time value: unit is missing or unrecognized"
        )));
    };
    let number = number.trim();
    if let Ok(number) = number.parse::<u64>() {
        return number
            .checked_mul(factor)
            .map(|value| value.div_ceil(divisor))
            .ok_or_else(|| Error::illegal_argument(format!("failed to parse {what}: it is too large")));
    }
    Err(Error::illegal_argument(match number.parse::<f64>() {
        Ok(value) if value < 0.0 => {
            format!("failed to parse {what} as a time value: negative durations are not supported")
        }
        Ok(_) => format!("failed to parse {what}, fractional time values are not supported"),
        Err(_) => format!("failed to parse {what}"),
    }))
}
