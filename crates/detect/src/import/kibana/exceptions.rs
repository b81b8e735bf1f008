//! Lists of exceptions, which follow the rules in an export.

use std::collections::BTreeMap;

use firn_model::dates::DateFormat;
use serde_json::{Map, Value, json};

use super::filters::Clauses;
use super::members::{objects, text, texts};
use crate::definition::{BYTES_MAX, LIST_MAX};
use crate::import::{NotTaken, UnusedPart};
use crate::query::is_text;

/// Member of a rule.
const MEMBER: &str = "exceptions_list";
/// Most exceptions of a rule that are named because they are not taken.
const NAMED_MAX: usize = 100;

/// Exceptions of all lists.
#[derive(Debug, Default)]
pub(crate) struct ExceptionLists {
    /// By id and namespace.
    by_key: BTreeMap<(String, String), List>,
}

#[derive(Debug, Default)]
struct List {
    /// Line of the list, or of its first exception.
    line: usize,
    name: String,
    items: Vec<Item>,
    /// A rule refers to it.
    is_used: bool,
}

#[derive(Debug)]
struct Item {
    /// Id for readers.
    id: String,
    /// Exception of a definition, with its bytes, or why it is not taken.
    exception: Result<(Value, usize), String>,
}

impl ExceptionLists {
    /// Adds a list.
    pub(crate) fn add_list(&mut self, line: usize, list: &Map<String, Value>) {
        let entry = self.list_of(line, list);
        entry.line = line;
        entry.name = word(list, "name").to_owned();
    }

    /// Adds an exception to its list. `now_ms`: present time, ms since the epoch.
    pub(crate) fn add_item(&mut self, line: usize, item: &Map<String, Value>, now_ms: i64) {
        let id = Some(word(item, "item_id")).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| word(item, "name")).to_owned();
        let expires = Some(word(item, "expire_time")).filter(|time| !time.is_empty());
        let exception = match expires.map(|time| (time, DateFormat::default_millis().parse_ms(time))) {
            Some((time, Ok(end_ms))) if end_ms <= now_ms => Err(format!("its time was over at [{time}]")),
            Some((time, Err(_))) => Err(format!("[expire_time] is no time: [{time}]")),
            end => exception(item).map(|mut exception| {
                if let Some((time, _)) = end {
                    exception["expires"] = time.into();
                }
                let bytes = exception.to_string().len();
                (exception, bytes)
            }),
        };
        self.list_of(line, item).items.push(Item { id, exception });
    }

    fn list_of(&mut self, line: usize, part: &Map<String, Value>) -> &mut List {
        self.by_key.entry(key(part)).or_insert_with(|| List {
            line,
            ..List::default()
        })
    }

    /// Returns the exceptions of a rule as its definition has them, and adds what of them is not taken.
    pub(super) fn of_rule(
        &mut self,
        rule: &Map<String, Value>,
        not_taken: &mut Vec<NotTaken>,
    ) -> Result<Vec<Value>, String> {
        let mut named = 0;
        let mut skip = |list: &str, item: &str, reason: &str| {
            named += 1;
            if named <= NAMED_MAX {
                let of_item = if item.is_empty() {
                    String::new()
                } else {
                    format!(", exception [{item}]")
                };
                not_taken.push(NotTaken::new(MEMBER, format!("list [{list}]{of_item}: {reason}")));
            }
        };
        let mut taken: Vec<&Value> = Vec::new();
        let mut bytes = 0;
        let mut used = Vec::new();
        for reference in objects(rule, MEMBER)? {
            let key = key(reference);
            match self.by_key.get(&key) {
                None => skip(&key.0, "", "the text does not have this list"),
                Some(list) => {
                    for item in &list.items {
                        match &item.exception {
                            Ok((exception, length)) => {
                                taken.push(exception);
                                bytes += length;
                            }
                            Err(reason) => skip(&key.0, &item.id, reason),
                        }
                    }
                    used.push(key);
                }
            }
        }
        // Before they are copied: many rules may share a long list.
        if bytes > BYTES_MAX {
            return Err(format!("the exceptions of the rule have more than [{BYTES_MAX}] bytes"));
        }
        let exceptions = put_together(&taken)?;
        if named > NAMED_MAX {
            not_taken.push(NotTaken::new(MEMBER, format!("and {} more", named - NAMED_MAX)));
        }
        for key in used {
            if let Some(list) = self.by_key.get_mut(&key) {
                list.is_used = true;
            }
        }
        Ok(exceptions)
    }

    /// Returns the lists that no rule refers to.
    pub(crate) fn unused(self) -> impl Iterator<Item = UnusedPart> {
        let unused = self.by_key.into_iter().filter(|(_, list)| !list.is_used);
        unused.map(|((id, _), list)| UnusedPart {
            line: list.line,
            id,
            name: list.name,
            not_taken: NotTaken::new(
                "exception list",
                format!("no rule of the text refers to it; exceptions: {}", list.items.len()),
            ),
        })
    }
}

/// Returns the id and the namespace of a list, of an exception in it, or of a reference to it.
fn key(part: &Map<String, Value>) -> (String, String) {
    let namespace = Some(word(part, "namespace_type")).filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or("single");
    (word(part, "list_id").to_owned(), namespace.to_owned())
}

fn word<'r>(part: &'r Map<String, Value>, name: &str) -> &'r str {
    part.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the exceptions, several of them that end at the same time as one if a definition cannot have so many.
fn put_together(exceptions: &[&Value]) -> Result<Vec<Value>, String> {
    if exceptions.len() <= LIST_MAX {
        return Ok(exceptions.iter().map(|exception| (*exception).clone()).collect());
    }
    let mut by_end: BTreeMap<Option<&str>, Vec<&Value>> = BTreeMap::new();
    for exception in exceptions {
        let end = exception.get("expires").and_then(Value::as_str);
        by_end.entry(end).or_default().push(exception);
    }
    if by_end.len() > LIST_MAX {
        return Err(format!(
            "the exceptions of the rule end at [{}] times; [{LIST_MAX}] are allowed",
            by_end.len()
        ));
    }
    let groups = |size: usize| by_end.values().map(|group| group.len().div_ceil(size)).sum::<usize>();
    let size = (1..exceptions.len()).find(|size| groups(*size) <= LIST_MAX);
    let size = size.unwrap_or(exceptions.len());
    let groups = by_end
        .iter()
        .flat_map(|(end, group)| group.chunks(size).map(move |group| (end, group)));
    let groups = groups.map(|(end, group)| {
        let queries: Vec<&Value> = group.iter().map(|exception| &exception["query"]).collect();
        let name = format!("{} exceptions", group.len());
        let mut exception = json!({"name": name, "query": {"bool": {"should": queries}}});
        if let Some(end) = end {
            exception["expires"] = (*end).into();
        }
        exception
    });
    Ok(groups.collect())
}

/// Returns an exception of a definition.
fn exception(item: &Map<String, Value>) -> Result<Value, String> {
    let mut clauses = Clauses::default();
    let entries = objects(item, "entries")?;
    if entries.is_empty() {
        return Err("it has no entries".to_owned());
    }
    for entry in entries {
        let (is_negated, query) = query_of(entry, "")?;
        clauses.push(is_negated, query);
    }
    let systems = texts(item, "os_types")?;
    if !systems.is_empty() {
        clauses.push(false, json!({"terms": {"host.os.type": systems}}));
    }
    let mut exception = Map::new();
    let name = Some(word(item, "name")).filter(|name| !name.is_empty());
    exception.insert("name".to_owned(), name.unwrap_or_else(|| word(item, "item_id")).into());
    exception.insert("query".to_owned(), clauses.query());
    Ok(exception.into())
}

/// Returns whether an entry is negated, and its query. `parent` is the path of the objects that it is in, with a dot at its end.
fn query_of(entry: &Map<String, Value>, parent: &str) -> Result<(bool, Value), String> {
    let field = text(entry, "field")?.ok_or("an entry has no [field]")?;
    let field = format!("{parent}{field}");
    let is_negated = match text(entry, "operator")? {
        None | Some("included") => false,
        Some("excluded") => true,
        Some(other) => return Err(format!("the operator [{other}] of [{field}] is not known")),
    };
    let value = || entry.get("value").unwrap_or(&Value::Null);
    let query = match text(entry, "type")?.unwrap_or_default() {
        "match" => equals(&field, value())?,
        "match_any" => {
            let values = value().as_array().filter(|values| !values.is_empty());
            let values = values.ok_or_else(|| format!("[match_any] of [{field}] has no list of values"))?;
            match is_text(Some(&field)) {
                // Words of a text; `terms` would compare the whole text.
                true => {
                    let queries = values.iter().map(|value| equals(&field, value));
                    json!({"bool": {"should": queries.collect::<Result<Vec<_>, _>>()?}})
                }
                false => {
                    values.iter().try_for_each(|value| equals(&field, value).map(drop))?;
                    json!({"terms": { field: values }})
                }
            }
        }
        "exists" => json!({"exists": {"field": field}}),
        "wildcard" => {
            let pattern = value().as_str();
            let pattern = pattern.ok_or_else(|| format!("[wildcard] of [{field}] has no text"))?;
            json!({"wildcard": { field: pattern }})
        }
        "nested" if parent.is_empty() => match objects(entry, "entries")?[..] {
            // One condition on an object of a list is the same as one on all of their values.
            [inner] => {
                let (is_inner_negated, query) = query_of(inner, &format!("{field}."))?;
                if is_inner_negated {
                    return Err(format!(
                        "[excluded] inside of the objects of [{field}] cannot be told from their values"
                    ));
                }
                return Ok((is_negated, query));
            }
            _ => {
                return Err(format!(
                    "[nested] of [{field}] has several entries about the same object, which rules do not see"
                ));
            }
        },
        "list" => {
            return Err(format!(
                "[list] of [{field}] needs a value list, which the text does not have"
            ));
        }
        other => return Err(format!("entries of the type [{other}] are not known")),
    };
    Ok((is_negated, query))
}

fn equals(field: &str, value: &Value) -> Result<Value, String> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(json!({"match_phrase": { field: value }})),
        _ => Err(format!("an entry of [{field}] has no value")),
    }
}
