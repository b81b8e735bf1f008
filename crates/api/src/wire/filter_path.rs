//! `filter_path`: the parts of an answer to send.
//!
//! The filter works on the printed JSON and copies the selected parts byte for byte, so numbers in `_source` never
//! change. Like Elasticsearch, it omits objects and arrays that end up empty.

use firn_engine::{Error, Result};

/// Maximum number of patterns, more than any request needs.
const MAX_PATTERNS: usize = 128;

/// A parsed `filter_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterPath {
    /// Empty: include everything.
    includes: Vec<Vec<Segment>>,
    excludes: Vec<Vec<Segment>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `**`: any number of levels.
    Any,
    /// A name, `*` for any run of characters.
    Name(String),
}

/// Decision of a filter for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Include it with everything below it.
    Keep,
    /// Omit it with everything below it.
    Drop,
    /// Depends on the levels below.
    Descend,
}

/// Patterns that apply at some level: the remaining segments of each.
type State<'a> = Vec<&'a [Segment]>;

impl FilterPath {
    /// Parses a comma-separated list; `-` starts an exclusion.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>> {
        let mut filter = Self {
            includes: Vec::new(),
            excludes: Vec::new(),
        };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (list, path) = match part.strip_prefix('-') {
                Some(path) => (&mut filter.excludes, path),
                None => (&mut filter.includes, part),
            };
            list.push(segments(path));
        }
        let count = filter.includes.len() + filter.excludes.len();
        if count > MAX_PATTERNS {
            return Err(Error::illegal_argument(format!(
                "[filter_path] has [{count}] patterns, at most [{MAX_PATTERNS}] are allowed"
            )));
        }
        Ok((count > 0).then_some(filter))
    }

    /// Returns the decision for a full path of object keys.
    pub(crate) fn verdict(&self, path: &[&str]) -> Verdict {
        let mut includes = self.start_includes();
        let mut excludes: State<'_> = self.excludes.iter().map(Vec::as_slice).collect();
        let mut is_included = includes.is_none();
        for key in path {
            let (next, dropped) = step(&excludes, key);
            if dropped {
                return Verdict::Drop;
            }
            excludes = next;
            if let Some(state) = &includes {
                let (next, matched) = step(state, key);
                if matched {
                    is_included = true;
                    includes = None;
                } else if next.is_empty() {
                    return Verdict::Drop;
                } else {
                    includes = Some(next);
                }
            }
        }
        if is_included && excludes.is_empty() {
            Verdict::Keep
        } else {
            Verdict::Descend
        }
    }

    /// Returns the filtered form of a JSON text; `{}` if nothing remains.
    pub(crate) fn apply(&self, json: &[u8]) -> Result<Vec<u8>> {
        let text = std::str::from_utf8(json).map_err(|_| Error::internal("an answer is not valid UTF-8"))?;
        let mut output = Vec::with_capacity(json.len() / 4);
        let excludes: State<'_> = self.excludes.iter().map(Vec::as_slice).collect();
        let has_output = filter(text, self.start_includes(), excludes, &mut output)?;
        if !has_output {
            output.clear();
            output.extend_from_slice(if text.trim_start().starts_with('[') {
                b"[]"
            } else {
                b"{}"
            });
        }
        Ok(output)
    }

    fn start_includes(&self) -> Option<State<'_>> {
        (!self.includes.is_empty()).then(|| self.includes.iter().map(Vec::as_slice).collect())
    }
}

/// Splits at dots; `\.` is a dot inside a name.
fn segments(path: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut name = String::new();
    let mut characters = path.chars().peekable();
    let push = |name: &mut String, segments: &mut Vec<Segment>| {
        let name = std::mem::take(name);
        match name.as_str() {
            "" => {}
            "**" => {
                if segments.last() != Some(&Segment::Any) {
                    segments.push(Segment::Any);
                }
            }
            _ => segments.push(Segment::Name(name)),
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&'.') => {
                characters.next();
                name.push('.');
            }
            '.' => push(&mut name, &mut segments),
            other => name.push(other),
        }
    }
    push(&mut name, &mut segments);
    segments
}

/// Returns the state below `key`, and whether a pattern ends here (and so covers everything below).
fn step<'a>(state: &[&'a [Segment]], key: &str) -> (State<'a>, bool) {
    let mut next: State<'a> = Vec::new();
    let mut ended = false;
    for pattern in state {
        advance(pattern, key, &mut next, &mut ended);
    }
    (next, ended)
}

fn advance<'a>(pattern: &'a [Segment], key: &str, next: &mut State<'a>, ended: &mut bool) {
    match pattern.split_first() {
        None => {}
        Some((Segment::Any, rest)) => {
            if rest.is_empty() {
                *ended = true;
            } else {
                if !next.contains(&pattern) {
                    next.push(pattern);
                }
                advance(rest, key, next, ended);
            }
        }
        Some((Segment::Name(name), rest)) if matches_name(name, key) => {
            if rest.is_empty() {
                *ended = true;
            } else if !next.contains(&rest) {
                next.push(rest);
            }
        }
        Some((Segment::Name(_), _)) => {}
    }
}

fn matches_name(pattern: &str, key: &str) -> bool {
    match pattern {
        "*" => true,
        _ if pattern.contains('*') => firn_model::names::matches_pattern(pattern, key),
        _ => pattern == key,
    }
}

/// Writes the selected parts of `text`; returns false if there are none. `includes: None` means everything.
fn filter(text: &str, includes: Option<State<'_>>, excludes: State<'_>, output: &mut Vec<u8>) -> Result<bool> {
    if includes.is_none() && excludes.is_empty() {
        output.extend_from_slice(text.as_bytes());
        return Ok(true);
    }
    let start = output.len();
    match text.trim_start().as_bytes().first() {
        Some(b'{') => {
            output.push(b'{');
            let mut any = false;
            for member in sonic_rs::to_object_iter(text) {
                let (key, value) = member.map_err(unreadable)?;
                let (excludes, dropped) = step(&excludes, &key);
                if dropped {
                    continue;
                }
                let includes = match &includes {
                    None => None,
                    Some(state) => match step(state, &key) {
                        (_, true) => None,
                        (next, false) if next.is_empty() => continue,
                        (next, false) => Some(next),
                    },
                };
                let before = output.len();
                if any {
                    output.push(b',');
                }
                serde_json::to_writer(&mut *output, &*key)?;
                output.push(b':');
                if filter(value.as_raw_str(), includes, excludes, output)? {
                    any = true;
                } else {
                    output.truncate(before);
                }
            }
            output.push(b'}');
            if !any {
                output.truncate(start);
            }
            Ok(any)
        }
        Some(b'[') => {
            output.push(b'[');
            let mut any = false;
            for element in sonic_rs::to_array_iter(text) {
                let element = element.map_err(unreadable)?;
                let before = output.len();
                if any {
                    output.push(b',');
                }
                if filter(element.as_raw_str(), includes.clone(), excludes.clone(), output)? {
                    any = true;
                } else {
                    output.truncate(before);
                }
            }
            output.push(b']');
            if !any {
                output.truncate(start);
            }
            Ok(any)
        }
        // A leaf: included unless the remaining patterns name something deeper.
        _ if includes.is_none() => {
            output.extend_from_slice(text.as_bytes());
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn unreadable(error: sonic_rs::Error) -> Error {
    Error::internal(format!("an answer cannot be filtered: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"took":1,"hits":{"total":{"value":2},"hits":[{"_id":"1","_source":{"a":1.0,"b":{"c":2}}},{"_id":"2","_source":{"a":9007199254740993000000}}]}}"#;

    fn check(filter_path: &str, expected: &str) {
        let filter = FilterPath::parse(filter_path).unwrap().unwrap();
        let filtered = filter.apply(ANSWER.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(filtered).unwrap(), expected, "{filter_path}");
    }

    #[test]
    fn filters_as_elasticsearch_does() {
        check("took", r#"{"took":1}"#);
        check("nothing", "{}");
        check("hits.hits._id", r#"{"hits":{"hits":[{"_id":"1"},{"_id":"2"}]}}"#);
        check(
            "hits.hits._source.b.c",
            r#"{"hits":{"hits":[{"_source":{"b":{"c":2}}}]}}"#,
        );
        check(
            "**.a",
            r#"{"hits":{"hits":[{"_source":{"a":1.0}},{"_source":{"a":9007199254740993000000}}]}}"#,
        );
        check("h*.total,took", r#"{"took":1,"hits":{"total":{"value":2}}}"#);
        check("-hits", r#"{"took":1}"#);
        check(
            "hits.hits,-**._source",
            r#"{"hits":{"hits":[{"_id":"1"},{"_id":"2"}]}}"#,
        );
        check("*.hits.*.b", r#"{"hits":{"hits":[{"_source":{"b":{"c":2}}}]}}"#);
    }

    #[test]
    fn says_early_what_is_not_wanted() {
        let filter = FilterPath::parse("errors,items.*.error").unwrap().unwrap();
        assert_eq!(filter.verdict(&["errors"]), Verdict::Keep);
        assert_eq!(filter.verdict(&["took"]), Verdict::Drop);
        assert_eq!(filter.verdict(&["items"]), Verdict::Descend);
        assert_eq!(filter.verdict(&["items", "index", "error"]), Verdict::Keep);
        assert_eq!(filter.verdict(&["items", "index", "_id"]), Verdict::Drop);
    }
}
