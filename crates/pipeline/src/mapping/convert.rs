//! Conversion of a raw value to the type of its target.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;

use super::dates::{self, Date};
use super::ecs::Kind;
use super::items::{Item, Items, Stored};
use super::numbers::{boolean, is_json_number, long};
use super::pack::{Action, Case, Pack, Take};
use super::scan::{elements, unescape};
use crate::event::Value;

/// What all conversions of an event share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'p> {
    pub(crate) pack: &'p Pack,
    /// Time of arrival in nanoseconds, for dates without a year.
    pub(crate) received: Option<i64>,
    /// Place of the raw field.
    pub(crate) source: usize,
}

/// What became of a raw value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the target.
    Stored,
    /// It means "no value".
    Absent,
    /// It has not the type of the target.
    Failed,
    /// Another value is in the target.
    Lost,
    /// It is in the target, where the value of the raw field at this place was.
    Replaced(usize),
}

impl From<Stored> for Outcome {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Yes => Self::Stored,
            Stored::Lost => Self::Lost,
            Stored::Replaced(place) => Self::Replaced(place),
        }
    }
}

/// Text of a value, in the record or in the scratch buffer.
#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Record(&'a str),
    Scratch(u32, u32),
}

impl<'a> Text<'a> {
    fn get<'i>(&self, items: &'i Items<'a>) -> &'i str
    where
        'a: 'i,
    {
        match *self {
            Self::Record(text) => text,
            Self::Scratch(start, end) => &items.scratch[start as usize..end as usize],
        }
    }

    fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::Record(text) => Self::Record(&text[range]),
            Self::Scratch(start, _) => Self::Scratch(start + range.start as u32, start + range.end as u32),
        }
    }

    fn item(self) -> Item<'a> {
        match self {
            Self::Record(text) => Item::Plain(text),
            Self::Scratch(start, end) => Item::Scratch(start, end),
        }
    }

    fn push(text: &str, items: &mut Items<'a>) -> Self {
        let start = items.scratch.len() as u32;
        items.scratch.push_str(text);
        Self::Scratch(start, items.scratch.len() as u32)
    }

    /// Returns a scalar as text; nothing for null, arrays and objects.
    fn of(value: &Value<'a>, items: &mut Items<'a>) -> Option<Self> {
        Some(match value {
            Value::Text(Cow::Borrowed(text)) | Value::Number(Cow::Borrowed(text)) => Self::Record(text),
            Value::Text(text) | Value::Number(text) => Self::push(text, items),
            Value::Int(number) => Self::push(&number.to_string(), items),
            Value::Bool(true) => Self::Record("true"),
            Value::Bool(false) => Self::Record("false"),
            Value::Escaped(inside) => {
                let start = items.scratch.len() as u32;
                unescape(inside, &mut items.scratch);
                Self::Scratch(start, items.scratch.len() as u32)
            }
            Value::Null | Value::Json(_) => return None,
        })
    }
}

/// Converts a value and stores it in the target of an action.
#[inline]
pub(crate) fn apply<'a>(context: Context<'_>, action: &Action, value: &Value<'a>, items: &mut Items<'a>) -> Outcome {
    if action.is_plain {
        let text = match value {
            Value::Text(Cow::Borrowed(text)) => text,
            Value::Escaped(inside) => return store(context, action, Item::Escaped(inside), items),
            Value::Number(Cow::Borrowed(text)) => return store(context, action, Item::Plain(text), items),
            _ => return apply_any(context, action, value, items),
        };
        if context.pack.is_absent(text) {
            return Outcome::Absent;
        }
        return store(context, action, Item::Plain(text), items);
    }
    apply_any(context, action, value, items)
}

fn apply_any<'a>(context: Context<'_>, action: &Action, value: &Value<'a>, items: &mut Items<'a>) -> Outcome {
    match value {
        Value::Null => return Outcome::Absent,
        Value::Json(json) => return apply_json(context, action, json, items),
        Value::Escaped(inside)
            if action.take == Take::Basename && action.kind == Kind::Keyword && action.map.is_none() =>
        {
            if let (Some(name), Case::Same) = (basename_of_escaped(inside), action.case) {
                return store(context, action, Item::Plain(name), items);
            }
        }
        _ => {}
    }
    let Some(text) = Text::of(value, items) else {
        return Outcome::Failed;
    };
    if context.pack.is_absent(text.get(items)) {
        return Outcome::Absent;
    }
    if let Some(entries) = &action.entries {
        return apply_entries(context, entries, text, items);
    }
    let Some(separator) = &action.split else {
        return match convert(context, action, text, items) {
            Ok(item) => store(context, action, item, items),
            Err(outcome) => outcome,
        };
    };
    let mut rest = Some(text);
    let mut writer = ArrayWriter::default();
    while let Some(text) = rest {
        let (part, after) = next_part(text.get(items), separator);
        rest = after.map(|range| text.slice(range));
        if !part.is_empty() {
            writer.push(context, action, text.slice(part), items);
        }
    }
    writer.outcome
}

/// Returns the range of the first part, and that of what follows the separator. A space separates by any white space.
fn next_part(text: &str, separator: &str) -> (Range<usize>, Option<Range<usize>>) {
    let found = match separator {
        " " => text.find(char::is_whitespace).map(|at| {
            let width = text[at..].chars().next().map_or(1, char::len_utf8);
            (at, width)
        }),
        separator => find(text, separator).map(|at| (at, separator.len())),
    };
    match found {
        Some((at, width)) => (0..at, Some(at + width..text.len())),
        None => (0..text.len(), None),
    }
}

/// Returns the offset of a separator; most are one byte long.
fn find(text: &str, separator: &str) -> Option<usize> {
    match separator.as_bytes() {
        [byte] => memchr::memchr(*byte, text.as_bytes()),
        bytes => memchr::memmem::find(text.as_bytes(), bytes),
    }
}

/// Stores the elements of an array one by one.
struct ArrayWriter {
    outcome: Outcome,
    is_open: bool,
}

impl Default for ArrayWriter {
    fn default() -> Self {
        Self {
            outcome: Outcome::Absent,
            is_open: false,
        }
    }
}

impl ArrayWriter {
    fn push<'a>(&mut self, context: Context<'_>, action: &Action, text: Text<'a>, items: &mut Items<'a>) {
        match convert(context, action, text, items) {
            Ok(item) if self.is_open && !action.is_list => {
                items.extend(action.target, item);
                if let Some(related) = action.related {
                    items.append(related, item);
                }
            }
            Ok(item) => {
                let outcome = store(context, action, item, items);
                self.is_open = !matches!(outcome, Outcome::Lost);
                if self.outcome != Outcome::Failed {
                    self.outcome = outcome;
                }
            }
            Err(Outcome::Failed) => self.outcome = Outcome::Failed,
            Err(_) => {}
        }
    }
}

#[allow(
    clippy::ptr_arg,
    reason = "a borrowed text outlives the value, an owned one does not"
)]
fn apply_json<'a>(context: Context<'_>, action: &Action, json: &Cow<'a, str>, items: &mut Items<'a>) -> Outcome {
    if action.kind.holds_objects() {
        let item = match json {
            Cow::Borrowed(json) => Item::Json(json),
            Cow::Owned(json) => {
                let start = items.scratch.len() as u32;
                items.scratch.push_str(json);
                Item::ScratchJson(start, items.scratch.len() as u32)
            }
        };
        return store(context, action, item, items);
    }
    let Cow::Borrowed(json) = json else {
        return Outcome::Failed;
    };
    let mut writer = ArrayWriter::default();
    let is_array = elements(json, |value| match value {
        Value::Null => {}
        value => match Text::of(&value, items) {
            Some(text) => writer.push(context, action, text, items),
            None => writer.outcome = Outcome::Failed,
        },
    });
    if is_array { writer.outcome } else { Outcome::Failed }
}

fn apply_entries<'a>(
    context: Context<'_>,
    entries: &super::pack::Entries,
    text: Text<'a>,
    items: &mut Items<'a>,
) -> Outcome {
    let mut outcome = Outcome::Absent;
    let mut rest = Some(text);
    while let Some(text) = rest {
        let whole = text.get(items);
        let (part, after) = next_part(whole, &entries.separator);
        let entry = &whole[part.clone()];
        let found = entry
            .get(..find(entry, &entries.assign).unwrap_or(usize::MAX))
            .and_then(|name| {
                let number = entries.names.find(name.trim())?;
                Some((number, part.start + name.len() + entries.assign.len()..part.end))
            });
        rest = after.map(|range| text.slice(range));
        match found {
            Some((number, range)) => {
                for action in &entries.actions[usize::from(number)] {
                    let stored = match convert(context, action, text.slice(range.clone()), items) {
                        Ok(item) => store(context, action, item, items),
                        Err(outcome) => outcome,
                    };
                    match (outcome, stored) {
                        (Outcome::Failed | Outcome::Lost, _) | (_, Outcome::Absent) => {}
                        (_, stored) => outcome = stored,
                    }
                }
            }
            // An entry that the pack does not know: the whole field stays under the prefix.
            None if !part.is_empty() => outcome = Outcome::Lost,
            None => {}
        }
    }
    outcome
}

#[inline]
fn store<'a>(context: Context<'_>, action: &Action, item: Item<'a>, items: &mut Items<'a>) -> Outcome {
    let outcome = if action.is_list {
        items.append(action.target, item);
        Outcome::Stored
    } else {
        items.set(action.target, item, action.rank, context.source).into()
    };
    if let Some(related) = action.related {
        items.append(related, item);
    }
    outcome
}

/// Converts one text. A map with several values stores all but the last itself.
fn convert<'a>(
    context: Context<'_>,
    action: &Action,
    mut text: Text<'a>,
    items: &mut Items<'a>,
) -> Result<Item<'a>, Outcome> {
    match take(&action.take, text.get(items)) {
        Some(range) => text = text.slice(range),
        None => return Err(Outcome::Absent),
    }
    if !action.trim.is_empty() {
        let whole = text.get(items);
        let start = whole.len() - whole.trim_start_matches(&*action.trim).len();
        let end = whole.trim_end_matches(&*action.trim).len();
        text = text.slice(start..end.max(start));
    }
    if context.pack.is_absent(text.get(items)) {
        return Err(Outcome::Absent);
    }
    if let Some(map) = &action.map {
        let values = match map.keys.find(text.get(items)) {
            Some(number) => Some(&map.values[usize::from(number)]),
            None => map.otherwise.as_ref(),
        };
        if let Some((last, others)) = values.and_then(|values| values.split_last()) {
            for value in others {
                store(context, action, Item::Constant(*value), items);
            }
            return Ok(Item::Constant(*last));
        }
    }
    text = with_case(action.case, text, items);
    typed(context, action, text, items).ok_or(Outcome::Failed)
}

fn with_case<'a>(case: Case, text: Text<'a>, items: &mut Items<'a>) -> Text<'a> {
    if case == Case::Same {
        return text;
    }
    let whole = text.get(items);
    if whole.is_ascii() {
        let is_changed = match case {
            Case::Lower => whole.bytes().any(|byte| byte.is_ascii_uppercase()),
            _ => whole.bytes().any(|byte| byte.is_ascii_lowercase()),
        };
        if !is_changed {
            return text;
        }
        let (start, length) = (items.scratch.len(), whole.len());
        match text {
            Text::Record(text) => items.scratch.push_str(text),
            Text::Scratch(from, to) => items.scratch.extend_from_within(from as usize..to as usize),
        }
        match case {
            Case::Lower => items.scratch[start..].make_ascii_lowercase(),
            _ => items.scratch[start..].make_ascii_uppercase(),
        }
        return Text::Scratch(start as u32, (start + length) as u32);
    }
    let changed = match case {
        Case::Lower if whole.chars().any(|c| !c.is_lowercase() && c.is_alphabetic()) => whole.to_lowercase(),
        Case::Upper if whole.chars().any(|c| !c.is_uppercase() && c.is_alphabetic()) => whole.to_uppercase(),
        _ => return text,
    };
    Text::push(&changed, items)
}

/// Returns the range of a part, or nothing if there is no such part.
fn take(take: &Take, text: &str) -> Option<Range<usize>> {
    let cut = || text.rfind(['/', '\\']);
    Some(match take {
        Take::All => 0..text.len(),
        Take::Basename => cut().map_or(0, |at| at + 1)..text.len(),
        Take::Dirname => 0..cut()?,
        Take::Extension => {
            let name = cut().map_or(0, |at| at + 1);
            let dot = text[name..].rfind('.').filter(|dot| *dot > 0)?;
            name + dot + 1..text.len()
        }
        Take::Before(separator) => 0..find(text, separator)?,
        Take::After(separator) => find(text, separator).map_or(0, |at| at + separator.len())..text.len(),
    })
}

/// Returns the base name of a path inside a JSON string if the name itself has no escapes.
fn basename_of_escaped(inside: &str) -> Option<&str> {
    let bytes = inside.as_bytes();
    let at = memchr::memrchr2(b'\\', b'/', bytes)?;
    if bytes[at] == b'/' {
        return None;
    }
    // The last backslash must be one that stands escaped: an even number of them ends here.
    let backslashes = bytes[..=at].iter().rev().take_while(|byte| **byte == b'\\').count();
    (backslashes % 2 == 0 && at + 1 < bytes.len()).then(|| &inside[at + 1..])
}

fn typed<'a>(context: Context<'_>, action: &Action, text: Text<'a>, items: &mut Items<'a>) -> Option<Item<'a>> {
    let whole = text.get(items);
    match action.kind {
        Kind::Keyword | Kind::GeoPoint => Some(text.item()),
        Kind::Ip => whole.parse::<IpAddr>().is_ok().then(|| text.item()),
        Kind::Long => long(whole.trim(), action.scale).map(Item::Int),
        Kind::Double => {
            if action.scale.is_none() && is_json_number(whole) {
                return Some(match text {
                    Text::Record(json) => Item::Json(json),
                    Text::Scratch(start, end) => Item::ScratchJson(start, end),
                });
            }
            let number = whole.trim().parse::<f64>().ok()? * action.scale.unwrap_or(1.0);
            if !number.is_finite() {
                return None;
            }
            match Text::push(&number.to_string(), items) {
                Text::Scratch(start, end) => Some(Item::ScratchJson(start, end)),
                Text::Record(_) => None,
            }
        }
        Kind::Boolean => boolean(whole).map(Item::Bool),
        Kind::Date => match dates::parse(action.dates.as_ref(), whole, context.received)? {
            Date::AsItIs => Some(text.item()),
            Date::Nanos(nanos) => {
                let start = items.scratch.len() as u32;
                dates::push_iso(nanos, &mut items.scratch);
                Some(Item::Scratch(start, items.scratch.len() as u32))
            }
        },
        Kind::Object => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths() {
        for (path, part, expect) in [
            (r"C:\a\b.exe", Take::Basename, Some("b.exe")),
            (r"C:\a\b.exe", Take::Dirname, Some(r"C:\a")),
            (r"C:\a\b.exe", Take::Extension, Some("exe")),
            ("/usr/bin/ssh", Take::Basename, Some("ssh")),
            ("/usr/bin/ssh", Take::Extension, None),
            ("/a.b/.profile", Take::Extension, None),
            ("ssh", Take::Dirname, None),
            (r"D\u", Take::Before("\\".into()), Some("D")),
            (r"D\u", Take::After("\\".into()), Some("u")),
            ("u", Take::Before("\\".into()), None),
            ("u", Take::After("\\".into()), Some("u")),
        ] {
            assert_eq!(take(&part, path).map(|range| &path[range]), expect, "{path} {part:?}");
        }
    }

    #[test]
    fn base_names_of_escaped_paths() {
        for (inside, expect) in [
            (r"C:\\a\\b.exe", Some("b.exe")),
            (r"C:\\a\\b\u00ae.exe", None),
            (r#"C:\\a\\\"b"#, None),
            (r"C:\\a\\", None),
            (r"\\\\b", Some("b")),
            ("a/b", None),
        ] {
            assert_eq!(basename_of_escaped(inside), expect, "{inside}");
        }
    }
}
