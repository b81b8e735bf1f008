//! Hints for a typed query with unknown field names: the nearest name, and the corrected query.
//!
//! The comparison uses only fields that the caller may see. A query is valid with any field name, so a misspelled field
//! causes no error and matches nothing: without a hint that looks like a quiet night.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use serde_json::{Value, json};

use super::known_fields::{KnownFields, is_object};
use super::language::Typed;

/// Maximum unknown fields in the hints for one query.
const HINTS_MAX: usize = 5;
/// Longer names are not compared: the effort grows with the product of both lengths.
const NAME_CHARS_MAX: usize = 100;

/// Field of the query that no index has.
#[derive(Debug, PartialEq)]
struct UnknownField {
    name: String,
    /// Nearest field name; `None`: none is near.
    suggestion: Option<String>,
    /// Query with the suggestion in place of the field.
    corrected: Option<String>,
}

/// Builds the event about unknown fields; `None`: all fields are known. `in_use` returns the fields with values, which
/// win over equally near names; it is called only if a field is unknown.
pub(super) async fn print<'a, DiscoverRequest>(
    typed: &Typed,
    known: &KnownFields,
    in_use: impl Fn() -> DiscoverRequest,
) -> Option<Bytes>
where
    DiscoverRequest: Future<Output = Option<&'a BTreeSet<String>>>,
{
    let unknown = unknown_names(typed, known);
    if unknown.is_empty() {
        return None;
    }
    let in_use = in_use().await;
    let unknown = unknown.into_iter().take(HINTS_MAX);
    let hints = unknown.map(|(name, places)| hint(typed, name, &places, known, in_use));
    let hints: Vec<Value> = hints
        .map(|hint| json!({"field": hint.name, "suggestion": hint.suggestion, "corrected": hint.corrected}))
        .collect();
    Some(json!({"event": "hints", "unknown_fields": hints}).to_string().into())
}

/// Returns the unknown names in the query in order of their first position, with all positions.
fn unknown_names(typed: &Typed, known: &KnownFields) -> Vec<(String, Vec<Range<usize>>)> {
    // An index without fields cannot prove a name wrong.
    if known.is_empty() {
        return Vec::new();
    }
    let mut places: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
    for (at, name) in typed.language.field_names(&typed.text) {
        places.entry(name).or_default().push(at);
    }
    let mut unknown: Vec<_> = places.into_iter().filter(|(name, _)| !exists(name, known)).collect();
    unknown.sort_by_key(|(_, places)| places[0].start);
    unknown
}

/// Returns whether a name is a field, an object of fields, a key of a flattened field, or a metadata field.
fn exists(name: &str, known: &KnownFields) -> bool {
    let is_key = || {
        let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
        let mut above = dots.filter_map(|path| known.get(path));
        above.any(|field| field.field_type == "flattened")
    };
    name.starts_with('_') || known.contains_key(name) || is_object(known, name) || is_key()
}

fn hint(
    typed: &Typed,
    name: String,
    places: &[Range<usize>],
    known: &KnownFields,
    in_use: Option<&BTreeSet<String>>,
) -> UnknownField {
    let suggestion = nearest(&name, known, in_use).map(str::to_owned);
    let corrected = suggestion.as_ref().map(|suggestion| {
        let written = typed.language.write_field(suggestion);
        let mut text = typed.text.clone();
        for at in places.iter().rev() {
            text.replace_range(at.clone(), &written);
        }
        text
    });
    UnknownField {
        name,
        suggestion,
        corrected,
    }
}

/// Returns the field with the fewest edits to its name or to the end of its path: `status` for `stauts`,
/// `http.status_code` for `status_code`.
fn nearest<'a>(name: &str, known: &'a KnownFields, in_use: Option<&BTreeSet<String>>) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    if wanted.len() > NAME_CHARS_MAX {
        return None;
    }
    let edits_max = match wanted.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let parts = name.split('.').count();
    let cost = |candidate: &str| {
        let lower = candidate.to_lowercase();
        let whole = edits(&wanted, &lower, edits_max).map(|edits| 2 * edits);
        let end = ending(&lower, parts).and_then(|end| edits(&wanted, end, edits_max));
        // A match of the whole name wins over a match of its end.
        whole.into_iter().chain(end.map(|edits| 2 * edits + 1)).min()
    };
    let candidates = known
        .keys()
        .filter_map(|candidate| Some((cost(candidate)?, candidate.as_str())));
    let is_unused = |candidate: &str| in_use.is_some_and(|in_use| !in_use.contains(candidate));
    let best = candidates.min_by_key(|(cost, candidate)| (*cost, is_unused(candidate), candidate.len(), *candidate));
    best.map(|(_, candidate)| candidate)
}

/// Returns the last `parts` parts of a path that has more of them.
fn ending(path: &str, parts: usize) -> Option<&str> {
    let (dot, _) = path.rmatch_indices('.').nth(parts - 1)?;
    Some(&path[dot + 1..])
}

/// Returns the number of added, missing, replaced or swapped letters (optimal string alignment); `None`: more than
/// `edits_max`.
fn edits(wanted: &[char], candidate: &str, edits_max: usize) -> Option<usize> {
    let candidate: Vec<char> = candidate.chars().take(NAME_CHARS_MAX + 1).collect();
    if candidate.len() > NAME_CHARS_MAX || wanted.len().abs_diff(candidate.len()) > edits_max {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (row, letter) in wanted.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in candidate.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut least = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let is_swapped = row > 0 && column > 0 && wanted[row - 1] == *other && *letter == candidate[column - 1];
            if is_swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().filter(|edits| *edits <= edits_max)
}

#[cfg(test)]
mod tests {
    use super::super::known_fields::KnownField;
    use super::super::language::Language;
    use super::*;

    fn known(names: &[&str]) -> KnownFields {
        let field = |name: &&str| {
            let field_type = if *name == "labels" { "flattened" } else { "keyword" };
            let field = KnownField {
                field_type,
                aggregatable: true,
            };
            ((*name).to_owned(), field)
        };
        names.iter().map(field).collect()
    }

    #[track_caller]
    fn check(language: Language, text: &str, expect: &[(&str, Option<&str>, Option<&str>)]) {
        let known = known(&[
            "status",
            "state",
            "severity",
            "host.name",
            "http.response.status_code",
            "labels",
            "a b",
            "ip",
            "message",
            "message.keyword",
        ]);
        let typed = Typed {
            language,
            text: text.to_owned(),
        };
        let found: Vec<UnknownField> = unknown_names(&typed, &known)
            .into_iter()
            .map(|(name, places)| hint(&typed, name, &places, &known, None))
            .collect();
        let shown: Vec<_> = found
            .iter()
            .map(|hint| {
                (
                    hint.name.as_str(),
                    hint.suggestion.as_deref(),
                    hint.corrected.as_deref(),
                )
            })
            .collect();
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn the_nearest_name_is_suggested_and_put_in() {
        use Language::{Kql, Lucene};
        check(Kql, "stauts: 500", &[("stauts", Some("status"), Some("status: 500"))]);
        check(Lucene, "stauts:500", &[("stauts", Some("status"), Some("status:500"))]);
        check(
            Lucene,
            "_exists_:stauts",
            &[("stauts", Some("status"), Some("_exists_:status"))],
        );
        check(
            Kql,
            "Severity: é and (stauts > 1 or stauts < 2)",
            &[
                (
                    "Severity",
                    Some("severity"),
                    Some("severity: é and (stauts > 1 or stauts < 2)"),
                ),
                (
                    "stauts",
                    Some("status"),
                    Some("Severity: é and (status > 1 or status < 2)"),
                ),
            ],
        );
        // End of a path, also misspelled.
        check(
            Kql,
            "status_code: 1",
            &[(
                "status_code",
                Some("http.response.status_code"),
                Some("http.response.status_code: 1"),
            )],
        );
        check(
            Kql,
            "response.sttus_code: 1",
            &[(
                "response.sttus_code",
                Some("http.response.status_code"),
                Some("http.response.status_code: 1"),
            )],
        );
        check(Kql, "mesage: x", &[("mesage", Some("message"), Some("message: x"))]);
        // Escaped as the language requires.
        check(Kql, "\"a bb\": x", &[("a bb", Some("a b"), Some(r"a\u0020b: x"))]);
        check(Lucene, r"a\ bb:x", &[("a bb", Some("a b"), Some(r"a\ b:x"))]);
    }

    #[test]
    fn what_exists_has_no_hint_and_what_is_far_from_all_no_suggestion() {
        use Language::{Kql, Lucene};
        check(
            Kql,
            "status: 1 and host: * and labels.any: x and _id: 1 and st*: 2",
            &[],
        );
        check(Kql, "only words", &[]);
        check(Lucene, "status:1 AND _exists_:message.keyword", &[]);
        check(Kql, "elsewhere: 1", &[("elsewhere", None, None)]);
        check(Kql, "io: 1", &[("io", None, None)]);
        let long = format!("{}: 1", "s".repeat(200));
        check(Kql, &long, &[(&long[..200], None, None)]);
    }

    #[test]
    fn of_names_that_are_equally_near_one_in_use_is_suggested() {
        let known = known(&["stats", "statu"]);
        let used = BTreeSet::from(["statu".to_owned()]);
        assert_eq!(nearest("stat", &known, None), Some("stats"));
        assert_eq!(nearest("stat", &known, Some(&used)), Some("statu"));
    }

    #[test]
    fn edits_are_counted() {
        let count = |one: &str, other: &str| edits(&one.chars().collect::<Vec<_>>(), other, 3);
        assert_eq!(count("stauts", "status"), Some(1));
        assert_eq!(count("abc", "abc"), Some(0));
        assert_eq!(count("abc", "abcdef"), Some(3));
        assert_eq!(count("abc", "xyz"), Some(3));
        assert_eq!(count("abcd", "wxyz"), None);
        assert_eq!(count("", "ab"), Some(2));
    }
}
