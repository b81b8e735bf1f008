//! Parser of generated `query_string` texts: parentheses surround every operator, so that Lucene's precedence does not
//! matter. Also of `simple_query_string`.

use serde_json::{Value as Json, json};

use super::query;
use super::schema::Document;

/// Returns whether `document` matches a `query_string`.
pub(crate) fn matches(body: &Json, document: &Document) -> bool {
    let text = body["query"].as_str().expect("a query");
    let fields = body["fields"]
        .as_array()
        .map(|fields| fields.iter().map(|field| field.as_str().expect("a field")).collect());
    let mut reader = Reader {
        rest: text,
        fields: fields.unwrap_or_default(),
        document,
    };
    let found = reader.expression();
    assert_eq!(reader.rest, "", "unparsed rest of {text}");
    found
}

struct Reader<'t> {
    rest: &'t str,
    fields: Vec<&'t str>,
    document: &'t Document,
}

impl<'t> Reader<'t> {
    fn take(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn until(&mut self, ends: &[char]) -> &'t str {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        found
    }

    fn expression(&mut self) -> bool {
        if !self.take("(") {
            return self.leaf();
        }
        if self.take("NOT ") {
            let inner = self.expression();
            assert!(self.take(")"), "missing parenthesis at {}", self.rest);
            return !inner;
        }
        let mut found = self.expression();
        while !self.take(")") {
            if self.take(" AND NOT ") {
                found &= !self.expression();
            } else if self.take(" AND ") {
                found &= self.expression();
            } else {
                assert!(self.take(" OR "), "missing operator at {}", self.rest);
                found |= self.expression();
            }
        }
        found
    }

    fn leaf(&mut self) -> bool {
        if self.take("*:*") {
            return true;
        }
        let colon = self.rest.find(':');
        let word_end = self.rest.find([' ', ')', '"', '(']).unwrap_or(self.rest.len());
        let fields = match colon {
            Some(colon) if colon < word_end => {
                let field = &self.rest[..colon];
                self.rest = &self.rest[colon + 1..];
                vec![field]
            }
            _ => self.fields.clone(),
        };
        if fields == ["_exists_"] {
            let name = self.until(&[' ', ')']);
            return query::exists(name, self.document);
        }
        if self.take("\"") {
            let phrase = self.until(&['"']);
            assert!(self.take("\""));
            let slop = if self.take("~") {
                self.until(&[' ', ')']).parse().expect("a slop")
            } else {
                0
            };
            return fields
                .iter()
                .any(|field| query::match_phrase(field, phrase, slop, self.document));
        }
        if self.rest.starts_with(['[', '{']) {
            let bounds = self.until(&[']', '}']).to_owned();
            let end = self.rest.chars().next().expect("an end");
            self.rest = &self.rest[1..];
            let (lower, upper) = bounds[1..].split_once(" TO ").expect("two bounds");
            let mut body = json!({});
            if lower != "*" {
                body[if bounds.starts_with('[') { "gte" } else { "gt" }] = lower.into();
            }
            if upper != "*" {
                body[if end == ']' { "lte" } else { "lt" }] = upper.into();
            }
            return fields.iter().any(|field| query::range(field, &body, self.document));
        }
        if self.take("/") {
            let regex = self.until(&['/']).to_owned();
            assert!(self.take("/"));
            return fields
                .iter()
                .any(|field| query::matches(&json!({"regexp": {*field: regex}}), self.document));
        }
        let word = self.until(&[' ', ')']);
        fields.iter().any(|field| {
            let query = match word.split_once('~') {
                Some((word, distance)) => {
                    let fuzziness = if distance.is_empty() { "AUTO" } else { distance };
                    json!({"fuzzy": {*field: {"value": word.to_lowercase(), "fuzziness": fuzziness}}})
                }
                None if word.contains(['*', '?']) => json!({"wildcard": {*field: word}}),
                None => json!({"match": {*field: word}}),
            };
            query::matches(&query, self.document)
        })
    }
}

/// Returns whether `document` matches a `simple_query_string`: words and phrases joined by `+` or `|`, `-` before
/// excluded ones, `*` after a prefix.
pub(crate) fn simple(body: &Json, document: &Document) -> bool {
    let text = body["query"].as_str().expect("a query");
    let fields: Vec<&str> = body["fields"]
        .as_array()
        .expect("fields")
        .iter()
        .map(|field| field.as_str().expect("a field"))
        .collect();
    let one = |part: &str| {
        let (negated, part) = part.strip_prefix('-').map_or((false, part), |part| (true, part));
        let found = fields.iter().any(|field| {
            if let Some(phrase) = part.strip_prefix('"') {
                query::match_phrase(field, phrase.trim_end_matches('"'), 0, document)
            } else if let Some(prefix) = part.strip_suffix('*') {
                query::matches(&json!({"prefix": {*field: prefix.to_lowercase()}}), document)
            } else {
                query::matches(&json!({"match": {*field: part}}), document)
            }
        });
        found != negated
    };
    match text.contains(" | ") {
        true => text.split(" | ").any(one),
        false => text.split(" + ").all(one),
    }
}
