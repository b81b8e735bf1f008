//! Query matching: one function per query type, according to Elasticsearch's reference.

use serde_json::Value as Json;

use super::dates;
use super::query_string;
use super::schema::{self, Document, Kind, Value, scalar_text};
use super::text;

/// Returns whether `document` matches `query`.
pub(crate) fn matches(query: &Json, document: &Document) -> bool {
    let (name, body) = only(query);
    match name {
        "match_all" => true,
        "match_none" => false,
        "term" => {
            let (field, body) = only_field(body);
            term(field, value_of(body, "value"), flag(body, "case_insensitive"), document)
        }
        "terms" => {
            let (field, values) = only_field(body);
            let values = values.as_array().expect("values");
            values.iter().any(|value| term(field, value, false, document))
        }
        "range" => {
            let (field, body) = only_field(body);
            range(field, body, document)
        }
        "exists" => exists(body["field"].as_str().expect("a field"), document),
        "ids" => body["values"]
            .as_array()
            .expect("values")
            .iter()
            .any(|id| id.as_str() == Some(&document.id)),
        "prefix" => {
            let (field, body) = only_field(body);
            let prefix = regex::escape(value_of(body, "value").as_str().expect("a prefix"));
            pattern(field, &format!("{prefix}.*"), flag(body, "case_insensitive"), document)
        }
        "wildcard" => {
            let (field, body) = only_field(body);
            let glob = value_of(body, "value").as_str().expect("a pattern");
            any_string(field, document, |value| {
                text::wildcard(&normal(field, glob), flag(body, "case_insensitive")).is_match(value)
            })
        }
        "regexp" => {
            let (field, body) = only_field(body);
            let regex = value_of(body, "value").as_str().expect("a pattern");
            pattern(field, regex, flag(body, "case_insensitive"), document)
        }
        "fuzzy" => {
            let (field, body) = only_field(body);
            fuzzy(field, body, document)
        }
        "match" => {
            let (field, body) = only_field(body);
            match_words(field, body, document)
        }
        "match_phrase" | "match_phrase_prefix" => {
            let (field, body) = only_field(body);
            let phrase = scalar_text(value_of(body, "query")).expect("a text");
            let slop = body["slop"].as_i64().unwrap_or(0);
            if name == "match_phrase" {
                match_phrase(field, &phrase, slop, document)
            } else {
                phrase_prefix(field, &phrase, slop, document)
            }
        }
        "match_bool_prefix" => {
            let (field, body) = only_field(body);
            bool_prefix(field, body, document)
        }
        "multi_match" => multi_match(body, document),
        "bool" => bool_query(body, document),
        "constant_score" => matches(&body["filter"], document),
        "dis_max" => list(&body["queries"]).iter().any(|query| matches(query, document)),
        "boosting" => matches(&body["positive"], document),
        "query_string" => query_string::matches(body, document),
        "simple_query_string" => query_string::simple(body, document),
        _ => panic!("the reference has no query [{name}]"),
    }
}

/// Returns the only entry of an object.
pub(crate) fn only(object: &Json) -> (&str, &Json) {
    let mut entries = object.as_object().expect("an object").iter();
    let (name, value) = entries.next().expect("an entry");
    assert!(entries.next().is_none(), "more than one entry: {object}");
    (name, value)
}

/// Returns the field of a query, ignoring `boost` and `_name`.
fn only_field(object: &Json) -> (&str, &Json) {
    let entries = object.as_object().expect("an object").iter();
    let mut fields = entries.filter(|(name, _)| !matches!(name.as_str(), "boost" | "_name"));
    let (name, value) = fields.next().expect("a field");
    (name, value)
}

/// Returns `key` of the long form, or the short form itself.
fn value_of<'j>(body: &'j Json, key: &str) -> &'j Json {
    match body {
        Json::Object(_) => &body[key],
        short => short,
    }
}

fn flag(body: &Json, key: &str) -> bool {
    body.get(key).and_then(Json::as_bool).unwrap_or(false)
}

/// Returns one query or a list of queries as a list.
fn list(value: &Json) -> Vec<&Json> {
    match value {
        Json::Null => Vec::new(),
        Json::Array(values) => values.iter().collect(),
        one => vec![one],
    }
}

/// Matches `term`.
pub(crate) fn term(field: &str, value: &Json, ignore_case: bool, document: &Document) -> bool {
    let text = scalar_text(value).expect("a scalar");
    if field == "_id" {
        return document.id == text;
    }
    if !schema::is_field(field) {
        return false;
    }
    let kind = schema::kind(field);
    let values = document.values(field);
    let misfit = || match_phrase(field, &text, 0, document);
    match kind {
        Kind::Text => any_string(field, document, |word| equal(word, &text, ignore_case)),
        Kind::Keyword | Kind::Lower | Kind::Wildcard | Kind::Constant(_) => {
            let text = normal(field, &text);
            any_string(field, document, |value| equal(value, &text, ignore_case))
        }
        Kind::Ip => match (schema::address(&text), schema::block(&text)) {
            (Some(bits), _) => values.contains(&Value::Ip(bits)),
            (None, Some((first, last))) => values
                .iter()
                .any(|value| matches!(value, Value::Ip(bits) if (first..=last).contains(bits))),
            (None, None) => misfit(),
        },
        Kind::Date | Kind::DateNanos => {
            let zone = dates::zone("UTC");
            let bounds = (dates::parse(&text, false, &zone), dates::parse(&text, true, &zone));
            let (Some(first), Some(last)) = bounds else {
                return misfit();
            };
            within(
                values,
                Some((&kind.of_ns(first), true)),
                Some((&kind.of_ns(last), true)),
            )
        }
        Kind::Boolean => match (value, text.as_str()) {
            (Json::Number(_), _) => misfit(),
            (_, "true") => values.contains(&Value::Int(1)),
            (_, "false" | "") => values.contains(&Value::Int(0)),
            _ => misfit(),
        },
        Kind::Integer(..) => match text.trim().parse::<i128>() {
            Ok(number) => values.contains(&Value::Int(number)),
            Err(_) => match schema::parse_float(&text) {
                Some(float) if float.fract() == 0.0 => values.contains(&Value::Int(float as i128)),
                Some(_) => false,
                None => misfit(),
            },
        },
        Kind::Double | Kind::Float | Kind::Scaled(_) => match kind.coerce(value) {
            Some(value) => values.contains(&value),
            None => misfit(),
        },
    }
}

fn equal(left: &str, right: &str, ignore_case: bool) -> bool {
    match ignore_case {
        true => left.to_lowercase() == right.to_lowercase(),
        false => left == right,
    }
}

/// Normalizes a text with the field's normalizer.
pub(crate) fn normal(field: &str, text: &str) -> String {
    match schema::kind(field) {
        Kind::Lower => text.to_lowercase(),
        _ => text.to_owned(),
    }
}

/// Returns whether any string of a field, or any word of a text, satisfies `wanted`.
pub(crate) fn any_string(field: &str, document: &Document, wanted: impl Fn(&str) -> bool) -> bool {
    if !schema::is_field(field) {
        return false;
    }
    match schema::kind(field) {
        Kind::Text => {
            let values = document.words.get(field);
            values.is_some_and(|values| values.iter().flatten().any(|word| wanted(word)))
        }
        _ => document
            .values(field)
            .iter()
            .any(|value| matches!(value, Value::Text(text) if wanted(text))),
    }
}

fn pattern(field: &str, regex: &str, ignore_case: bool, document: &Document) -> bool {
    let regex = text::whole(&normal(field, regex), ignore_case);
    any_string(field, document, |value| regex.is_match(value))
}

/// Returns whether any value lies between two bounds, each with a flag whether it is inclusive.
pub(crate) fn within(values: &[Value], lower: Option<(&Value, bool)>, upper: Option<(&Value, bool)>) -> bool {
    values.iter().any(|value| {
        let above = lower.is_none_or(|(bound, included)| match value.compare(bound) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => included,
            std::cmp::Ordering::Greater => true,
        });
        let below = upper.is_none_or(|(bound, included)| match value.compare(bound) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => included,
            std::cmp::Ordering::Greater => false,
        });
        above && below
    })
}

/// Matches `range`.
pub(crate) fn range(field: &str, body: &Json, document: &Document) -> bool {
    if !schema::is_field(field) {
        return false;
    }
    let kind = schema::kind(field);
    let side = |inclusive: &str, exclusive: &str| match (body.get(inclusive), body.get(exclusive)) {
        (Some(bound), _) if !bound.is_null() => Some((bound.clone(), true)),
        (_, Some(bound)) if !bound.is_null() => Some((bound.clone(), false)),
        _ => None,
    };
    let (lower, upper) = (side("gte", "gt"), side("lte", "lt"));
    let zone = dates::zone(body["time_zone"].as_str().unwrap_or("UTC"));
    let bound = |bound: &(Json, bool), round_up: bool| {
        let text = scalar_text(&bound.0).expect("a scalar");
        let value = match kind {
            Kind::Date | Kind::DateNanos => kind.of_ns(dates::parse(&text, round_up, &zone).expect("a date")),
            Kind::Ip => Value::Ip(schema::address(&text).expect("an address")),
            Kind::Text | Kind::Wildcard | Kind::Keyword | Kind::Lower | Kind::Constant(_) => {
                Value::Text(normal(field, &text))
            }
            Kind::Boolean => Value::Int((text == "true").into()),
            _ => match text.parse::<i128>() {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Float(schema::parse_float(&text).expect("a number")),
            },
        };
        (value, bound.1)
    };
    // Missing parts of a bound are filled so that `gt` is after, and `lte` up to, the end of its period.
    let lower = lower.map(|lower| bound(&lower, !lower.1));
    let upper = upper.map(|upper| bound(&upper, upper.1));
    let words: Vec<Value>;
    let values = match kind {
        Kind::Text => {
            let texts = document.words.get(field).into_iter().flatten().flatten();
            words = texts.map(|word| Value::Text(word.clone())).collect();
            &words
        }
        _ => document.values(field),
    };
    let borrow = |side: &'_ Option<(Value, bool)>| side.clone();
    let (lower, upper) = (borrow(&lower), borrow(&upper));
    within(
        values,
        lower.as_ref().map(|(value, included)| (value, *included)),
        upper.as_ref().map(|(value, included)| (value, *included)),
    )
}

/// Matches `exists`, for fields and objects.
pub(crate) fn exists(name: &str, document: &Document) -> bool {
    let below = format!("{name}.");
    let fields = schema::FIELDS.iter().filter(|(field, kind)| {
        *field == name || (field.starts_with(&below) && !schema::is_field(name) && *kind != Kind::Text)
    });
    fields.into_iter().any(|(field, kind)| match kind {
        Kind::Text => document.words.contains_key(*field),
        _ => !document.values(field).is_empty(),
    })
}

fn match_words(field: &str, body: &Json, document: &Document) -> bool {
    let query = value_of(body, "query");
    if !schema::is_field(field) {
        return false;
    }
    if schema::kind(field) != Kind::Text {
        return match body.get("fuzziness") {
            Some(_) => fuzzy_word(field, &scalar_text(query).expect("a text"), body, document),
            None => term(field, query, false, document),
        };
    }
    let words = text::words(&scalar_text(query).expect("a text"));
    if words.is_empty() {
        return body["zero_terms_query"] == "all";
    }
    let found = words.iter().filter(|word| match body.get("fuzziness") {
        Some(_) => fuzzy_word(field, word, body, document),
        None => any_string(field, document, |own| own == *word),
    });
    enough(found.count(), words.len(), body)
}

/// Returns whether enough words were found, by `operator` and `minimum_should_match`.
fn enough(found: usize, all: usize, body: &Json) -> bool {
    if body
        .get("operator")
        .is_some_and(|operator| operator.as_str().is_some_and(|text| text.eq_ignore_ascii_case("and")))
    {
        return found == all;
    }
    // A single word is not a list of clauses, so `minimum_should_match` does not apply.
    let spec = body.get("minimum_should_match").filter(|_| all > 1);
    found >= spec.map_or(1, |spec| minimum(spec, all)).max(1)
}

/// Returns how many of `all` optional clauses `minimum_should_match` requires.
pub(crate) fn minimum(spec: &Json, all: usize) -> usize {
    let text = scalar_text(spec).expect("a spec");
    let all = all as i64;
    let least = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: i64 = percent.parse().expect("a percentage");
            let share = all * percent / 100;
            if percent < 0 { all + share } else { share }
        }
        None => {
            let count: i64 = text.parse().expect("a number");
            if count < 0 { all + count } else { count }
        }
    };
    least.max(0) as usize
}

/// Matches `match_phrase`. On keyword-like fields it is a `term`; on other fields it matches the words of a text, or of a
/// value that did not fit.
pub(crate) fn match_phrase(field: &str, phrase: &str, slop: i64, document: &Document) -> bool {
    let is_string = schema::is_field(field)
        && matches!(
            schema::kind(field),
            Kind::Keyword | Kind::Lower | Kind::Wildcard | Kind::Constant(_)
        );
    if is_string {
        return term(field, &Json::from(phrase), false, document);
    }
    let phrase = text::words(phrase);
    let values = document.words.get(field);
    values.is_some_and(|values| values.iter().any(|words| text::has_phrase(words, &phrase, slop)))
}

fn phrase_prefix(field: &str, phrase: &str, slop: i64, document: &Document) -> bool {
    let words = text::words(phrase);
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let values = document.words.get(field).into_iter().flatten();
    for value in values {
        for end in value.iter().filter(|word| word.starts_with(last)) {
            let mut phrase = before.to_vec();
            phrase.push(end.clone());
            if text::has_phrase(value, &phrase, slop) {
                return true;
            }
        }
    }
    false
}

fn bool_prefix(field: &str, body: &Json, document: &Document) -> bool {
    let words = text::words(&scalar_text(value_of(body, "query")).expect("a text"));
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let mut found = before
        .iter()
        .filter(|word| any_string(field, document, |own| own == *word))
        .count();
    found += usize::from(any_string(field, document, |own| own.starts_with(last)));
    enough(found, words.len(), body)
}

fn multi_match(body: &Json, document: &Document) -> bool {
    let fields = list(&body["fields"])
        .into_iter()
        .map(|field| field.as_str().expect("a field"));
    let query = scalar_text(&body["query"]).expect("a text");
    let kind = body["type"].as_str().unwrap_or("best_fields");
    let mut one = body.clone();
    one.as_object_mut().expect("an object").remove("fields");
    let mut fields = fields.map(|field| field.split('^').next().unwrap_or(field));
    fields.any(|field| match kind {
        "phrase" => match_phrase(field, &query, body["slop"].as_i64().unwrap_or(0), document),
        "phrase_prefix" => phrase_prefix(field, &query, body["slop"].as_i64().unwrap_or(0), document),
        "bool_prefix" => bool_prefix(field, &one, document),
        "best_fields" | "most_fields" => match_words(field, &one, document),
        _ => panic!("the reference has no multi_match of type [{kind}]"),
    })
}

fn bool_query(body: &Json, document: &Document) -> bool {
    let clauses = |name: &str| list(&body[name]);
    let must = clauses("must").into_iter().chain(clauses("filter"));
    if !must.clone().all(|query| matches(query, document)) {
        return false;
    }
    if clauses("must_not").into_iter().any(|query| matches(query, document)) {
        return false;
    }
    let should = clauses("should");
    // Without other clauses at least one must match, even with `minimum_should_match: 0`.
    let floor = usize::from(must.count() == 0 && !should.is_empty());
    let least = body
        .get("minimum_should_match")
        .map_or(0, |spec| minimum(spec, should.len()))
        .max(floor);
    should.iter().filter(|query| matches(query, document)).count() >= least
}

fn fuzzy(field: &str, body: &Json, document: &Document) -> bool {
    let value = scalar_text(value_of(body, "value")).expect("a text");
    fuzzy_word(field, &normal(field, &value), body, document)
}

/// Returns whether a field contains a string near `word`, by `fuzziness`, `prefix_length` and `transpositions`.
pub(crate) fn fuzzy_word(field: &str, word: &str, body: &Json, document: &Document) -> bool {
    let length = word.chars().count();
    let spec = body
        .get("fuzziness")
        .map_or("AUTO".to_owned(), |spec| scalar_text(spec).expect("a fuzziness"));
    let most = match spec.as_str() {
        "AUTO" | "auto" => match length {
            0..=2 => 0,
            3..=5 => 1,
            _ => 2,
        },
        number => number.parse().expect("a number"),
    };
    // A prefix length beyond the word means the whole word.
    let prefix = (body["prefix_length"].as_u64().unwrap_or(0) as usize).min(length);
    let swaps = body
        .get("transpositions")
        .or(body.get("fuzzy_transpositions"))
        .and_then(Json::as_bool)
        .unwrap_or(true);
    let split =
        |text: &str| -> (String, String) { (text.chars().take(prefix).collect(), text.chars().skip(prefix).collect()) };
    let (head, tail) = split(word);
    any_string(field, document, |own| {
        let (own_head, own_tail) = split(own);
        own_head == head && text::distance(&own_tail, &tail, swaps) <= most
    })
}
