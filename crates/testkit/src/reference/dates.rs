//! Parsing, rounding and printing of dates with jiff.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Zoned};

/// Parses a time zone in Elasticsearch's notation.
pub(crate) fn zone(name: &str) -> TimeZone {
    match name {
        "Z" | "UTC" => TimeZone::UTC,
        _ => match offset(name) {
            Some(seconds) => TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).expect("an offset")),
            None => TimeZone::get(name).unwrap_or_else(|error| panic!("[{name}]: {error}")),
        },
    }
}

fn offset(text: &str) -> Option<i32> {
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    Some(sign * (hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60))
}

/// Parses an instant in ns: ISO dates truncated anywhere after the year (`round_up` fills the time with the largest
/// values), ms since 1970, and date math.
pub(crate) fn parse(text: &str, round_up: bool, zone: &TimeZone) -> Option<i128> {
    if let Some(rest) = text.strip_prefix("now") {
        return math(Timestamp::now().to_zoned(zone.clone()), rest, round_up);
    }
    if let Some((anchor, rest)) = text.split_once("||") {
        let anchor = Timestamp::from_nanosecond(parse(anchor, false, zone)?).ok()?;
        return math(anchor.to_zoned(zone.clone()), rest, round_up);
    }
    let is_number = text
        .strip_prefix('-')
        .unwrap_or(text)
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    if is_number && text.len() != 4 {
        let finer = if round_up { 999_999 } else { 0 };
        return Some(i128::from(text.parse::<i64>().ok()?) * 1_000_000 + finer);
    }
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let sign = time.find(['Z', '+', '-']);
    let (time, own_zone) = time.split_at(sign.unwrap_or(time.len()));
    let mut parts = date.split('-');
    // A missing month or day is the first one, in both rounding directions.
    let mut whole = |width: usize| match parts.next() {
        Some(part) if part.len() == width => part.parse::<i64>().ok(),
        Some(_) => None,
        None => Some(1),
    };
    let (year, month, day) = (whole(4)?, whole(2)?, whole(2)?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').filter(|part| !part.is_empty());
    let mut whole = |most: i64| match parts.next() {
        Some(part) => part.parse::<i64>().ok(),
        None => Some(if round_up { most } else { 0 }),
    };
    let (hour, minute, second) = (whole(23)?, whole(59)?, whole(59)?);
    let nanos = match fraction {
        "" if round_up => 999_999_999,
        digits => format!("{digits:0<9}").parse::<i32>().ok()?,
    };
    let local = DateTime::new(
        year as i16,
        month as i8,
        day as i8,
        hour as i8,
        minute as i8,
        second as i8,
        nanos,
    )
    .ok()?;
    let zone = match own_zone {
        "" => zone.clone(),
        own => self::zone(own),
    };
    Some(zone.to_zoned(local).ok()?.timestamp().as_nanosecond())
}

fn math(start: Zoned, operations: &str, round_up: bool) -> Option<i128> {
    let mut at = start;
    let mut rest = operations;
    while !rest.is_empty() {
        let operation = rest.chars().next()?;
        let digits: String = rest[1..].chars().take_while(char::is_ascii_digit).collect();
        let unit = rest[1 + digits.len()..].chars().next()?;
        rest = &rest[2 + digits.len()..];
        let count: i64 = if digits.is_empty() { 1 } else { digits.parse().ok()? };
        at = match operation {
            '+' => at.checked_add(span(unit, count)).ok()?,
            '-' => at.checked_sub(span(unit, count)).ok()?,
            '/' => {
                let start = Unit::of_letter(unit).start(&at);
                if round_up {
                    let next = start.checked_add(span(unit, 1)).ok()?;
                    next.checked_sub(1.millisecond()).ok()?
                } else {
                    start
                }
            }
            _ => return None,
        };
    }
    Some(at.timestamp().as_nanosecond())
}

fn span(unit: char, count: i64) -> Span {
    match unit {
        'y' => count.years(),
        'M' => count.months(),
        'w' => count.weeks(),
        'd' => count.days(),
        'h' | 'H' => count.hours(),
        'm' => count.minutes(),
        's' => count.seconds(),
        _ => panic!("no unit [{unit}]"),
    }
}

/// Units of calendar intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    fn of_letter(letter: char) -> Self {
        match letter {
            'y' => Self::Year,
            'M' => Self::Month,
            'w' => Self::Week,
            'd' => Self::Day,
            'h' | 'H' => Self::Hour,
            'm' => Self::Minute,
            's' => Self::Second,
            _ => panic!("no unit [{letter}]"),
        }
    }

    /// Parses `month` or `1M`.
    pub(crate) fn of_name(name: &str) -> Self {
        match name {
            "second" | "1s" => Self::Second,
            "minute" | "1m" => Self::Minute,
            "hour" | "1h" => Self::Hour,
            "day" | "1d" => Self::Day,
            "week" | "1w" => Self::Week,
            "month" | "1M" => Self::Month,
            "quarter" | "1q" => Self::Quarter,
            "year" | "1y" => Self::Year,
            _ => panic!("no unit [{name}]"),
        }
    }

    fn local_start(self, local: DateTime) -> DateTime {
        let date = local.date();
        let date = match self {
            Self::Second | Self::Minute | Self::Hour | Self::Day => date,
            Self::Week => date
                .checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
                .expect("a date"),
            Self::Month => date.first_of_month(),
            Self::Quarter => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).expect("a date"),
            Self::Year => date.first_of_year(),
        };
        let (hour, minute, second) = match self {
            Self::Second => (local.hour(), local.minute(), local.second()),
            Self::Minute => (local.hour(), local.minute(), 0),
            Self::Hour => (local.hour(), 0, 0),
            _ => (0, 0, 0),
        };
        date.at(hour, minute, second, 0)
    }

    fn start(self, at: &Zoned) -> Zoned {
        let local = self.local_start(at.datetime());
        instant_not_after(local, at.timestamp(), at.time_zone()).to_zoned(at.time_zone().clone())
    }

    fn span(self) -> Span {
        match self {
            Self::Second => 1.second(),
            Self::Minute => 1.minute(),
            Self::Hour => 1.hour(),
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
            Self::Quarter => 3.months(),
            Self::Year => 1.year(),
        }
    }
}

/// Returns the instant at which a clock in `zone` shows `local`. Of two such instants, returns the later one that is
/// not after `at`. If a clock change skips `local`, returns the moment of the change.
fn instant_not_after(local: DateTime, at: Timestamp, zone: &TimeZone) -> Timestamp {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    let later = ambiguous.later().expect("in range");
    if later <= at {
        return later;
    }
    ambiguous.earlier().expect("in range").min(at)
}

/// Rounding interval of a date histogram.
pub(crate) enum Interval {
    /// This many ms.
    Fixed(i64),
    /// Calendar unit.
    Calendar(Unit),
}

/// Parses a duration such as `90m`, in ms.
pub(crate) fn duration_ms(text: &str) -> i64 {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let split = text.find(char::is_alphabetic).expect("a unit");
    let count: i64 = text[..split].parse().expect("a count");
    let unit = match &text[split..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        unit => panic!("no unit [{unit}]"),
    };
    sign * count * unit
}

impl Interval {
    /// Returns the start of the bucket that contains an instant, both in ms.
    pub(crate) fn start(&self, ms: i64, zone: &TimeZone) -> i64 {
        let at = Timestamp::from_millisecond(ms).expect("in range");
        match self {
            Self::Calendar(unit) => unit.start(&at.to_zoned(zone.clone())).timestamp().as_millisecond(),
            Self::Fixed(width) => {
                let offset_ms = i64::from(zone.to_offset(at).seconds()) * 1000;
                let local_ms = (ms + offset_ms).div_euclid(*width) * width;
                let local = TimeZone::UTC.to_datetime(Timestamp::from_millisecond(local_ms).expect("in range"));
                instant_not_after(local, at, zone).as_millisecond()
            }
        }
    }

    /// Returns the start of the bucket after the one that starts at `ms`.
    pub(crate) fn next(&self, ms: i64, zone: &TimeZone) -> i64 {
        let at = Timestamp::from_millisecond(ms)
            .expect("in range")
            .to_zoned(zone.clone());
        let local = match self {
            Self::Calendar(unit) => {
                let local = at.datetime().checked_add(unit.span()).expect("in range");
                unit.local_start(local)
            }
            Self::Fixed(width) => at
                .datetime()
                .checked_add(SignedDuration::from_millis(*width))
                .expect("in range"),
        };
        let next = zone
            .to_ambiguous_timestamp(local)
            .later()
            .expect("in range")
            .as_millisecond();
        assert!(next > ms, "{local} does not follow");
        next
    }
}

/// Prints an instant in a format.
pub(crate) fn print(ms: i64, format: Option<&str>, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(ms)
        .expect("in range")
        .to_zoned(zone.clone());
    let text = |pattern: &str| at.strftime(pattern).to_string();
    match format {
        None | Some("strict_date_optional_time") => {
            let zone = match at.offset().seconds() {
                0 => "Z".to_owned(),
                _ => text("%:z"),
            };
            format!("{}{zone}", text("%Y-%m-%dT%H:%M:%S.%3f"))
        }
        Some("yyyy-MM-dd") => text("%Y-%m-%d"),
        Some("yyyy-MM") => text("%Y-%m"),
        Some("yyyy-MM-dd HH:mm") => text("%Y-%m-%d %H:%M"),
        Some("epoch_millis") => ms.to_string(),
        Some("epoch_second") => ms.div_euclid(1000).to_string(),
        Some(format) => panic!("the reference has no format [{format}]"),
    }
}
