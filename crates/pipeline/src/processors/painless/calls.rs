//! Calls of methods of texts, lists, maps and numbers.

use serde_json::{Map, Value};

use super::super::document::java_text;
use super::super::failure::{Failure, FailureKind};
use super::memory::{Memory, is_ctx, out_of_bounds};
use super::methods::Method;
use super::value::{Key, Place, Val, cast_failure};

/// Calls a method of a value that is not null.
pub(super) fn call(memory: &mut Memory<'_>, of: Val, method: Method, arguments: Vec<Val>) -> Result<Val, Failure> {
    match (&of, method) {
        (Val::Place(_), Method::ToText) => {
            let text = java_text(&memory.json(&of)?);
            memory.budget.write(text.len())?;
            return Ok(Val::Text(text));
        }
        (_, Method::ToText) => return Ok(Val::Text(of.text())),
        (_, Method::Equals) => {
            let equal = match &of {
                Val::Place(_) => memory.json(&of)? == memory.json(&arguments[0])?,
                scalar => *scalar == arguments[0],
            };
            return Ok(Val::Bool(equal));
        }
        _ => {}
    }
    match of {
        Val::Text(text) => of_text(memory, &text, method, &arguments),
        Val::Int(number) => of_number(number as f64, Some(number), method, &arguments),
        Val::Float(number) => of_number(number, None, method, &arguments),
        Val::Place(place) if is_ctx(&place) => of_map(memory, &place, method, arguments),
        Val::Place(place) => match memory.value(&place) {
            Some(Value::Array(_)) => of_list(memory, &place, method, arguments),
            _ => of_map(memory, &place, method, arguments),
        },
        other => Err(not_found(other.class(), method, arguments.len())),
    }
}

fn not_found(class: &str, method: Method, arguments: usize) -> Failure {
    let name = method.name();
    Failure::illegal(format!("dynamic method [{class}, {name}/{arguments}] not found"))
}

fn as_text(value: &Val) -> Result<&str, Failure> {
    match value {
        Val::Text(text) => Ok(text),
        Val::Null => Err(Failure::new(FailureKind::NullPointer, "an argument is null")),
        other => Err(cast_failure(format!(
            "Cannot cast {} to java.lang.String",
            other.class()
        ))),
    }
}

fn as_int(value: &Val) -> Result<i64, Failure> {
    match value {
        Val::Int(number) => Ok(*number),
        other => Err(cast_failure(format!("Cannot cast {} to int", other.class()))),
    }
}

fn of_number(number: f64, whole: Option<i64>, method: Method, arguments: &[Val]) -> Result<Val, Failure> {
    match method {
        Method::IntValue => Ok(Val::Int(i64::from(whole.map_or(number as i32, |whole| whole as i32)))),
        Method::LongValue => Ok(Val::Int(whole.unwrap_or(number as i64))),
        Method::DoubleValue => Ok(Val::Float(number)),
        Method::CompareTo => {
            let other = match arguments[0] {
                Val::Int(other) => other as f64,
                Val::Float(other) => other,
                _ => return Err(cast_failure("compareTo needs a number")),
            };
            Ok(Val::Int(number.total_cmp(&other) as i64))
        }
        _ => Err(not_found("java.lang.Number", method, arguments.len())),
    }
}

/// Offset in bytes of a character of Java (UTF-16). An offset inside of a pair is that of the pair.
fn byte_at(text: &str, units: i64) -> Option<usize> {
    let mut remaining = usize::try_from(units).ok()?;
    for (at, c) in text.char_indices() {
        if remaining == 0 {
            return Some(at);
        }
        remaining = remaining.saturating_sub(c.len_utf16());
    }
    (remaining == 0).then_some(text.len())
}

fn units(text: &str) -> i64 {
    text.chars().map(|c| c.len_utf16() as i64).sum()
}

fn of_text(memory: &mut Memory<'_>, text: &str, method: Method, arguments: &[Val]) -> Result<Val, Failure> {
    memory.budget.take_text(text.len())?;
    let argument = |at: usize| as_text(&arguments[at]);
    let changed = match method {
        Method::Contains => return Ok(Val::Bool(text.contains(argument(0)?))),
        Method::StartsWith => return Ok(Val::Bool(text.starts_with(argument(0)?))),
        Method::EndsWith => return Ok(Val::Bool(text.ends_with(argument(0)?))),
        Method::Length => return Ok(Val::Int(units(text))),
        Method::IsEmpty => return Ok(Val::Bool(text.is_empty())),
        Method::EqualsIgnoreCase => {
            return Ok(Val::Bool(text.to_lowercase() == argument(0)?.to_lowercase()));
        }
        Method::CompareTo => {
            let order = text.encode_utf16().cmp(argument(0)?.encode_utf16());
            return Ok(Val::Int(order as i64));
        }
        Method::IndexOf => {
            let from = match arguments.get(1) {
                Some(from) => byte_at(text, as_int(from)?.max(0)),
                None => Some(0),
            };
            let found = match from {
                Some(from) => text[from..].find(argument(0)?).map(|at| from + at),
                None => None,
            };
            return Ok(Val::Int(found.map_or(-1, |at| units(&text[..at]))));
        }
        Method::LastIndexOf => {
            let found = text.rfind(argument(0)?);
            return Ok(Val::Int(found.map_or(-1, |at| units(&text[..at]))));
        }
        Method::SplitOnToken => return split(memory, text, arguments),
        Method::ToLowerCase => text.to_lowercase(),
        Method::ToUpperCase => text.to_uppercase(),
        Method::Trim => text.trim_matches(|c| c <= ' ').to_owned(),
        Method::Concat => format!("{text}{}", argument(0)?),
        Method::Replace => replace(memory, text, argument(0)?, argument(1)?)?,
        Method::CharAt | Method::Substring => {
            let begin = as_int(&arguments[0])?;
            let end = match (method, arguments.get(1)) {
                (Method::CharAt, _) => begin.saturating_add(1),
                (_, Some(end)) => as_int(end)?,
                (_, None) => units(text),
            };
            let part = byte_at(text, begin)
                .zip(byte_at(text, end))
                .and_then(|(begin, end)| text.get(begin..end));
            let fail = || {
                let reason = format!("begin {begin}, end {end}, length {}", units(text));
                Failure::new(FailureKind::IndexOutOfBounds, reason)
            };
            part.ok_or_else(fail)?.to_owned()
        }
        _ => return Err(not_found("java.lang.String", method, arguments.len())),
    };
    memory.budget.write(changed.len())?;
    Ok(Val::Text(changed))
}

/// Replaces texts; the length is computed before anything is written.
fn replace(memory: &mut Memory<'_>, text: &str, from: &str, to: &str) -> Result<String, Failure> {
    let matches = text.matches(from).count();
    memory.budget.write(text.len() + matches.saturating_mul(to.len()))?;
    Ok(text.replace(from, to))
}

fn split(memory: &mut Memory<'_>, text: &str, arguments: &[Val]) -> Result<Val, Failure> {
    let token = as_text(&arguments[0])?;
    if token.is_empty() {
        return Err(Failure::illegal("the token of splitOnToken is empty"));
    }
    let limit = match arguments.get(1) {
        Some(limit) => as_int(limit)?,
        None => -1,
    };
    let parts: Vec<Value> = match usize::try_from(limit) {
        Ok(limit) if limit > 0 => text.splitn(limit, token).map(Value::from).collect(),
        _ => text.split(token).map(Value::from).collect(),
    };
    memory.create(Value::Array(parts))
}

/// Appends to a list.
pub(super) fn push(memory: &mut Memory<'_>, list: &Val, value: &Val) -> Result<(), Failure> {
    if let Val::Place(place) = list {
        insert(memory, place, None, value)?;
    }
    Ok(())
}

fn insert(memory: &mut Memory<'_>, place: &Place, at: Option<i64>, value: &Val) -> Result<(), Failure> {
    let json = memory.json(value)?;
    memory.budget.write(8)?;
    let values = memory.list_mut(place)?;
    let len = values.len();
    let at = at.unwrap_or(len as i64);
    match usize::try_from(at).ok().filter(|at| *at <= len) {
        Some(index) => values.insert(index, Value::Null),
        None => return Err(out_of_bounds(at, len)),
    }
    // Stored like an assignment, so that the nesting is checked.
    let scalar = Val::scalar(&json);
    let value = match scalar {
        Some(scalar) => scalar,
        None => value.clone(),
    };
    memory.store(place, Key::At(at as usize), value)
}

fn of_list(memory: &mut Memory<'_>, place: &Place, method: Method, mut arguments: Vec<Val>) -> Result<Val, Failure> {
    let len = memory.value(place).and_then(Value::as_array).map_or(0, Vec::len);
    let index = |value: &Val| {
        let at = as_int(value)?;
        usize::try_from(at)
            .ok()
            .filter(|at| *at < len)
            .ok_or_else(|| out_of_bounds(at, len))
    };
    match method {
        Method::Size | Method::Length => Ok(Val::Int(len as i64)),
        Method::IsEmpty => Ok(Val::Bool(len == 0)),
        Method::Contains | Method::IndexOf | Method::LastIndexOf => {
            memory.budget.take(len as u64)?;
            let wanted = memory.json(&arguments[0])?;
            let values = memory.value(place).and_then(Value::as_array);
            let found = values.and_then(|values| match method {
                Method::LastIndexOf => values.iter().rposition(|value| *value == wanted),
                _ => values.iter().position(|value| *value == wanted),
            });
            Ok(match method {
                Method::Contains => Val::Bool(found.is_some()),
                _ => Val::Int(found.map_or(-1, |at| at as i64)),
            })
        }
        Method::Get => {
            let at = index(&arguments[0])?;
            memory.load(super::interpreter::child(place, Key::At(at)))
        }
        Method::Set => {
            let at = index(&arguments[0])?;
            let before = memory.value(&super::interpreter::child(place, Key::At(at))).cloned();
            memory.store(place, Key::At(at), arguments.remove(1))?;
            memory.create(before.unwrap_or_default())
        }
        Method::Add => {
            // Moving the elements behind costs.
            memory.budget.take(1 + len as u64 / 64)?;
            match arguments.as_slice() {
                [value] => insert(memory, place, None, value)?,
                [at, value] => insert(memory, place, Some(as_int(at)?), value)?,
                _ => {}
            }
            Ok(Val::Bool(true))
        }
        Method::AddAll => {
            let Value::Array(added) = memory.json(&arguments[0])? else {
                return Err(cast_failure("addAll needs a list"));
            };
            memory.budget.take(added.len() as u64)?;
            let is_empty = added.is_empty();
            memory.list_mut(place)?.extend(added);
            Ok(Val::Bool(!is_empty))
        }
        Method::Remove => {
            let at = index(&arguments[0])?;
            memory.budget.take(1 + len as u64 / 64)?;
            let removed = memory.list_mut(place)?.remove(at);
            memory.create(removed)
        }
        Method::Clear => {
            memory.list_mut(place)?.clear();
            Ok(Val::Null)
        }
        _ => Err(not_found("java.util.ArrayList", method, arguments.len())),
    }
}

fn of_map(memory: &mut Memory<'_>, place: &Place, method: Method, mut arguments: Vec<Val>) -> Result<Val, Failure> {
    let child = |name: &Val| super::interpreter::child(place, Key::Name(name.text()));
    match method {
        Method::ContainsKey => Ok(Val::Bool(memory.value(&child(&arguments[0])).is_some())),
        Method::Get => memory.load(child(&arguments[0])),
        Method::GetOrDefault => match memory.value(&child(&arguments[0])) {
            Some(_) => memory.load(child(&arguments[0])),
            None => Ok(arguments.remove(1)),
        },
        Method::Put | Method::PutIfAbsent => {
            let before = memory.value(&child(&arguments[0])).cloned().unwrap_or_default();
            if method == Method::Put || before.is_null() {
                let key = Key::Name(arguments[0].text());
                memory.store(place, key, arguments.remove(1))?;
            }
            memory.create(before)
        }
        Method::PutAll => {
            let Value::Object(added) = memory.json(&arguments[0])? else {
                return Err(cast_failure("putAll needs a map"));
            };
            for (name, value) in added {
                memory.budget.take(1)?;
                let value = memory.create(value)?;
                memory.store(place, Key::Name(name), value)?;
            }
            Ok(Val::Null)
        }
        Method::Remove => {
            let removed = memory.remove_field(place, &arguments[0].text())?;
            memory.create(removed)
        }
        Method::Clear => {
            memory.map_mut(place)?.clear();
            Ok(Val::Null)
        }
        // An entry of `entrySet`.
        Method::GetKey | Method::GetValue => {
            let name = if method == Method::GetKey { "key" } else { "value" };
            memory.load(child(&Val::Text(name.to_owned())))
        }
        _ => {
            let fields = fields(memory, place)?;
            memory.budget.take(fields.len() as u64)?;
            match method {
                Method::Size => Ok(Val::Int(fields.len() as i64)),
                Method::IsEmpty => Ok(Val::Bool(fields.is_empty())),
                Method::ContainsValue => {
                    let wanted = memory.json(&arguments[0])?;
                    Ok(Val::Bool(fields.values().any(|value| *value == wanted)))
                }
                Method::KeySet => memory.create(fields.into_iter().map(|(name, _)| Value::from(name)).collect()),
                Method::Values => memory.create(fields.into_iter().map(|(_, value)| value).collect()),
                Method::EntrySet => {
                    let entries = fields.into_iter().map(|(name, value)| {
                        let fields = [("key".to_owned(), Value::from(name)), ("value".to_owned(), value)];
                        Value::Object(fields.into_iter().collect())
                    });
                    memory.create(entries.collect())
                }
                _ => Err(not_found("java.util.HashMap", method, arguments.len())),
            }
        }
    }
}

/// Returns a copy of the fields of a map.
fn fields(memory: &mut Memory<'_>, place: &Place) -> Result<Map<String, Value>, Failure> {
    if is_ctx(place) {
        return memory.ctx_map();
    }
    match memory.json(&Val::Place(place.clone()))? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}
