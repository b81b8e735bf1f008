//! Highlighting (`highlight`): fragments of fields with the query's matches marked.
//!
//! Options are set at the top level and per field; the field's options win. After parsing, every field has all options.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use crate::json::{as_bool, as_i64, as_text, token};
use crate::query::Query;

/// Maximum entries of `fields`: each is matched against every field of the mapping for every hit.
const FIELDS_MAX: usize = 1000;

/// Value of `highlight`.
#[derive(Debug, Clone, PartialEq)]
pub struct Highlight {
    /// In the order of the request; if two entries match a field, the later wins.
    pub fields: Vec<HighlightField>,
    /// Cost limit of the fragments; not part of the JSON. A search with a budget leaves fragments out instead of being
    /// slow or failing because a text is too long.
    /// long, sets it. Such a search leaves fragments out instead.
    pub budget: Option<HighlightBudget>,
}

/// Cost limit of the fragments of one search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HighlightBudget {
    /// Characters per field of one hit, all its values together: values are cut there for analysis and for output.
    pub field_chars: usize,
    /// Total over all hits: analyzed characters plus output bytes. After it is spent, further hits have no fragments.
    pub spent_max: usize,
}

/// An entry of `fields`, with all options.
#[derive(Debug, Clone, PartialEq)]
pub struct HighlightField {
    /// A path, wildcards allowed.
    pub pattern: String,
    /// Options of the field.
    pub options: HighlightOptions,
}

/// Highlighting options of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct HighlightOptions {
    /// `type`.
    pub highlighter: Highlighter,
    /// Inserted before each match.
    pub pre_tag: String,
    /// Inserted after each match.
    pub post_tag: String,
    /// Approximate characters per fragment; 0: one sentence each.
    pub fragment_size: usize,
    /// Maximum fragments; 0: whole values.
    pub number_of_fragments: usize,
    /// Order fragments by score.
    pub by_score: bool,
    /// Mark only matches of clauses on this field.
    pub require_field_match: bool,
    /// Characters from the start to show if the field has no match; 0: none.
    pub no_match_size: usize,
    /// Marks matches of this query instead of the search's query.
    pub query: Option<Box<Query>>,
    /// Where fragments may begin and end (unified).
    pub boundary_scanner: BoundaryScanner,
    /// `encoder: html`: text is escaped.
    pub html: bool,
    /// Split fragments by character count only (plain; `fragmenter: simple`).
    pub simple_fragmenter: bool,
    /// Maximum analyzed characters; longer values are cut instead of refused.
    pub max_analyzed_offset: Option<u64>,
}

/// `type` of a highlighter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Highlighter {
    Unified,
    Plain,
    /// Needs term vectors, which firn does not store.
    Fvh,
}

/// `boundary_scanner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BoundaryScanner {
    Sentence,
    Word,
    /// Only `fvh` supports it.
    Chars,
}

impl Default for HighlightOptions {
    fn default() -> Self {
        Self {
            highlighter: Highlighter::Unified,
            pre_tag: "<em>".to_owned(),
            post_tag: "</em>".to_owned(),
            fragment_size: 100,
            number_of_fragments: 5,
            by_score: false,
            require_field_match: true,
            no_match_size: 0,
            query: None,
            boundary_scanner: BoundaryScanner::Sentence,
            html: false,
            simple_fragmenter: false,
            max_analyzed_offset: None,
        }
    }
}

impl HighlightOptions {
    /// Whether a field has no fragments if no clause of the query is on it.
    pub fn shows_only_matches(&self) -> bool {
        self.require_field_match && self.no_match_size == 0
    }
}

impl Highlight {
    /// Parses the value of `highlight`; `None`: it has no fields.
    pub(super) fn parse(value: &Value) -> Result<Option<Self>> {
        let Value::Object(body) = value else {
            return Err(super::shape::unknown("highlight", value));
        };
        let mut fields = None;
        let mut common = HighlightOptions::default();
        let mut tags = Tags::default();
        for (key, value) in body {
            match key.as_str() {
                "fields" => fields = Some(value),
                "encoder" => common.html = text("highlight", key, value)? == "html",
                "tags_schema" => match text("highlight", key, value)?.as_str() {
                    "default" => {}
                    "styled" => {
                        "<em class=\"hlt1\">".clone_into(&mut common.pre_tag);
                        "</em>".clone_into(&mut common.post_tag);
                    }
                    other => return Err(Error::illegal_argument(format!("Unknown tag schema [{other}]"))),
                },
                _ => option(None, key, value, &mut common, &mut tags)?,
            }
        }
        tags.check()?;
        let entries = match fields {
            None => return Ok(None),
            Some(Value::Object(fields)) => fields.iter().collect(),
            Some(Value::Array(list)) => list
                .iter()
                .map(|entry| match entry.as_object() {
                    Some(entry) if entry.len() == 1 => Ok(entry.iter()),
                    _ => Err(Error::parsing(
                        "[highlight] [fields] can be a single object with any number of fields or an array where each \
                         entry is an object with a single field",
                    )),
                })
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .collect(),
            Some(other) => {
                return Err(Error::parsing(format!(
                    "[highlight] fields doesn't support values of type: {}",
                    token(other)
                )));
            }
        };
        field_list(entries, &common)
    }

    /// Returns JSON that parses to this value.
    pub(super) fn print(&self) -> Value {
        let one = |field: &HighlightField| json!({ field.pattern.as_str(): field.options.print() });
        let mut body = Map::new();
        // The encoder exists only at the top level and is the same for all fields.
        if self.fields.iter().any(|field| field.options.html) {
            body.insert("encoder".into(), "html".into());
        }
        body.insert("fields".into(), self.fields.iter().map(one).collect());
        Value::Object(body)
    }
}

fn field_list(entries: Vec<(&String, &Value)>, common: &HighlightOptions) -> Result<Option<Highlight>> {
    if entries.is_empty() {
        return Ok(None);
    }
    if entries.len() > FIELDS_MAX {
        return Err(Error::illegal_argument(format!(
            "[highlight] has [{}] fields, more than the allowed maximum of [{FIELDS_MAX}]",
            entries.len()
        )));
    }
    let mut fields = Vec::with_capacity(entries.len());
    for (pattern, value) in entries {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "[highlight_field] Expected START_OBJECT but was: {}",
                token(value)
            )));
        };
        let mut options = common.clone();
        let mut tags = Tags::default();
        for (key, value) in body {
            match key.as_str() {
                // Only fragments of `fvh` support it.
                "fragment_offset" => {
                    whole("highlight_field", key, value)?;
                }
                "matched_fields" => {
                    return Err(Error::not_implemented("option [matched_fields] of [highlight]"));
                }
                _ => option(Some(pattern), key, value, &mut options, &mut tags)?,
            }
        }
        tags.check()?;
        fields.push(HighlightField {
            pattern: pattern.clone(),
            options,
        });
    }
    Ok(Some(Highlight { fields, budget: None }))
}

/// Tags that one level sets: `pre_tags` requires `post_tags`.
#[derive(Default)]
struct Tags {
    pre: bool,
    post: bool,
}

impl Tags {
    fn check(&self) -> Result<()> {
        if self.pre && !self.post {
            return Err(Error::parsing("pre_tags are set but post_tags are not set"));
        }
        Ok(())
    }
}

/// Parses an option that exists on both levels.
fn option(
    field: Option<&str>,
    key: &str,
    value: &Value,
    options: &mut HighlightOptions,
    tags: &mut Tags,
) -> Result<()> {
    let kind = match field {
        Some(_) => "highlight_field",
        None => "highlight",
    };
    let flag = || as_bool(value).ok_or_else(|| wrong_type(kind, key, value));
    match key {
        "type" => options.highlighter = highlighter(field, &text(kind, key, value)?)?,
        "pre_tags" => {
            tags.pre = true;
            options.pre_tag = first_tag(kind, key, value)?;
        }
        "post_tags" => {
            tags.post = true;
            options.post_tag = first_tag(kind, key, value)?;
        }
        "fragment_size" => set(&mut options.fragment_size, whole(kind, key, value)?),
        "number_of_fragments" => set(&mut options.number_of_fragments, whole(kind, key, value)?),
        "no_match_size" => set(&mut options.no_match_size, whole(kind, key, value)?),
        "order" => options.by_score = text(kind, key, value)?.eq_ignore_ascii_case("score"),
        "require_field_match" => options.require_field_match = flag()?,
        "highlight_query" => options.query = Some(Box::new(Query::parse(value)?)),
        "boundary_scanner" => options.boundary_scanner = scanner(&text(kind, key, value)?)?,
        "fragmenter" => {
            options.simple_fragmenter = match text(kind, key, value)?.as_str() {
                "simple" => true,
                "span" => false,
                other => return Err(Error::illegal_argument(format!("unknown fragmenter option [{other}]"))),
            }
        }
        // The second name is OpenSearch's spelling.
        "max_analyzed_offset" | "max_analyzer_offset" => {
            let offset = as_i64(value).ok_or_else(|| wrong_type(kind, key, value))?;
            options.max_analyzed_offset = Some(
                u64::try_from(offset)
                    .ok()
                    .filter(|offset| *offset > 0)
                    .ok_or_else(|| Error::illegal_argument("[max_analyzed_offset] must be a positive integer"))?,
            );
        }
        // These options affect only `fvh`, or the source of the text (firn has one source).
        "boundary_max_scan" | "phrase_limit" => {
            whole(kind, key, value)?;
        }
        "boundary_chars" | "boundary_scanner_locale" => {
            text(kind, key, value)?;
        }
        "force_source" => {
            flag()?;
        }
        "options" if value.is_object() => {}
        _ => return Err(Error::parsing(format!("[{kind}] unknown field [{key}]"))),
    }
    Ok(())
}

fn highlighter(field: Option<&str>, name: &str) -> Result<Highlighter> {
    match name {
        "unified" => Ok(Highlighter::Unified),
        "plain" => Ok(Highlighter::Plain),
        "fvh" => Ok(Highlighter::Fvh),
        other => Err(Error::illegal_argument(match field {
            Some(field) => format!("unknown highlighter type [{other}] for the field [{field}]"),
            None => format!("unknown highlighter type [{other}]"),
        })),
    }
}

fn scanner(name: &str) -> Result<BoundaryScanner> {
    match name.to_ascii_lowercase().as_str() {
        "sentence" => Ok(BoundaryScanner::Sentence),
        "word" => Ok(BoundaryScanner::Word),
        "chars" => Ok(BoundaryScanner::Chars),
        _ => Err(Error::illegal_argument(format!("unknown boundary scanner [{name}]"))),
    }
}

/// Parses a list of tags, of which only `fvh` uses more than the first.
fn first_tag(kind: &str, key: &str, value: &Value) -> Result<String> {
    match value {
        Value::Array(tags) => match tags.first() {
            Some(tag) => text(kind, key, tag),
            None => Err(Error::illegal_argument(format!("[{key}] must have a tag"))),
        },
        tag => text(kind, key, tag),
    }
}

fn text(kind: &str, key: &str, value: &Value) -> Result<String> {
    as_text(value).ok_or_else(|| wrong_type(kind, key, value))
}

/// Parses a length or count; `None`: negative, which has no effect, as in Elasticsearch.
fn whole(kind: &str, key: &str, value: &Value) -> Result<Option<usize>> {
    let number = as_i64(value).ok_or_else(|| wrong_type(kind, key, value))?;
    Ok(usize::try_from(number.min(i64::from(i32::MAX))).ok())
}

fn set(option: &mut usize, given: Option<usize>) {
    if let Some(given) = given {
        *option = given;
    }
}

fn wrong_type(kind: &str, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{kind}] {key} doesn't support values of type: {}",
        token(value)
    ))
}

impl HighlightOptions {
    fn print(&self) -> Value {
        let mut body = json!({
            "type": match self.highlighter {
                Highlighter::Unified => "unified",
                Highlighter::Plain => "plain",
                Highlighter::Fvh => "fvh",
            },
            "pre_tags": [self.pre_tag],
            "post_tags": [self.post_tag],
            "fragment_size": self.fragment_size,
            "number_of_fragments": self.number_of_fragments,
            "order": if self.by_score { "score" } else { "none" },
            "require_field_match": self.require_field_match,
            "no_match_size": self.no_match_size,
            "boundary_scanner": match self.boundary_scanner {
                BoundaryScanner::Sentence => "sentence",
                BoundaryScanner::Word => "word",
                BoundaryScanner::Chars => "chars",
            },
            "fragmenter": if self.simple_fragmenter { "simple" } else { "span" },
        });
        if let Some(query) = &self.query {
            body["highlight_query"] = query.print();
        }
        if let Some(offset) = self.max_analyzed_offset {
            body["max_analyzed_offset"] = offset.into();
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &Value) -> Highlight {
        Highlight::parse(value).unwrap().unwrap()
    }

    fn check_refused(value: Value, reason: &str) {
        assert_eq!(Highlight::parse(&value).unwrap_err().reason(), reason, "{value}");
    }

    #[test]
    fn options_of_a_field_win_over_the_top_level() {
        let highlight = parsed(&json!({
            "pre_tags": ["<b>", "<i>"], "post_tags": "</b>", "fragment_size": 10, "order": "score", "encoder": "html",
            "fields": {"a": {"fragment_size": "20", "type": "plain"}, "b.*": {"number_of_fragments": 0, "require_field_match": false}}
        }));
        let [a, b] = highlight.fields.as_slice() else {
            panic!("{highlight:?}");
        };
        assert_eq!((a.options.fragment_size, b.options.fragment_size), (20, 10));
        assert_eq!(a.options.highlighter, Highlighter::Plain);
        assert_eq!(b.options.pre_tag, "<b>");
        assert!(a.options.by_score && b.options.by_score && a.options.html && b.options.html);
        assert_eq!((a.options.number_of_fragments, b.options.number_of_fragments), (5, 0));
        let negative =
            parsed(&json!({"fragment_size": 7, "fields": {"a": {"fragment_size": -1, "number_of_fragments": -1}}}));
        let negative = &negative.fields[0].options;
        assert_eq!((negative.fragment_size, negative.number_of_fragments), (7, 5));
        assert!(a.options.require_field_match && !b.options.require_field_match);
    }

    #[test]
    fn prints_what_it_reads() {
        for value in [
            json!({"fields": {"a": {}}}),
            json!({"fields": [{"a": {}}, {"b*": {"no_match_size": 3, "highlight_query": {"term": {"c": 1}}}}]}),
            json!({"tags_schema": "styled", "encoder": "html", "boundary_scanner": "WORD", "fields": {"a": {"max_analyzed_offset": 5}}}),
            json!({"fields": {"a": {"type": "plain", "fragmenter": "simple", "boundary_chars": ".", "phrase_limit": 3}}}),
        ] {
            let highlight = parsed(&value);
            assert_eq!(parsed(&highlight.print()), highlight, "{value}");
        }
        assert_eq!(Highlight::parse(&json!({})).unwrap(), None);
        assert_eq!(Highlight::parse(&json!({"fields": {}})).unwrap(), None);
    }

    #[test]
    fn refuses() {
        check_refused(json!([]), "Unknown key for a START_ARRAY in [highlight].");
        check_refused(
            json!({"foo": 1, "fields": {"a": {}}}),
            "[highlight] unknown field [foo]",
        );
        check_refused(
            json!({"fields": {"a": {"foo": 1}}}),
            "[highlight_field] unknown field [foo]",
        );
        check_refused(
            json!({"fields": {"a": {"type": "foo"}}}),
            "unknown highlighter type [foo] for the field [a]",
        );
        check_refused(
            json!({"fields": {"a": {"pre_tags": ["x"]}}}),
            "pre_tags are set but post_tags are not set",
        );
        check_refused(
            json!({"fields": {"a": {"matched_fields": ["b"]}}}),
            "option [matched_fields] of [highlight] is not implemented by firn",
        );
        check_refused(json!({"tags_schema": "x", "fields": {}}), "Unknown tag schema [x]");
        check_refused(
            json!({"fields": {"a": {"max_analyzed_offset": 0}}}),
            "[max_analyzed_offset] must be a positive integer",
        );
        check_refused(
            json!({"fields": 5}),
            "[highlight] fields doesn't support values of type: VALUE_NUMBER",
        );
    }
}
