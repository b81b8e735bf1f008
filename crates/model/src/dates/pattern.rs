//! Compiled patterns of Java's `DateTimeFormatter`.

use super::civil::{Date, days_from, weekday};
use super::iso::Cursor;
use super::parts::{ParsedZone, Parts};
use super::print::{Clock, push_offset, push_padded, push_year};
use super::zone::Zone;
use crate::{Error, Result};

/// Maximum bytes of one pattern.
const PATTERN_BYTES_MAX: usize = 256;
/// Maximum nesting of optional sections.
const SECTION_DEPTH_MAX: usize = 8;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

#[derive(Debug, Clone, Copy)]
enum Number {
    Month,
    Day,
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 1 to 24.
    HourFromOne,
    /// 0 to 11.
    HalfHour,
    /// 1 to 12.
    ClockHour,
    Minute,
    Second,
    Nano,
}

#[derive(Debug, Clone)]
enum Item {
    Literal(Box<str>),
    /// `exact`: digits follow directly, so it reads exactly `width` digits.
    Year {
        width: usize,
        min: usize,
        exact: bool,
    },
    /// `yy`: 2000 to 2099.
    ShortYear,
    Number {
        number: Number,
        min: usize,
        max: usize,
        width: usize,
    },
    Fraction {
        min: usize,
        max: usize,
        width: usize,
    },
    MonthName {
        full: bool,
    },
    WeekdayName {
        full: bool,
    },
    HalfDay,
    /// `colon`: `+01:00`. `minutes`: even if they are zero. `letter`: `Z` for a zero offset.
    Offset {
        colon: bool,
        minutes: bool,
        letter: bool,
    },
    /// Any zone; printed as an offset.
    AnyZone,
    /// Any zone; printed by name.
    ZoneName,
    Optional(Vec<Item>),
}

/// Compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Vec<Item>);

impl Pattern {
    /// Compiles a pattern written by a user.
    pub(super) fn compile(pattern: &str) -> Result<Self> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::illegal_argument(format!(
                "Invalid format: a date pattern takes at most {PATTERN_BYTES_MAX} bytes"
            )));
        }
        // Elasticsearch 6 marked patterns of `java.time` with an 8.
        let pattern = pattern.strip_prefix('8').unwrap_or(pattern);
        Compiler::new(pattern, false, false).compile()
    }

    /// Compiles the pattern of a named format; see `named.rs`.
    pub(super) fn compile_named(pattern: &str, lenient: bool) -> Result<Self> {
        Compiler::new(pattern, true, lenient).compile()
    }

    /// Parses the whole text, else returns `None`.
    pub(super) fn parse(&self, text: &str) -> Option<Parts> {
        let mut cursor = Cursor::new(text);
        let mut parts = Parts::default();
        parse_items(&self.0, &mut cursor, &mut parts)?;
        cursor.is_at_end().then_some(parts)
    }

    pub(super) fn print(&self, clock: &Clock<'_>, out: &mut String) {
        print_items(&self.0, clock, out);
    }
}

struct Compiler<'a> {
    pattern: &'a str,
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    named: bool,
    lenient: bool,
}

impl<'a> Compiler<'a> {
    fn new(pattern: &'a str, named: bool, lenient: bool) -> Self {
        Self {
            pattern,
            rest: pattern.chars().peekable(),
            named,
            lenient,
        }
    }

    fn compile(mut self) -> Result<Pattern> {
        let mut items = self.section(0)?;
        fix_adjacent(&mut items);
        Ok(Pattern(items))
    }

    fn invalid(&self, why: &str) -> Error {
        Error::illegal_argument(format!("Invalid format: [{}]: {why}", self.pattern))
    }

    fn section(&mut self, depth: usize) -> Result<Vec<Item>> {
        if depth > SECTION_DEPTH_MAX {
            return Err(self.invalid("too many optional sections inside each other"));
        }
        let mut items = Vec::new();
        let mut literal = String::new();
        while let Some(character) = self.rest.next() {
            if character == '\'' {
                self.quoted(&mut literal)?;
                continue;
            }
            if !character.is_ascii_alphabetic() && !"[]{}#".contains(character) {
                literal.push(character);
                continue;
            }
            if !literal.is_empty() {
                items.push(Item::Literal(std::mem::take(&mut literal).into()));
            }
            match character {
                '[' => items.push(Item::Optional(self.section(depth + 1)?)),
                ']' if depth > 0 => return Ok(items),
                ']' => return Err(self.invalid("Pattern invalid as it contains ] without previous [")),
                '{' | '}' | '#' => {
                    return Err(self.invalid(&format!("Pattern includes reserved character: '{character}'")));
                }
                letter => {
                    let mut count = 1;
                    while self.rest.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    items.push(self.letter(letter, count)?);
                }
            }
        }
        // Java closes open sections at the end of the pattern.
        if !literal.is_empty() {
            items.push(Item::Literal(literal.into()));
        }
        Ok(items)
    }

    fn quoted(&mut self, literal: &mut String) -> Result<()> {
        if self.rest.next_if_eq(&'\'').is_some() {
            literal.push('\'');
            return Ok(());
        }
        loop {
            match self.rest.next() {
                Some('\'') if self.rest.next_if_eq(&'\'').is_some() => literal.push('\''),
                Some('\'') => return Ok(()),
                Some(character) => literal.push(character),
                None => return Err(self.invalid("Pattern ends with an incomplete string literal")),
            }
        }
    }

    fn letter(&self, letter: char, count: usize) -> Result<Item> {
        let number = |number: Number, width: usize, max: usize| {
            let min = if self.lenient { 1 } else { width };
            Ok(Item::Number {
                number,
                min,
                max,
                width,
            })
        };
        let too_many = || Err(self.invalid(&format!("Too many pattern letters: {letter}")));
        match (letter, count) {
            ('y' | 'u', 2) => Ok(Item::ShortYear),
            ('y' | 'u', 1..=9) => Ok(Item::Year {
                width: count,
                min: if self.lenient { 1 } else { count },
                exact: false,
            }),
            ('M' | 'L', 1 | 2) => number(Number::Month, count, 2),
            ('M' | 'L', 3) => Ok(Item::MonthName { full: false }),
            ('M' | 'L', 4) => Ok(Item::MonthName { full: true }),
            ('d', 1 | 2) => number(Number::Day, count, 2),
            ('D', 1..=3) => number(Number::DayOfYear, count, 3),
            ('H', 1 | 2) => number(Number::Hour, count, 2),
            ('k', 1 | 2) => number(Number::HourFromOne, count, 2),
            ('K', 1 | 2) => number(Number::HalfHour, count, 2),
            ('h', 1 | 2) => number(Number::ClockHour, count, 2),
            ('m', 1 | 2) => number(Number::Minute, count, 2),
            ('s', 1 | 2) => number(Number::Second, count, 2),
            ('n', 1..=9) => number(Number::Nano, count, 9),
            ('S', 1..=9) => Ok(Item::Fraction {
                min: if self.named { 1 } else { count },
                max: if self.named { 9 } else { count },
                width: count,
            }),
            ('a', 1) => Ok(Item::HalfDay),
            ('E', 1..=3) => Ok(Item::WeekdayName { full: false }),
            ('E', 4) => Ok(Item::WeekdayName { full: true }),
            ('Z', 5) if self.named => Ok(Item::AnyZone),
            ('Z', 1..=3) => Ok(offset(false, true, false)),
            ('Z', 5) => Ok(offset(true, true, true)),
            ('X' | 'x', 1) => Ok(offset(false, false, letter == 'X')),
            ('X' | 'x', 2 | 4) => Ok(offset(false, true, letter == 'X')),
            ('X' | 'x', 3 | 5) => Ok(offset(true, true, letter == 'X')),
            ('z', 1..=4) | ('V', 2) => Ok(Item::ZoneName),
            ('y' | 'u' | 'M' | 'L' | 'd' | 'D' | 'H' | 'k' | 'K' | 'h' | 'm' | 's' | 'n' | 'S' | 'a', _) => too_many(),
            ('G' | 'Y' | 'Q' | 'q' | 'w' | 'W' | 'e' | 'c' | 'F' | 'A' | 'N' | 'g' | 'O' | 'B' | 'p' | 'v', _)
            | ('E' | 'Z' | 'X' | 'x' | 'z' | 'V', _) => Err(Error::not_implemented(format!(
                "pattern letter [{}] of date format [{}]",
                letter.to_string().repeat(count),
                self.pattern
            ))),
            _ => Err(self.invalid(&format!("Unknown pattern letter: {letter}"))),
        }
    }
}

fn offset(colon: bool, minutes: bool, letter: bool) -> Item {
    Item::Offset { colon, minutes, letter }
}

/// Makes a year directly before other digits (`yyyyMMdd`) read only its own digits.
fn fix_adjacent(items: &mut [Item]) {
    for at in 0..items.len() {
        let digits_follow = matches!(
            items.get(at + 1),
            Some(Item::Number { .. } | Item::Fraction { .. } | Item::ShortYear)
        );
        match &mut items[at] {
            Item::Year { exact, .. } => *exact = digits_follow,
            Item::Optional(inner) => fix_adjacent(inner),
            _ => {}
        }
    }
}

fn parse_items(items: &[Item], cursor: &mut Cursor<'_>, parts: &mut Parts) -> Option<()> {
    for item in items {
        parse_item(item, cursor, parts)?;
    }
    Some(())
}

fn parse_item(item: &Item, cursor: &mut Cursor<'_>, parts: &mut Parts) -> Option<()> {
    match item {
        Item::Literal(literal) => cursor.eat_str(literal).then_some(())?,
        Item::Year { width, exact: true, .. } => parts.year = Some(cursor.digits(*width, *width)?),
        Item::Year { min, width, .. } if *width >= 4 => parts.year = Some(cursor.year(*min)?),
        Item::Year { min, .. } => parts.year = Some(cursor.digits(*min, 9)?),
        Item::ShortYear => parts.year = Some(2000 + cursor.digits(2, 2)?),
        Item::Number { number, min, max, .. } => {
            let value = cursor.small(*min, *max)?;
            let slot = match number {
                Number::Month => &mut parts.month,
                Number::Day => &mut parts.day,
                Number::DayOfYear => &mut parts.day_of_year,
                Number::Hour => &mut parts.hour,
                Number::HourFromOne => {
                    if value == 0 || value > 24 {
                        return None;
                    }
                    parts.hour = Some(value % 24);
                    return Some(());
                }
                Number::HalfHour if value > 11 => return None,
                Number::ClockHour if value == 0 => return None,
                Number::HalfHour | Number::ClockHour => &mut parts.clock_hour,
                Number::Minute => &mut parts.minute,
                Number::Second => &mut parts.second,
                Number::Nano => &mut parts.nano,
            };
            *slot = Some(value);
        }
        Item::Fraction { min, max, .. } => parts.nano = Some(cursor.fraction(*min, *max)?),
        Item::MonthName { full } => {
            let index = name(cursor, &MONTHS, *full)?;
            parts.month = Some(index + 1);
        }
        Item::WeekdayName { full } => parts.weekday = Some(name(cursor, &WEEKDAYS, *full)?),
        Item::HalfDay => {
            let rest = cursor.rest().as_bytes();
            let half = match rest.get(..2)? {
                two if two.eq_ignore_ascii_case(b"AM") => 0,
                two if two.eq_ignore_ascii_case(b"PM") => 1,
                _ => return None,
            };
            cursor.skip(2);
            parts.half_day = Some(half);
        }
        Item::Offset { colon, letter, .. } => {
            if *letter && cursor.eat(b'Z') {
                parts.zone = Some(ParsedZone::OffsetSeconds(0));
                return Some(());
            }
            let before = cursor.rest();
            let seconds = cursor.offset()?;
            let taken = &before[..before.len() - cursor.rest().len()];
            if taken.contains(':') != *colon && taken.len() > 3 {
                return None;
            }
            parts.zone = Some(ParsedZone::OffsetSeconds(seconds));
        }
        Item::AnyZone | Item::ZoneName => parts.zone = Some(cursor.zone()?),
        Item::Optional(inner) => {
            let (mut ahead, mut more) = (*cursor, parts.clone());
            if parse_items(inner, &mut ahead, &mut more).is_some() {
                *cursor = ahead;
                *parts = more;
            }
        }
    }
    Some(())
}

/// Returns the index of the name that comes next; short names have three letters.
fn name(cursor: &mut Cursor<'_>, names: &[&str], full: bool) -> Option<u32> {
    let rest = cursor.rest().as_bytes();
    let index = names.iter().position(|name| {
        let name = if full { name } else { &name[..3] };
        rest.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
    })?;
    cursor.skip(if full { names[index].len() } else { 3 });
    Some(index as u32)
}

fn print_items(items: &[Item], clock: &Clock<'_>, out: &mut String) {
    for item in items {
        print_item(item, clock, out);
    }
}

fn print_item(item: &Item, clock: &Clock<'_>, out: &mut String) {
    match item {
        Item::Literal(literal) => out.push_str(literal),
        Item::Year { width, .. } => push_year(out, clock.date.year, *width),
        Item::ShortYear => push_padded(out, clock.date.year.rem_euclid(100) as u64, 2),
        Item::Number { number, width, .. } => {
            let value = match number {
                Number::Month => clock.date.month,
                Number::Day => clock.date.day,
                Number::DayOfYear => {
                    let first = Date {
                        month: 1,
                        day: 1,
                        ..clock.date
                    };
                    (clock.days - days_from(first) + 1) as u32
                }
                Number::Hour => clock.hour,
                Number::HourFromOne => (clock.hour + 23) % 24 + 1,
                Number::HalfHour => clock.hour % 12,
                Number::ClockHour => (clock.hour + 11) % 12 + 1,
                Number::Minute => clock.minute,
                Number::Second => clock.second,
                Number::Nano => clock.nano,
            };
            push_padded(out, u64::from(value), *width);
        }
        Item::Fraction { width, .. } => {
            push_padded(out, u64::from(clock.nano / 10u32.pow(9 - *width as u32)), *width);
        }
        Item::MonthName { full } => {
            let name = MONTHS[clock.date.month as usize - 1];
            out.push_str(if *full { name } else { &name[..3] });
        }
        Item::WeekdayName { full } => {
            let name = WEEKDAYS[weekday(clock.days) as usize];
            out.push_str(if *full { name } else { &name[..3] });
        }
        Item::HalfDay => out.push_str(if clock.hour < 12 { "AM" } else { "PM" }),
        Item::Offset { colon, minutes, letter } => {
            let zero = match (letter, colon, minutes) {
                (true, ..) => "Z",
                (_, true, _) => "+00:00",
                (_, _, true) => "+0000",
                _ => "+00",
            };
            let start = out.len();
            push_offset(out, clock.offset_s, *colon, zero);
            if !minutes && clock.offset_s % 3600 == 0 {
                out.truncate((start + 3).min(out.len()));
            }
        }
        Item::AnyZone => push_offset(out, clock.offset_s, true, "Z"),
        Item::ZoneName => push_zone_name(out, clock.zone),
        Item::Optional(inner) => print_items(inner, clock, out),
    }
}

fn push_zone_name(out: &mut String, zone: &Zone) {
    out.push_str(zone.name());
}
