//! Elasticsearch's named date formats.

/// Definition of a named format.
pub(super) enum Named {
    /// ISO 8601 with optional parts.
    Iso {
        strict: bool,
    },
    EpochMillis,
    EpochSecond,
    /// Java pattern in which `ZZZZZ` means any zone and a fraction has 1 to 9 digits. Lenient patterns accept single
    /// digits where two are usual.
    Pattern {
        pattern: &'static str,
        lenient: bool,
    },
    /// Known to Elasticsearch, but not implemented.
    Missing,
}

/// Returns the format with a name; `None`: not a name, so a Java pattern.
pub(super) fn lookup(name: &str) -> Option<Named> {
    let (plain, strict) = match name.strip_prefix("strict_") {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    Some(match plain {
        "date_optional_time" | "date_optional_time_nanos" | "iso8601" => Named::Iso {
            strict: strict || plain == "iso8601",
        },
        "epoch_millis" if !strict => Named::EpochMillis,
        "epoch_second" if !strict => Named::EpochSecond,
        _ if plain.contains("week") => {
            // Week dates need the week of a week year, which no other code here computes.
            if is_week_format(plain) {
                Named::Missing
            } else {
                return None;
            }
        }
        _ => Named::Pattern {
            pattern: pattern_of(plain)?,
            lenient: !strict && !plain.starts_with("basic_"),
        },
    })
}

fn is_week_format(name: &str) -> bool {
    matches!(
        name,
        "basic_week_date"
            | "basic_week_date_time"
            | "basic_week_date_time_no_millis"
            | "week_date"
            | "week_date_time"
            | "week_date_time_no_millis"
            | "weekyear"
            | "week_year"
            | "weekyear_week"
            | "weekyear_week_day"
    )
}

fn pattern_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "basic_date" => "yyyyMMdd",
        "basic_date_time" => "yyyyMMdd'T'HHmmss.SSSZZZZZ",
        "basic_date_time_no_millis" => "yyyyMMdd'T'HHmmssZZZZZ",
        "basic_ordinal_date" => "yyyyDDD",
        "basic_ordinal_date_time" => "yyyyDDD'T'HHmmss.SSSZZZZZ",
        "basic_ordinal_date_time_no_millis" => "yyyyDDD'T'HHmmssZZZZZ",
        "basic_time" => "HHmmss.SSSZZZZZ",
        "basic_time_no_millis" => "HHmmssZZZZZ",
        "basic_t_time" => "'T'HHmmss.SSSZZZZZ",
        "basic_t_time_no_millis" => "'T'HHmmssZZZZZ",
        "date" | "year_month_day" => "yyyy-MM-dd",
        "date_hour" => "yyyy-MM-dd'T'HH",
        "date_hour_minute" => "yyyy-MM-dd'T'HH:mm",
        "date_hour_minute_second" => "yyyy-MM-dd'T'HH:mm:ss",
        "date_hour_minute_second_fraction" | "date_hour_minute_second_millis" => "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "date_time" => "yyyy-MM-dd'T'HH:mm:ss.SSSZZZZZ",
        "date_time_no_millis" => "yyyy-MM-dd'T'HH:mm:ssZZZZZ",
        "hour" => "HH",
        "hour_minute" => "HH:mm",
        "hour_minute_second" => "HH:mm:ss",
        "hour_minute_second_fraction" | "hour_minute_second_millis" => "HH:mm:ss.SSS",
        "ordinal_date" => "yyyy-DDD",
        "ordinal_date_time" => "yyyy-DDD'T'HH:mm:ss.SSSZZZZZ",
        "ordinal_date_time_no_millis" => "yyyy-DDD'T'HH:mm:ssZZZZZ",
        "time" => "HH:mm:ss.SSSZZZZZ",
        "time_no_millis" => "HH:mm:ssZZZZZ",
        "t_time" => "'T'HH:mm:ss.SSSZZZZZ",
        "t_time_no_millis" => "'T'HH:mm:ssZZZZZ",
        "year" => "yyyy",
        "year_month" => "yyyy-MM",
        _ => return None,
    })
}
