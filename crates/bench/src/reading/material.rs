//! Values for the queries, taken from the events.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, bail};
use serde_json::Value;

use super::super::core::CoreArgs;
use super::super::events::Events;
use super::fields::{Role, Roles, TIME};

/// Maximum of sampled events. Sampling is even over the whole run.
const SAMPLES_MAX: usize = 20_000;
/// A value in at most this many events is a needle.
const NEEDLE_EVENTS_MAX: u32 = 3;
/// Shorter words occur in too many events for a query.
const WORD_LETTERS_MIN: usize = 4;

/// Values for queries.
pub(super) struct Material {
    /// First and last timestamp, ms.
    pub(super) time_ms: (i64, i64),
    /// By event: values are as frequent as in the events.
    pub(super) tenants: Vec<String>,
    /// The half of the tenants with the fewest events, each once.
    pub(super) small_tenants: Vec<String>,
    /// Rare values of the field with many values.
    pub(super) needles: Vec<String>,
    pub(super) codes: Vec<String>,
    pub(super) numbers: Vec<i64>,
    /// Words of one event each.
    pub(super) texts: Vec<Vec<String>>,
    /// The word that most events have.
    pub(super) common_word: String,
}

/// Reads all events once.
pub(super) fn collect(args: &CoreArgs, roles: &Roles) -> anyhow::Result<Material> {
    let mut events = Events::open(args)?;
    let mut material = Material {
        time_ms: (i64::MAX, i64::MIN),
        tenants: Vec::new(),
        small_tenants: Vec::new(),
        needles: Vec::new(),
        codes: Vec::new(),
        numbers: Vec::new(),
        texts: Vec::new(),
        common_word: String::new(),
    };
    // By hash: with a value of each event alone, the values would not fit into memory.
    let hashes = RandomState::new();
    let mut many: HashMap<u64, u32> = HashMap::new();
    let mut candidates = Vec::new();
    // Every `step`-th event is sampled; when there are too many, every other one is dropped.
    let (mut step, mut line) = (1u64, Vec::new());
    for number in 0u64.. {
        line.clear();
        if !events.next(&mut line)? {
            break;
        }
        let event: Value = serde_json::from_slice(&line).context("an event is not JSON")?;
        if let Some(time) = event.get(TIME).and_then(Value::as_str)
            && let Ok(time) = time.parse::<jiff::Timestamp>()
        {
            let ms = time.as_millisecond();
            material.time_ms = (material.time_ms.0.min(ms), material.time_ms.1.max(ms));
        }
        let name = text(&event, &roles.many);
        if let Some(name) = &name {
            *many.entry(hashes.hash_one(name)).or_default() += 1;
        }
        if !number.is_multiple_of(step) {
            continue;
        }
        candidates.extend(name);
        material.tenants.extend(text(&event, &roles.tenant));
        material.codes.extend(text(&event, &roles.code));
        material
            .numbers
            .extend(value(&event, &roles.number).and_then(Value::as_i64));
        material
            .texts
            .extend(text(&event, &roles.text).map(|text| words(&text)));
        if material.tenants.len().max(candidates.len()) >= SAMPLES_MAX {
            step *= 2;
            halve(&mut candidates);
            halve(&mut material.tenants);
            halve(&mut material.codes);
            halve(&mut material.numbers);
            halve(&mut material.texts);
        }
    }
    material.needles = candidates
        .into_iter()
        .filter(|name| {
            many.get(&hashes.hash_one(name))
                .is_some_and(|count| *count <= NEEDLE_EVENTS_MAX)
        })
        .collect();
    material.codes.retain(|code| code.chars().count() >= 4);
    material.texts.retain(|words| words.len() >= 2);
    material.small_tenants = rare_half(&material.tenants);
    material.common_word = most_frequent(&material.texts);
    if material.needles.is_empty() {
        bail!("no value of [{}] is rare", roles.many.field);
    }
    if material.codes.is_empty() || material.texts.is_empty() || material.numbers.is_empty() {
        bail!("the events have too few values for the queries");
    }
    Ok(material)
}

fn halve<T>(list: &mut Vec<T>) {
    let mut keep = false;
    list.retain(|_| {
        keep = !keep;
        keep
    });
}

/// Returns the distinct values that occur least, at least one of any.
fn rare_half(values: &[String]) -> Vec<String> {
    let mut counts: HashMap<&String, u32> = HashMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(u32, &String)> = counts.into_iter().map(|(value, count)| (count, value)).collect();
    counts.sort_unstable();
    let half = counts.len().div_ceil(2);
    counts.into_iter().take(half).map(|(_, value)| value.clone()).collect()
}

/// Returns the word that most of the texts have.
fn most_frequent(texts: &[Vec<String>]) -> String {
    let mut counts: HashMap<&String, u32> = HashMap::new();
    for word in texts.iter().flatten() {
        *counts.entry(word).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(word, count)| (*count, std::cmp::Reverse(*word)));
    most.map(|(word, _)| word.clone()).unwrap_or_default()
}

fn value<'a>(event: &'a Value, role: &Role) -> Option<&'a Value> {
    let mut inner = event;
    if let Some(value) = event.get(&role.path) {
        return Some(value);
    }
    for name in role.path.split('.') {
        inner = inner.get(name)?;
    }
    Some(inner)
}

fn text(event: &Value, role: &Role) -> Option<String> {
    match value(event, role)? {
        Value::String(text) => Some(text.clone()),
        number @ Value::Number(_) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns words of letters only: servers differ in how they split the rest.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| c.is_whitespace())
        .filter(|word| word.len() >= WORD_LETTERS_MIN && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
        .map(str::to_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_by_path() {
        let role = |path: &str| Role {
            field: format!("{path}.keyword"),
            path: path.to_owned(),
        };
        let event = json!({"a": {"b": "x"}, "c.d": 7});
        assert_eq!(text(&event, &role("a.b")).as_deref(), Some("x"));
        assert_eq!(text(&event, &role("c.d")).as_deref(), Some("7"));
        assert_eq!(text(&event, &role("a")), None);
        assert_eq!(words("The User x1 logged on, user"), ["logged", "user"]);
    }

    #[test]
    fn rare_tenants_and_frequent_words_are_found() {
        let list = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        assert_eq!(rare_half(&list(&["a", "a", "a", "b", "c", "c"])), ["b", "c"]);
        assert_eq!(rare_half(&list(&["a"])), ["a"]);
        let texts = [
            list(&["down", "link"]),
            list(&["link", "open"]),
            list(&["open"]),
            list(&["link"]),
        ];
        assert_eq!(most_frequent(&texts), "link");
    }
}
