//! Time values: `30s`, `5m`.

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

/// Units in which durations print, longest first, with their ms.
const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];

/// Prints a duration in its largest unit with at most this number of decimals, truncated and without zeros at the end,
/// as Elasticsearch does: `1.25h`, `30s`, `839ms`.
pub fn print_duration_ms(ms: u64, decimals: usize) -> String {
    let Some((unit, unit_ms)) = UNITS.into_iter().find(|(_, unit_ms)| ms >= *unit_ms) else {
        return format!("{ms}ms");
    };
    let scale = 10_u128.pow(decimals as u32);
    let scaled = u128::from(ms) * scale / u128::from(unit_ms);
    match scaled % scale {
        0 => format!("{}{unit}", scaled / scale),
        fraction => {
            let fraction = format!("{fraction:0decimals$}");
            format!("{}.{}{unit}", scaled / scale, fraction.trim_end_matches('0'))
        }
    }
}

/// Prints a duration in the largest unit of which it is a multiple: `90s`. [`parse_duration_ms`] reads it back.
pub fn print_exact_duration_ms(ms: u64) -> String {
    UNITS
        .into_iter()
        .find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms))
        .map_or_else(
            || format!("{ms}ms"),
            |(unit, unit_ms)| format!("{}{unit}", ms / unit_ms),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_in_elasticsearch() {
        for (ms, decimals, text) in [
            (0, 1, "0ms"),
            (839, 2, "839ms"),
            (12_160, 2, "12.16s"),
            (12_160, 1, "12.1s"),
            (60_000, 2, "1m"),
            (90_000, 1, "1.5m"),
            (4_500_000, 2, "1.25h"),
            (4_500_000, 1, "1.2h"),
            (86_400_000, 1, "1d"),
            (60 * 86_400_000 + 864_000, 2, "60.01d"),
            (u64::MAX, 1, "213503982334.6d"),
        ] {
            assert_eq!(print_duration_ms(ms, decimals), text);
        }
    }

    #[test]
    fn exact_durations_come_back() {
        for (ms, text) in [
            (0, "0d"),
            (90_000, "90s"),
            (1500, "1500ms"),
            (7_200_000, "2h"),
            (30 * 86_400_000, "30d"),
        ] {
            assert_eq!(print_exact_duration_ms(ms), text);
            assert_eq!(parse_duration_ms(text).unwrap(), ms);
        }
    }
}
