//! `_firn/discover/suggest`: completions of a query.
//!
//! The languages return the possible kinds of completion at the cursor. This module adds the fields of the source, and
//! values of events in the time range and filters of the question. Values come from searches, so a tenant sees only its
//! own.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::metadata::Metadata;
use firn_query::query::completion::{CompletionKind, Slot};
use firn_query::query::syntax_error::{byte_offset, utf16_offset};
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Map, Value, json};
use tokio::time::error::Elapsed;

use super::known_fields::{self, KnownField, KnownFields};
use super::language::{Language, TEXT_BYTES_MAX};
use super::opening::body;
use super::request::{EventSelection, number};
use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

const ITEMS_MAX: u64 = 50;
const ITEMS: u64 = 20;
/// Timeout: longer would delay typing.
const TIMEOUT: Duration = Duration::from_millis(200);
const TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// Values that are fetched and filtered by prefix if the engine cannot filter them.
const CANDIDATES: usize = 1000;
/// Maximum length of a suggested value.
const VALUE_CHARS_MAX: usize = 200;
/// Maximum length of the prefix that the search uses.
const TYPED_CHARS_MAX: usize = 64;

/// `POST /_firn/discover/suggest`.
pub(crate) async fn suggest(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut fields = Fields::new("discover request", body(&call)?);
    let (language, text) = read_query(fields.object("query")?)?;
    let cursor = fields.number("cursor")?.unwrap_or(u64::MAX);
    let cursor = byte_offset(&text, usize::try_from(cursor).unwrap_or(usize::MAX));
    let size = number(&mut fields, "size", ITEMS, 1, ITEMS_MAX)? as usize;
    let question = EventSelection::take(&mut fields, edge.now_ms())?;
    fields.finish()?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let indices = edge.resolve_names(&question.target, &metadata)?;
    let slots = language.complete(&text, cursor);
    let begin = slots.iter().map(|slot| slot.replace.start).min().unwrap_or(cursor);
    let end = slots.iter().map(|slot| slot.replace.end).max().unwrap_or(cursor);
    let mut asking = SuggestRun {
        known: known_fields::fields(&metadata, &indices),
        edge: &edge,
        ctx: &call.ctx,
        metadata: &metadata,
        indices: &indices,
        question: &question,
        language,
        size,
        partial: false,
        timed_out: false,
    };
    let mut found = Vec::new();
    for slot in &slots {
        // The text around the slot does not change.
        let (before, after) = (&text[begin..slot.replace.start], &text[slot.replace.end..end]);
        let is_glued = slot.wanted == CompletionKind::Conjunction && !ends_open(&text[..slot.replace.start]);
        let space = if is_glued { " " } else { "" };
        let mut items = asking.items(slot).await?;
        for item in &mut items {
            item.text = format!("{before}{space}{}{after}", item.text);
        }
        found.push(items);
    }
    let items = in_turn(found, size);
    let error = language.query(&text, question.time.as_ref()).err().map(|error| {
        let mut body = ApiError::from(error).body(None, false);
        body["error"].take()
    });
    Ok(Reply::ok(&json!({
        "replace": {"from": utf16_offset(&text, begin), "to": utf16_offset(&text, end)},
        "items": items.iter().map(Item::print).collect::<Vec<_>>(),
        "partial": asking.partial || asking.timed_out,
        "timed_out": asking.timed_out,
        "error": error,
    })))
}

/// Reads the query, which may be incomplete or invalid.
fn read_query(query: Option<Map<String, Value>>) -> Result<(Language, String), ApiError> {
    let mut fields = Fields::new("query", query.unwrap_or_default());
    let name = fields.string("language")?.unwrap_or_else(|| "kql".to_owned());
    let text = fields.string("text")?.unwrap_or_default();
    fields.finish()?;
    if text.len() > TEXT_BYTES_MAX {
        let reason = format!(
            "[text] of [query] may have at most [{TEXT_BYTES_MAX}] bytes, found [{}]",
            text.len()
        );
        return Err(Error::illegal_argument(reason).into());
    }
    let language = Language::of(&name).ok_or_else(|| {
        Error::illegal_argument(format!(
            "[language] of [query] must be one of [kql, lucene] to be completed, found [{name}]"
        ))
    })?;
    Ok((language, text))
}

/// Returns whether a word may begin after this text.
fn ends_open(text: &str) -> bool {
    text.is_empty() || text.ends_with(|letter: char| letter.is_whitespace() || letter == '(')
}

/// Suggestion.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    kind: &'static str,
    text: String,
    label: String,
    /// Type of a field, or number of events with a value.
    detail: Value,
}

impl Item {
    fn print(&self) -> Value {
        json!({"kind": self.kind, "text": self.text, "label": self.label, "detail": self.detail})
    }
}

/// Takes `size` items: kinds with few items are complete, kinds with many give their first items; the order of kinds
/// stays.
fn in_turn(kinds: Vec<Vec<Item>>, size: usize) -> Vec<Item> {
    let mut left = size;
    let mut counts = vec![0; kinds.len()];
    let mut by_length: Vec<usize> = (0..kinds.len()).collect();
    by_length.sort_by_key(|at| kinds[*at].len());
    for (number, at) in by_length.iter().enumerate() {
        let others = kinds.len() - number;
        counts[*at] = kinds[*at].len().min(left.div_ceil(others));
        left -= counts[*at];
    }
    let taken = kinds.into_iter().zip(counts);
    taken.flat_map(|(items, count)| items.into_iter().take(count)).collect()
}

/// Running request.
struct SuggestRun<'a> {
    edge: &'a Edge,
    ctx: &'a RequestContext,
    metadata: &'a Metadata,
    indices: &'a [String],
    known: KnownFields,
    question: &'a EventSelection,
    language: Language,
    size: usize,
    /// Some suggestions are missing, because they would have to be fetched from a repository or a shard failed.
    partial: bool,
    /// Some suggestions are missing after a timeout: a request with a longer timeout may find them.
    timed_out: bool,
}

impl SuggestRun<'_> {
    async fn items(&mut self, slot: &Slot) -> Result<Vec<Item>, ApiError> {
        match &slot.wanted {
            CompletionKind::Field => self.fields(&slot.typed).await,
            CompletionKind::Value(field) => self.values(field, &slot.typed).await,
            CompletionKind::Operator(field) => Ok(self.operators(field)),
            CompletionKind::Conjunction => Ok(self.conjunctions(&slot.typed)),
        }
    }

    fn timeout(&self) -> Duration {
        self.question.timeout.unwrap_or(TIMEOUT).min(TIMEOUT_MAX)
    }

    /// Returns the outcome. After a timeout, or if the node was too busy to start, sets the flag and returns `None`.
    fn in_time<T>(&mut self, outcome: Result<Result<T, ApiError>, Elapsed>) -> Result<Option<T>, ApiError> {
        match outcome {
            Ok(Err(ApiError::Engine(error))) if error.kind() == ErrorKind::Rejected => {}
            Ok(came) => return came.map(Some),
            Err(_) => {}
        }
        self.timed_out = true;
        Ok(None)
    }

    /// Returns field names that begin with the typed text, then those with a part that does, then those that contain
    /// it; within each group fields in use first.
    async fn fields(&mut self, typed: &str) -> Result<Vec<Item>, ApiError> {
        let asking = known_fields::in_use(self.edge, self.ctx, self.question);
        let in_use = tokio::time::timeout(self.timeout(), asking).await;
        let in_use = self.in_time(in_use)?.unwrap_or_default();
        let typed = typed.to_lowercase();
        let rank = |name: &str| {
            let name = name.to_lowercase();
            let at = name.find(&typed)?;
            let is_part = at > 0
                && name
                    .match_indices(&typed)
                    .any(|(at, _)| name[..at].ends_with(['.', '_', '-', '@']));
            Some(match (at, is_part) {
                (0, _) => 0,
                (_, true) => 1,
                _ => 2,
            })
        };
        let mut found: Vec<(u8, bool, &String, &KnownField)> = self
            .known
            .iter()
            .filter_map(|(name, field)| Some((rank(name)?, !in_use.contains(name), name, field)))
            .collect();
        found.sort_by_key(|(rank, unused, name, _)| (*rank, *unused, *name));
        let items = found.into_iter().take(self.size).map(|(_, _, name, field)| Item {
            kind: "field",
            text: self.language.write_field(name),
            label: name.clone(),
            detail: field.field_type.into(),
        });
        Ok(items.collect())
    }

    fn operators(&self, field: &str) -> Vec<Item> {
        let Some(known) = self.known.get(field) else {
            return Vec::new();
        };
        let is_ordered = !matches!(
            known.field_type,
            "keyword" | "text" | "boolean" | "flattened" | "binary" | "geo_point"
        );
        let operators = self.language.operators();
        let shown = operators.iter().filter(|(_, _, _, compares)| is_ordered || !compares);
        let items = shown.map(|(text, label, detail, _)| Item {
            kind: "operator",
            text: (*text).to_owned(),
            label: (*label).to_owned(),
            detail: (*detail).into(),
        });
        items.collect()
    }

    fn conjunctions(&self, typed: &str) -> Vec<Item> {
        let begins = |name: &&&str| name.to_lowercase().starts_with(&typed.to_lowercase());
        let shown = self.language.conjunctions().iter().filter(begins);
        let items = shown.map(|name| Item {
            kind: "conjunction",
            text: format!("{name} "),
            label: (*name).to_owned(),
            detail: Value::Null,
        });
        items.collect()
    }

    /// Returns the most frequent values that begin with the typed text, ignoring case.
    async fn values(&mut self, field: &str, typed: &str) -> Result<Vec<Item>, ApiError> {
        let Some((field, field_type)) = self.countable(field) else {
            return Ok(Vec::new());
        };
        let is_text = field_type == "keyword";
        let typed: String = typed.chars().take(TYPED_CHARS_MAX).collect();
        let Some(request) = self.values_request(&field, is_text, &typed)? else {
            return Ok(Vec::new());
        };
        let searching = search::run(self.edge, self.ctx, request, b"");
        let response = tokio::time::timeout(2 * self.timeout(), searching).await;
        let Some(response) = self.in_time(response)? else {
            return Ok(Vec::new());
        };
        self.timed_out |= response.timed_out;
        self.partial |= !response.shards.failures.is_empty();
        let begins = |value: &String| value.to_lowercase().starts_with(&typed.to_lowercase());
        let items = values_of(&response)
            .filter(|(value, _)| is_text || begins(value))
            .filter(|(value, _)| value.chars().count() <= VALUE_CHARS_MAX)
            .take(self.size)
            .map(|(value, count)| Item {
                kind: "value",
                text: match is_text || value.contains(':') {
                    true => self.language.write_value(&value),
                    false => value.clone(),
                },
                label: value,
                detail: count.into(),
            });
        Ok(items.collect())
    }

    /// Returns the field, or for a text field its keyword subfield, with its type.
    fn countable(&self, field: &str) -> Option<(String, &'static str)> {
        let is_listed = |known: &&KnownField| known.aggregatable && !known.field_type.starts_with("date");
        [field.to_owned(), known_fields::keyword_of(field)]
            .into_iter()
            .find_map(|name| {
                let known = self.known.get(&name).filter(is_listed)?;
                Some((name, known.field_type))
            })
    }

    /// Builds a search of local data only, so that typing never causes fetches from a repository.
    fn values_request(&mut self, field: &str, is_text: bool, typed: &str) -> Result<Option<SearchRequest>, ApiError> {
        let at_hand = |name: &&String| {
            let index = self.metadata.indices.get(name);
            index.is_some_and(|index| !index.settings.is_mounted())
        };
        let names: Vec<&String> = self.indices.iter().filter(at_hand).collect();
        if names.is_empty() {
            self.partial |= !self.indices.is_empty();
            return Ok(None);
        }
        let mut query = self.question.query_dsl.clone();
        if names.len() < self.indices.len() {
            self.partial = true;
            query = json!({"bool": {"filter": [query, {"terms": {"_index": names}}]}});
        }
        let body = values_body(field, is_text, typed, self.size);
        let mut request = self.question.search_for(query, body)?;
        request.timeout = Some(self.timeout());
        Ok(Some(request))
    }
}

fn values_body(field: &str, is_text: bool, typed: &str, size: usize) -> Value {
    // Some of them may be too long.
    let size = if is_text { 2 * size } else { CANDIDATES };
    let mut terms = json!({"field": field, "size": size});
    if is_text && !typed.is_empty() {
        terms["include"] = beginning(typed).into();
    }
    json!({"size": 0, "track_total_hits": false, "aggs": {"values": {"terms": terms}}})
}

/// Returns the regular expression for texts with this prefix, ignoring case.
fn beginning(typed: &str) -> String {
    let mut pattern = String::new();
    for letter in typed.chars() {
        let cases = [letter.to_lowercase().to_string(), letter.to_uppercase().to_string()];
        match &cases {
            [lower, upper] if lower == upper && letter.is_alphanumeric() => pattern.push(letter),
            [lower, upper] if lower != upper && lower.chars().count() == 1 && upper.chars().count() == 1 => {
                pattern.push_str(&format!("[{lower}{upper}]"));
            }
            _ if letter.is_alphanumeric() => pattern.push(letter),
            _ if letter == '*' => pattern.push_str(".*"),
            _ if letter.is_ascii() => pattern.extend(['\\', letter]),
            _ => pattern.push(letter),
        }
    }
    pattern.push_str(".*");
    pattern
}

/// Returns values with their number of events.
fn values_of(response: &SearchResponse) -> impl Iterator<Item = (String, u64)> {
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let buckets = aggregations["values"]["buckets"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    buckets.into_iter().map(|bucket| {
        let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
        let text = shown.as_str().map_or_else(|| shown.to_string(), str::to_owned);
        (text, bucket["doc_count"].as_u64().unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_looked_for_in_either_case() {
        assert_eq!(beginning("aB1-"), r"[aA][bB]1\-.*");
        assert_eq!(beginning("é😀ß"), "[éÉ]😀ß.*");
        assert_eq!(beginning("a*.[\n"), "[aA].*\\.\\[\\\n.*");
    }

    #[test]
    fn few_of_a_kind_are_not_crowded_out() {
        let items = |kind: &'static str, count: usize| {
            let item = Item {
                kind,
                text: String::new(),
                label: String::new(),
                detail: Value::Null,
            };
            vec![item; count]
        };
        let kinds = |items: &[Item]| items.iter().map(|item| item.kind).collect::<Vec<_>>();
        let shown = in_turn(vec![items("v", 10), items("c", 2)], 5);
        assert_eq!(kinds(&shown), ["v", "v", "v", "c", "c"]);
        let shown = in_turn(vec![items("v", 10), items("c", 2), items("f", 20)], 12);
        assert_eq!(
            kinds(&shown),
            ["v", "v", "v", "v", "v", "c", "c", "f", "f", "f", "f", "f"]
        );
        assert_eq!(in_turn(Vec::new(), 5), []);
    }

    #[test]
    fn words_are_parted_by_a_space() {
        assert!(ends_open("") && ends_open("a ") && ends_open("(") && !ends_open("a") && !ends_open("\"x\""));
    }
}
