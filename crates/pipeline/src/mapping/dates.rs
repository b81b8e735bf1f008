//! Dates of events as ISO 8601 in UTC.

use std::fmt::Write;

use super::pack::Dates;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Digits of a fraction that are read; finer parts are cut off.
const FRACTION_DIGITS: usize = 9;

/// What a text is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Date {
    /// ISO 8601 in UTC already.
    AsItIs,
    /// Nanoseconds since the epoch.
    Nanos(i64),
}

/// Reads a date. Without a zone it is in UTC; without a year it is of the year of `received`, or of the year before if it
/// were more than a day in its future.
pub(crate) fn parse(dates: Option<&Dates>, text: &str, received: Option<i64>) -> Option<Date> {
    if let Some(date) = iso(text) {
        return Some(date);
    }
    let dates = dates?;
    if let Some(nanos) = dates.epoch_unit.and_then(|unit| epoch(text, unit)) {
        return Some(Date::Nanos(nanos));
    }
    let mut nanos = dates
        .formats
        .as_ref()
        .and_then(|formats| formats.parse_nanos(text).ok())
        .and_then(|nanos| i64::try_from(nanos).ok());
    if nanos.is_none()
        && let Some(format) = &dates.without_year
    {
        nanos = without_year(format, text, received?);
    }
    nanos.map(Date::Nanos)
}

fn without_year(format: &firn_model::dates::DateFormat, text: &str, received: i64) -> Option<i64> {
    let year = civil(received.div_euclid(NANOS_PER_SECOND).div_euclid(86_400)).0;
    // A day below 10 is padded with a space.
    let text = text.replace("  ", " ");
    let of_year = |year: i64| {
        let nanos = format.parse_nanos(&format!("{year} {text}")).ok()?;
        i64::try_from(nanos).ok()
    };
    match of_year(year) {
        Some(nanos) if nanos <= received.saturating_add(86_400 * NANOS_PER_SECOND) => Some(nanos),
        // February 29 is a date of the year before, perhaps.
        _ => of_year(year - 1),
    }
}

/// Reads `yyyy-MM-ddTHH:mm:ss`, with a space for the T, a fraction and a Z if wanted. Anything else, and days of a month
/// that not all months have, is for the formats.
fn iso(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let head = bytes.first_chunk::<19>()?;
    for at in [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18] {
        if !head[at].is_ascii_digit() {
            return None;
        }
    }
    if head[4] != b'-' || head[7] != b'-' || head[13] != b':' || head[16] != b':' || !matches!(head[10], b'T' | b' ') {
        return None;
    }
    let two = |at: usize| i64::from(head[at] - b'0') * 10 + i64::from(head[at + 1] - b'0');
    let (year, month, day) = (two(0) * 100 + two(2), two(5), two(8));
    let (hour, minute, second) = (two(11), two(14), two(17));
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &bytes[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        nanos = fraction_nanos(&fraction[..digits]);
        rest = &fraction[digits..];
    }
    match rest {
        b"Z" if head[10] == b'T' && bytes.len() <= 30 => Some(Date::AsItIs),
        b"Z" | b"" => {
            let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
            Some(Date::Nanos(seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(nanos)?))
        }
        _ => None,
    }
}

fn fraction_nanos(digits: &[u8]) -> i64 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    padded
        .take(FRACTION_DIGITS)
        .fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'))
}

/// Reads a decimal number of units since the epoch, exactly.
fn epoch(text: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let part =
        (i128::from(fraction_nanos(fraction.as_bytes())) * i128::from(unit) / i128::from(NANOS_PER_SECOND)) as i64;
    let nanos = whole.checked_mul(unit)?;
    match text.starts_with('-') {
        true => nanos.checked_sub(part),
        false => nanos.checked_add(part),
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from the epoch to a date (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns year, month and day of a number of days since the epoch.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Appends `2026-11-24T08:00:00.000Z`, with nine digits if ms are not enough.
pub(crate) fn push_iso(nanos: i64, out: &mut String) {
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let fraction = nanos.rem_euclid(NANOS_PER_SECOND);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let mut text = *b"0000-00-00T00:00:00.000000000";
    let mut put = |at: usize, width: usize, mut value: i64| {
        for digit in text[at..at + width].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    // Nanoseconds in 64 bits reach from 1677 to 2262: four digits.
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, second / 3600);
    put(14, 2, second / 60 % 60);
    put(17, 2, second % 60);
    put(20, 9, fraction);
    let length = if fraction % 1_000_000 == 0 { 23 } else { 29 };
    let _ = out.write_str(str::from_utf8(&text[..length]).unwrap_or_default());
    out.push('Z');
}

#[cfg(test)]
mod tests {
    use firn_model::dates::DateFormat;

    use super::*;

    fn check(dates: &Dates, text: &str, expect: &str) {
        let received = Some(1_800_000_000 * NANOS_PER_SECOND);
        let printed = match parse(Some(dates), text, received) {
            None => String::from("no date"),
            Some(Date::AsItIs) => text.to_owned(),
            Some(Date::Nanos(nanos)) => {
                let mut out = String::new();
                push_iso(nanos, &mut out);
                out
            }
        };
        assert_eq!(printed, expect, "{text}");
    }

    #[test]
    fn iso_dates() {
        let dates = Dates::default();
        check(&dates, "2026-11-24T08:00:00Z", "2026-11-24T08:00:00Z");
        check(&dates, "2026-11-24T08:00:00.123456Z", "2026-11-24T08:00:00.123456Z");
        check(&dates, "2026-11-24 08:00:00", "2026-11-24T08:00:00.000Z");
        check(&dates, "2024-02-29 23:59:59.5", "2024-02-29T23:59:59.500Z");
        check(&dates, "2024-02-29 23:59:59.000001", "2024-02-29T23:59:59.000001000Z");
        check(&dates, "1969-12-31 23:59:59.25", "1969-12-31T23:59:59.250Z");
        for text in [
            "",
            "2025-02-29 00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T08:00:00.Z",
            "x",
        ] {
            check(&dates, text, "no date");
        }
    }

    #[test]
    fn epochs_are_exact() {
        let seconds = Dates {
            epoch_unit: Some(NANOS_PER_SECOND),
            ..Dates::default()
        };
        check(&seconds, "1591367999.305988", "2020-06-05T14:39:59.305988000Z");
        check(&seconds, "0", "1970-01-01T00:00:00.000Z");
        check(&seconds, "-0.5", "1969-12-31T23:59:59.500Z");
        check(&seconds, "1e9", "no date");
        check(&seconds, "99999999999999", "no date");
        let ms = Dates {
            epoch_unit: Some(1_000_000),
            ..Dates::default()
        };
        check(&ms, "1591367999305", "2020-06-05T14:39:59.305Z");
    }

    #[test]
    fn formats() {
        let dates = Dates {
            formats: Some(DateFormat::new("dd/MMM/yyyy:HH:mm:ss Z||strict_date_optional_time").unwrap()),
            ..Dates::default()
        };
        check(&dates, "17/May/2015:10:05:03 +0200", "2015-05-17T08:05:03.000Z");
        check(&dates, "2026-11-24T08:00:00+01:00", "2026-11-24T07:00:00.000Z");
        check(&dates, "17/May", "no date");
    }

    /// The clock of the test stands at 2027-01-15.
    #[test]
    fn a_date_without_a_year_is_not_in_the_future() {
        let dates = Dates {
            without_year: Some(DateFormat::new("yyyy MMM d HH:mm:ss").unwrap()),
            ..Dates::default()
        };
        check(&dates, "Jan  9 13:06:56", "2027-01-09T13:06:56.000Z");
        check(&dates, "Jan 16 07:00:00", "2027-01-16T07:00:00.000Z");
        check(&dates, "Jan 17 13:06:56", "2026-01-17T13:06:56.000Z");
        check(&dates, "Dec 31 13:06:56", "2026-12-31T13:06:56.000Z");
    }

    proptest::proptest! {
        #[test]
        fn printing_and_reading_agree(nanos in proptest::prelude::any::<i64>()) {
            let mut text = String::new();
            push_iso(nanos, &mut text);
            let model = DateFormat::default_millis().parse_nanos(&text).unwrap();
            proptest::prop_assert_eq!(model, i128::from(nanos));
            let spaced = text.replace('T', " ");
            proptest::prop_assert_eq!(iso(&spaced), Some(Date::Nanos(nanos)));
        }
    }
}
