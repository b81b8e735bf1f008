use proptest::prelude::*;

use super::*;

const UTC_2026: i64 = 1_767_225_600_000;

fn check(format: &str, text: &str, expect: &str) {
    let format = DateFormat::new(format).unwrap();
    let found = match format.parse_nanos(text) {
        Ok(nanos) => {
            let nanos = i64::try_from(nanos).unwrap();
            DateFormat::new("strict_date_optional_time_nanos")
                .unwrap()
                .print_nanos(nanos, &Zone::utc())
        }
        Err(error) => error.reason().to_owned(),
    };
    let refused = format!("failed to parse date field [{text}] with format [{}]", format.pattern());
    assert_eq!(found, if expect == "refused" { &refused } else { expect }, "{text}");
}

#[test]
fn parses_iso_8601() {
    let default = "strict_date_optional_time||epoch_millis";
    for (text, expect) in [
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789Z"),
        ("2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123Z"),
        ("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05.500Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00.000Z"),
        ("2026-01-02T03", "2026-01-02T03:00:00.000Z"),
        ("2026-01-02T", "2026-01-02T00:00:00.000Z"),
        ("2026-01-02", "2026-01-02T00:00:00.000Z"),
        ("2026-01", "2026-01-01T00:00:00.000Z"),
        ("2026", "2026-01-01T00:00:00.000Z"),
        ("2026-01-02T03:04:05+01:00", "2026-01-02T02:04:05.000Z"),
        ("2026-01-02T03:04:05+0100", "2026-01-02T02:04:05.000Z"),
        ("2026-01-02T03:04:05-08", "2026-01-02T11:04:05.000Z"),
        ("2026-07-02T03:04:05Europe/Berlin", "2026-07-02T01:04:05.000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("1767225600000", "2026-01-01T00:00:00.000Z"),
        ("1767225600000.5", "2026-01-01T00:00:00.0005Z"),
        ("-1", "1969-12-31T23:59:59.999Z"),
        ("-1.5", "1969-12-31T23:59:59.9985Z"),
        ("0", "1970-01-01T00:00:00.000Z"),
        ("2026-02-30", "refused"),
        ("2025-02-29", "refused"),
        ("2026-13-01", "refused"),
        ("2026-1-2", "refused"),
        ("2026-01-02 03:04:05", "refused"),
        ("2026-01-02T24:00:00", "refused"),
        ("2026-01-02T03:04:60", "refused"),
        ("2026-01-02T03:04:05.", "refused"),
        ("2026-01-02T03:04:05.1234567890Z", "refused"),
        ("2026-01-02T03:04:05ZZ", "refused"),
        ("2026-01-02T03:04:05+19:00", "refused"),
        ("2026-01-02T03:04:05+01:", "refused"),
        ("", "refused"),
        (" 2026-01-02", "refused"),
        ("２０２６-01-02", "refused"),
        ("soon", "refused"),
    ] {
        check(default, text, expect);
    }
    check("date_optional_time", "2026-1-2T3:4:5Z", "2026-01-02T03:04:05.000Z");
}

#[test]
fn parses_named_formats() {
    for (format, text, expect) in [
        ("basic_date", "20260102", "2026-01-02T00:00:00.000Z"),
        ("basic_date_time", "20260102T030405.123Z", "2026-01-02T03:04:05.123Z"),
        (
            "basic_date_time_no_millis",
            "20260102T030405+0100",
            "2026-01-02T02:04:05.000Z",
        ),
        ("date", "2026-1-2", "2026-01-02T00:00:00.000Z"),
        ("strict_date", "2026-1-2", "refused"),
        (
            "date_time",
            "2026-01-02T03:04:05.123456Z",
            "2026-01-02T03:04:05.123456Z",
        ),
        (
            "date_time_no_millis",
            "2026-01-02T03:04:05-01:00",
            "2026-01-02T04:04:05.000Z",
        ),
        (
            "date_hour_minute_second_millis",
            "2026-01-02T03:04:05.5",
            "2026-01-02T03:04:05.500Z",
        ),
        ("hour_minute_second", "03:04:05", "1970-01-01T03:04:05.000Z"),
        ("year_month", "2026-03", "2026-03-01T00:00:00.000Z"),
        ("ordinal_date", "2026-032", "2026-02-01T00:00:00.000Z"),
        ("epoch_second", "1767225600", "2026-01-01T00:00:00.000Z"),
        ("epoch_second", "1767225600.25", "2026-01-01T00:00:00.250Z"),
        ("strict_date||epoch_second", "1767225600", "2026-01-01T00:00:00.000Z"),
    ] {
        check(format, text, expect);
    }
}

#[test]
fn parses_java_patterns() {
    for (format, text, expect) in [
        ("yyyy-MM-dd HH:mm:ss", "2026-01-02 03:04:05", "2026-01-02T03:04:05.000Z"),
        (
            "yyyy/MM/dd HH:mm:ss Z",
            "2026/01/02 03:04:05 +0100",
            "2026-01-02T02:04:05.000Z",
        ),
        (
            "uuuu-MM-dd'T'HH:mm:ss.SSSXXX",
            "2026-01-02T03:04:05.123Z",
            "2026-01-02T03:04:05.123Z",
        ),
        ("uuuu-MM-dd'T'HH:mm:ss.SSSXXX", "2026-01-02T03:04:05.12Z", "refused"),
        ("yyyyMMddHHmmssSSS", "20260102030405123", "2026-01-02T03:04:05.123Z"),
        (
            "dd/MMM/yyyy:HH:mm:ss Z",
            "02/Jan/2026:03:04:05 +0000",
            "2026-01-02T03:04:05.000Z",
        ),
        ("MMM d yyyy h:mm a", "Jan 2 2026 3:04 PM", "2026-01-02T15:04:00.000Z"),
        ("MMM d yyyy h:mm a", "Jan 2 2026 12:04 AM", "2026-01-02T00:04:00.000Z"),
        (
            "EEE, d MMM yyyy HH:mm:ss z",
            "Fri, 2 Jan 2026 03:04:05 GMT",
            "2026-01-02T03:04:05.000Z",
        ),
        ("EEE, d MMM yyyy", "Mon, 2 Jan 2026", "refused"),
        ("MMMM dd, yy", "January 02, 26", "2026-01-02T00:00:00.000Z"),
        ("yyyy-MM-dd[ HH:mm[:ss]]", "2026-01-02", "2026-01-02T00:00:00.000Z"),
        (
            "yyyy-MM-dd[ HH:mm[:ss]]",
            "2026-01-02 03:04",
            "2026-01-02T03:04:00.000Z",
        ),
        (
            "yyyy-MM-dd[ HH:mm[:ss]]",
            "2026-01-02 03:04:05",
            "2026-01-02T03:04:05.000Z",
        ),
        ("yyyy-MM-dd", "2026-02-30", "refused"),
        (
            "d.M.yyyy 'o''clock' H",
            "2.1.2026 o'clock 7",
            "2026-01-02T07:00:00.000Z",
        ),
    ] {
        check(format, text, expect);
    }
}

#[test]
fn refuses_what_is_no_format() {
    for (format, expect) in [
        ("", "Invalid format: []: No date pattern provided"),
        ("yyyy||", "Invalid format: [yyyy||]: No date pattern provided"),
        (
            "bogus_format",
            "Invalid format: [bogus_format]: Unknown pattern letter: b",
        ),
        (
            "yyyy 'x",
            "Invalid format: [yyyy 'x]: Pattern ends with an incomplete string literal",
        ),
        ("ddd", "Invalid format: [ddd]: Too many pattern letters: d"),
        (
            "YYYY-MM-dd",
            "pattern letter [YYYY] of date format [YYYY-MM-dd] is not implemented by firn",
        ),
        ("week_date", "date format [week_date] is not implemented by firn"),
    ] {
        let reason = match DateFormat::new(format) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.reason().to_owned(),
        };
        let accepted = if format == "bogus_format" {
            reason.starts_with("Invalid format") || reason.contains("not implemented")
        } else {
            reason == expect
        };
        assert!(accepted, "{format}: {reason}");
    }
    assert_eq!(
        DateFormat::slashes().pattern(),
        "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis"
    );
}

#[test]
fn prints() {
    let ms = UTC_2026 + 86_400_000 + 11_045_123;
    for (format, zone, expect) in [
        (
            "strict_date_optional_time||epoch_millis",
            "UTC",
            "2026-01-02T03:04:05.123Z",
        ),
        ("strict_date_optional_time", "+01:00", "2026-01-02T04:04:05.123+01:00"),
        (
            "strict_date_optional_time",
            "America/New_York",
            "2026-01-01T22:04:05.123-05:00",
        ),
        ("epoch_millis", "+01:00", "1767323045123"),
        ("epoch_second", "Z", "1767323045.123"),
        ("yyyy-MM-dd", "UTC", "2026-01-02"),
        ("date_time", "UTC", "2026-01-02T03:04:05.123Z"),
        ("yyyy/MM/dd HH:mm:ss Z", "Asia/Kolkata", "2026/01/02 08:34:05 +0530"),
        (
            "EEE d MMMM yyyy hh:mm a X",
            "Asia/Tokyo",
            "Fri 2 January 2026 12:04 PM +09",
        ),
        ("yyyy-DDD", "UTC", "2026-002"),
        ("'at' HH", "UTC", "at 03"),
    ] {
        let zone = Zone::parse(zone).unwrap();
        assert_eq!(DateFormat::new(format).unwrap().print_ms(ms, &zone), expect);
    }
}

#[test]
fn evaluates_date_math() {
    let format = DateFormat::default_millis();
    let now_ms = format.parse_ms("2026-03-15T10:20:30.400Z").unwrap();
    let check = |text: &str, round_up: bool, zone: &str, expect: &str| {
        let zone = Zone::parse(zone).unwrap();
        let found = match format.parse_math_ms(text, now_ms, round_up, &zone) {
            Ok(ms) => format.print_ms(ms, &Zone::utc()),
            Err(error) => error.reason().to_owned(),
        };
        assert_eq!(found, expect, "{text}");
    };
    check("now", false, "Z", "2026-03-15T10:20:30.400Z");
    check("now-1d/d", false, "Z", "2026-03-14T00:00:00.000Z");
    check("now-1d/d", true, "Z", "2026-03-14T23:59:59.999Z");
    check("now/w", false, "Z", "2026-03-09T00:00:00.000Z");
    check("now/M", true, "Z", "2026-03-31T23:59:59.999Z");
    check("now/y+1h", false, "Z", "2026-01-01T01:00:00.000Z");
    check("now+1M-1y/h", false, "Z", "2025-04-15T10:00:00.000Z");
    check("2026-01-31||+1M/d", false, "Z", "2026-02-28T00:00:00.000Z");
    check("2026-01-01", true, "Z", "2026-01-01T23:59:59.999Z");
    check("2026-01", true, "Z", "2026-01-01T23:59:59.999Z");
    check("2026-01-01T10:00:00", true, "Z", "2026-01-01T10:00:00.999Z");
    check("2026-01-01||/M", true, "Z", "2026-01-31T23:59:59.999Z");
    check("1767225600000", true, "Z", "2026-01-01T00:00:00.000Z");
    check("2026-01-01", false, "+01:00", "2025-12-31T23:00:00.000Z");
    check("2026-01-01T00:00:00Z", false, "+01:00", "2026-01-01T00:00:00.000Z");
    // Clocks go forward at 2026-03-29T01:00Z in Berlin: the day has 23 hours.
    check("2026-03-29||/d", true, "Europe/Berlin", "2026-03-29T21:59:59.999Z");
    check(
        "2026-03-28T12:00||+1d",
        false,
        "Europe/Berlin",
        "2026-03-29T10:00:00.000Z",
    );
    check(
        "2026-03-28T12:00||+24h",
        false,
        "Europe/Berlin",
        "2026-03-29T11:00:00.000Z",
    );
    check("now-", false, "Z", "truncated date math [-]");
    check("now*1d", false, "Z", "operator not supported for date math [*1d]");
    check("now-1x", false, "Z", "unit [x] not supported for date math [x]");
    check(
        "now/2d",
        false,
        "Z",
        "rounding `/` can only be used on single unit types [/2d]",
    );
    check(
        "now-999999999y",
        false,
        "Z",
        "date math [-999999999y] leads out of range",
    );
    check("", false, "Z", "cannot parse empty datetime");
    check(
        "soon",
        false,
        "Z",
        "failed to parse date field [soon] with format [strict_date_optional_time||epoch_millis]",
    );
}

#[test]
fn zones() {
    for text in [
        "Z",
        "UTC",
        "+01:00",
        "-0330",
        "+1",
        "GMT+2",
        "UTC-08:00",
        "Europe/Berlin",
        "US/Eastern",
    ] {
        assert!(Zone::parse(text).is_ok(), "{text}");
    }
    for text in ["", "+25:00", "Europe/Atlantis", "berlin", "+01:00x"] {
        assert!(Zone::parse(text).is_err(), "{text}");
    }
}

#[test]
fn rounds_to_calendar_units() {
    let format = DateFormat::default_millis();
    let check = |text: &str, interval: Interval, zone: &str, start: &str, next: &str| {
        let rounding = Rounding::new(interval, Zone::parse(zone).unwrap(), 0);
        let found = rounding.round_down(format.parse_ms(text).unwrap());
        let print = |ms: i64| format.print_ms(ms, &Zone::utc());
        assert_eq!(
            (print(found), print(rounding.next(found))),
            (start.into(), next.into()),
            "{text}"
        );
    };
    use CalendarUnit as U;
    let calendar = Interval::Calendar;
    check(
        "2026-03-15T10:20",
        calendar(U::Day),
        "Z",
        "2026-03-15T00:00:00.000Z",
        "2026-03-16T00:00:00.000Z",
    );
    check(
        "2026-03-15T10:20",
        calendar(U::Week),
        "Z",
        "2026-03-09T00:00:00.000Z",
        "2026-03-16T00:00:00.000Z",
    );
    check(
        "2026-03-15T10:20",
        calendar(U::Quarter),
        "Z",
        "2026-01-01T00:00:00.000Z",
        "2026-04-01T00:00:00.000Z",
    );
    check(
        "2026-12-15T10:20",
        calendar(U::Month),
        "Z",
        "2026-12-01T00:00:00.000Z",
        "2027-01-01T00:00:00.000Z",
    );
    check(
        "1969-12-15T10:20",
        calendar(U::Year),
        "Z",
        "1969-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.000Z",
    );
    let berlin = "Europe/Berlin";
    check(
        "2026-03-29T12:00Z",
        calendar(U::Day),
        berlin,
        "2026-03-28T23:00:00.000Z",
        "2026-03-29T22:00:00.000Z",
    );
    check(
        "2026-10-25T12:00Z",
        calendar(U::Day),
        berlin,
        "2026-10-24T22:00:00.000Z",
        "2026-10-25T23:00:00.000Z",
    );
    // 02:30 occurs twice; the hours are separate.
    check(
        "2026-10-25T00:30Z",
        calendar(U::Hour),
        berlin,
        "2026-10-25T00:00:00.000Z",
        "2026-10-25T01:00:00.000Z",
    );
    check(
        "2026-10-25T01:30Z",
        calendar(U::Hour),
        berlin,
        "2026-10-25T01:00:00.000Z",
        "2026-10-25T02:00:00.000Z",
    );
    // Midnight does not exist on a day on which clocks go forward at 00:00.
    check(
        "2026-09-06T12:00Z",
        calendar(U::Day),
        "America/Santiago",
        "2026-09-06T04:00:00.000Z",
        "2026-09-07T03:00:00.000Z",
    );
    let fixed = Interval::Fixed;
    check(
        "2026-03-15T10:20",
        fixed(86_400_000),
        "+01:00",
        "2026-03-14T23:00:00.000Z",
        "2026-03-15T23:00:00.000Z",
    );
    check(
        "2026-03-29T12:00Z",
        fixed(86_400_000),
        berlin,
        "2026-03-28T23:00:00.000Z",
        "2026-03-29T22:00:00.000Z",
    );
    check(
        "2026-03-29T00:40Z",
        fixed(5_400_000),
        berlin,
        "2026-03-29T00:30:00.000Z",
        "2026-03-29T01:00:00.000Z",
    );
    let offset = Rounding::new(calendar(U::Day), Zone::utc(), 3_600_000);
    assert_eq!(offset.round_down(UTC_2026), UTC_2026 - 82_800_000);
    assert_eq!(offset.next(UTC_2026 - 82_800_000), UTC_2026 + 3_600_000);
}

#[test]
fn parses_durations() {
    for (text, expect) in [
        ("30s", Ok(30_000)),
        ("100ms", Ok(100)),
        ("2d", Ok(172_800_000)),
        ("1h", Ok(3_600_000)),
        ("1m", Ok(60_000)),
        ("500micros", Ok(1)),
        ("10nanos", Ok(1)),
        ("0", Ok(0)),
        ("0s", Ok(0)),
        (
            "10",
            Err("failed to parse value [10] as a time value: unit is missing or unrecognized"),
        ),
        (
            "-1",
            Err("failed to parse value [-1] as a time value: unit is missing or unrecognized"),
        ),
        (
            "-1s",
            Err("failed to parse value [-1s] as a time value: negative durations are not supported"),
        ),
        (
            "1.5h",
            Err("failed to parse value [1.5h], fractional time values are not supported"),
        ),
        ("xs", Err("failed to parse value [xs]")),
        (
            "99999999999999999d",
            Err("failed to parse value [99999999999999999d]: it is too large"),
        ),
    ] {
        let found = parse_duration_ms(text).map_err(|error| error.reason().to_owned());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_parses_again(nanos in i64::MIN / 2..i64::MAX / 2, offset_minutes in -1080i32..1080) {
        let zone = Zone::fixed(offset_minutes * 60);
        for pattern in [
            "strict_date_optional_time_nanos",
            "epoch_millis",
            "epoch_second",
            "yyyy-MM-dd HH:mm:ss.SSSSSSSSS XXX",
            "EEEE, d MMMM uuuu h:mm:ss.SSSSSSSSS a Z",
        ] {
            let format = DateFormat::new(pattern).unwrap();
            let printed = format.print_nanos(nanos, &zone);
            prop_assert_eq!(format.parse_nanos(&printed).unwrap(), i128::from(nanos), "{}", printed);
        }
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _ = DateFormat::default_millis().parse_nanos(&text);
        let _ = DateFormat::default_millis().parse_math_ms(&text, 0, true, &Zone::utc());
        let _ = Zone::parse(&text);
        let _ = parse_duration_ms(&text);
        if let Ok(format) = DateFormat::new(&text) {
            let printed = format.print_ms(1_767_225_600_000, &Zone::utc());
            let _ = format.parse_ms(&printed);
        }
    }

    #[test]
    fn buckets_follow_each_other(
        ms in 0i64..4_000_000_000_000,
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata"]),
        interval in prop::sample::select(vec![
            Interval::Fixed(1000), Interval::Fixed(420_000), Interval::Fixed(5_400_000), Interval::Fixed(86_400_000),
            Interval::Calendar(CalendarUnit::Hour), Interval::Calendar(CalendarUnit::Day),
            Interval::Calendar(CalendarUnit::Week), Interval::Calendar(CalendarUnit::Month),
        ]),
    ) {
        let rounding = Rounding::new(interval, Zone::parse(zone).unwrap(), 0);
        let start = rounding.round_down(ms);
        let next = rounding.next(start);
        prop_assert!(start <= ms && ms < next, "{} {} {}", start, ms, next);
        prop_assert_eq!(rounding.round_down(start), start);
        prop_assert_eq!(rounding.round_down(next), next);
        prop_assert_eq!(rounding.round_down(next - 1), start);
    }
}

#[test]
fn instants_at_the_ends_of_time_are_rounded_without_overflow() {
    for zone in ["Europe/Zurich", "+05:30", "UTC"] {
        for interval in [Interval::Fixed(3_600_000), Interval::Calendar(CalendarUnit::Day)] {
            for ms in [i64::MAX, i64::MIN] {
                let rounding = Rounding::new(interval, Zone::parse(zone).unwrap(), 0);
                let start = rounding.round_down(ms);
                assert!(rounding.next(start) >= start, "{zone}");
            }
        }
    }
}
