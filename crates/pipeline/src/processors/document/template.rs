//! Mustache templates over a document: `{{a.b}}`, `{{{a}}}`, sections, `{{#toJson}}`, `{{#join}}`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::budget::Budget;
use super::super::failure::Failure;
use super::path::Path;
use super::{Document, java_text};

/// Sections inside each other. More is refused when the template is parsed.
const DEPTH_MAX: usize = 16;

/// How `{{a}}` is escaped; `{{{a}}}` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MediaType {
    /// `application/json`: quotes and control characters as in a JSON string.
    #[default]
    Json,
    /// `text/plain`.
    Plain,
    /// `application/x-www-form-urlencoded`.
    Form,
}

impl MediaType {
    /// Parses a media type.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "application/json" => Some(Self::Json),
            "text/plain" => Some(Self::Plain),
            "application/x-www-form-urlencoded" => Some(Self::Form),
            _ => None,
        }
    }
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    media_type: MediaType,
    /// The path that a text without variables is, if it is one.
    path: Option<Path>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Variable {
        name: Name,
        escape: bool,
    },
    Section {
        name: Name,
        inverted: bool,
        parts: Vec<Part>,
    },
    ToJson(Name),
    Join(Name),
}

/// Name in a template. `.` is the value of the innermost section.
#[derive(Debug, Clone, PartialEq)]
enum Name {
    Current,
    Path(Path),
}

impl Template {
    /// Parses a template whose variables are escaped for JSON.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_as(text, MediaType::Json)
    }

    /// Parses a template.
    pub(crate) fn parse_as(text: &str, media_type: MediaType) -> Result<Self, String> {
        let mut rest = text;
        let parts = parse_parts(&mut rest, None, 0)?;
        let path = match parts.as_slice() {
            [Part::Text(text)] => Path::parse(text).ok(),
            _ => None,
        };
        Ok(Self {
            parts,
            media_type,
            path,
        })
    }

    /// Returns the text of a template without variables.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text for a document.
    pub(crate) fn render(&self, document: &Document, budget: &mut Budget) -> Result<String, Failure> {
        if let Some(text) = self.constant() {
            return Ok(text.to_owned());
        }
        let mut out = String::new();
        self.render_parts(&self.parts, document, None, budget, &mut out)?;
        Ok(out)
    }

    /// Returns the path that the template gives for a document.
    pub(crate) fn path(&self, document: &Document, budget: &mut Budget) -> Result<Cow<'_, Path>, Failure> {
        match &self.path {
            Some(path) => Ok(Cow::Borrowed(path)),
            None => Path::parse(&self.render(document, budget)?).map(Cow::Owned),
        }
    }

    fn render_parts(
        &self,
        parts: &[Part],
        document: &Document,
        current: Option<&Value>,
        budget: &mut Budget,
        out: &mut String,
    ) -> Result<(), Failure> {
        for part in parts {
            budget.take(1)?;
            let before = out.len();
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Variable { name, escape } => match value_of(name, document, current).as_deref() {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => self.push(text, *escape, out),
                    Some(value) => self.push(&java_text(value), *escape, out),
                },
                Part::ToJson(name) => {
                    let value = value_of(name, document, current);
                    out.push_str(&value.map_or_else(|| "null".to_owned(), |value| value.to_string()));
                }
                Part::Join(name) => {
                    if let Some(Value::Array(values)) = value_of(name, document, current).as_deref() {
                        let texts: Vec<String> = values.iter().map(java_text).collect();
                        self.push(&texts.join(","), true, out);
                    }
                }
                Part::Section { name, inverted, parts } => {
                    let value = value_of(name, document, current);
                    let is_true = match value.as_deref() {
                        None | Some(Value::Null | Value::Bool(false)) => false,
                        Some(Value::Array(values)) => !values.is_empty(),
                        Some(Value::String(text)) => !text.is_empty(),
                        Some(_) => true,
                    };
                    match value.as_deref() {
                        _ if *inverted || !is_true => {
                            if *inverted && !is_true {
                                self.render_parts(parts, document, current, budget, out)?;
                            }
                        }
                        Some(Value::Array(values)) => {
                            for value in values {
                                self.render_parts(parts, document, Some(value), budget, out)?;
                            }
                        }
                        other => self.render_parts(parts, document, other.or(current), budget, out)?,
                    }
                }
            }
            if matches!(part, Part::Section { .. }) {
                continue; // Its parts were counted.
            }
            budget.write(out.len() - before)?;
        }
        Ok(())
    }

    fn push(&self, text: &str, escape: bool, out: &mut String) {
        match self.media_type {
            _ if !escape => out.push_str(text),
            MediaType::Plain => out.push_str(text),
            MediaType::Json => {
                let quoted = Value::String(text.to_owned()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            MediaType::Form => {
                for byte in text.bytes() {
                    match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                            out.push(char::from(byte))
                        }
                        b' ' => out.push('+'),
                        other => out.push_str(&format!("%{other:02X}")),
                    }
                }
            }
        }
    }
}

fn value_of<'a>(name: &Name, document: &'a Document, current: Option<&'a Value>) -> Option<Cow<'a, Value>> {
    match name {
        Name::Current => current.map(Cow::Borrowed),
        Name::Path(path) => {
            if let Some(value) = current.and_then(|current| inside(current, path)) {
                return Some(Cow::Borrowed(value));
            }
            match path.text() {
                "_source" => Some(Cow::Owned(Value::Object(document.source.clone()))),
                "_ingest" => Some(Cow::Owned(Value::Object(document.ingest.clone()))),
                _ => document.find(path).map(Cow::Borrowed),
            }
        }
    }
}

fn inside<'a>(mut value: &'a Value, path: &Path) -> Option<&'a Value> {
    for key in &path.elements {
        value = match value {
            Value::Object(fields) => fields.get(key)?,
            Value::Array(values) => values.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Reads parts up to the end tag of `section`, or to the end.
fn parse_parts(rest: &mut &str, section: Option<&str>, depth: usize) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    loop {
        let Some(open) = rest.find("{{") else {
            if let Some(section) = section {
                return Err(format!("Improperly closed variable: section [{section}] has no end"));
            }
            push_text(&mut parts, rest);
            *rest = "";
            return Ok(parts);
        };
        push_text(&mut parts, &rest[..open]);
        let tag = &rest[open..];
        let (start, end) = if tag.starts_with("{{{") {
            ("{{{", "}}}")
        } else {
            ("{{", "}}")
        };
        let Some(close) = tag.find(end) else {
            return Err("Improperly closed variable".to_owned());
        };
        let inner = &tag[start.len()..close];
        *rest = &tag[close + end.len()..];
        let inner = inner.trim();
        let kind = inner.chars().next();
        let name = inner.get(1..).unwrap_or_default().trim();
        match kind {
            _ if start == "{{{" => parts.push(variable(inner, false)?),
            Some('&') => parts.push(variable(name, false)?),
            Some('!') => {}
            Some('/') if section == Some(name) => return Ok(parts),
            Some('/') => return Err(format!("unexpected end of section [{name}]")),
            Some('#' | '^') if depth == DEPTH_MAX => return Err("sections nest too deeply".to_owned()),
            Some('#') if matches!(name, "toJson" | "join") => {
                let inside = parse_parts(rest, Some(name), depth + 1)?;
                let field = match inside.as_slice() {
                    [Part::Text(text)] => parse_name(text.trim())?,
                    _ => return Err(format!("[{name}] needs the name of a field")),
                };
                parts.push(if name == "join" {
                    Part::Join(field)
                } else {
                    Part::ToJson(field)
                });
            }
            Some(kind @ ('#' | '^')) => parts.push(Part::Section {
                name: parse_name(name)?,
                inverted: kind == '^',
                parts: parse_parts(rest, Some(name), depth + 1)?,
            }),
            Some('>' | '=') => return Err(format!("[{inner}] is not implemented by firn")),
            _ => parts.push(variable(inner, true)?),
        }
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

fn variable(name: &str, escape: bool) -> Result<Part, String> {
    Ok(Part::Variable {
        name: parse_name(name)?,
        escape,
    })
}

fn parse_name(name: &str) -> Result<Name, String> {
    if name == "." {
        return Ok(Name::Current);
    }
    Path::parse(name).map(Name::Path).map_err(|failure| failure.reason)
}

/// A value whose strings are templates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueSource {
    /// A value without templates.
    Constant(Value),
    /// A string with templates.
    Template(Template),
    /// A list with templates.
    List(Vec<ValueSource>),
    /// An object with templates, in its names too.
    Map(Vec<(Template, ValueSource)>),
}

impl ValueSource {
    /// Parses a value.
    pub(crate) fn parse(value: &Value, media_type: MediaType) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => Self::Template(Template::parse_as(text, media_type)?),
            Value::Array(values) => {
                let values: Result<_, _> = values.iter().map(|value| Self::parse(value, media_type)).collect();
                Self::List(values?)
            }
            Value::Object(fields) => {
                let parse = |(name, value): (&String, &Value)| {
                    Ok::<_, String>((Template::parse_as(name, media_type)?, Self::parse(value, media_type)?))
                };
                Self::Map(fields.iter().map(parse).collect::<Result<_, _>>()?)
            }
            other => Self::Constant(other.clone()),
        })
    }

    /// Returns the value for a document.
    pub(crate) fn value(&self, document: &Document, budget: &mut Budget) -> Result<Value, Failure> {
        budget.take(1)?;
        Ok(match self {
            Self::Constant(value) => {
                budget.write(value.as_str().map_or(8, str::len))?;
                value.clone()
            }
            Self::Template(template) => Value::String(template.render(document, budget)?),
            Self::List(values) => {
                let values: Result<_, _> = values.iter().map(|value| value.value(document, budget)).collect();
                Value::Array(values?)
            }
            Self::Map(fields) => {
                let mut map = Map::new();
                for (name, value) in fields {
                    map.insert(name.render(document, budget)?, value.value(document, budget)?);
                }
                Value::Object(map)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        let Value::Object(source) = json!({"a": "x \"y\"", "b": {"c": [1, {"d": true}]}, "n": null, "t": true}) else {
            unreachable!()
        };
        Document::new("logs", Some("7"), source)
    }

    #[test]
    fn results() {
        let check = |text: &str, expected: &str| {
            let template = Template::parse(text).unwrap();
            assert_eq!(
                template.render(&document(), &mut Budget::default()).unwrap(),
                expected,
                "{text}"
            );
        };
        check("no", "no");
        check("{{a}}|{{{a}}}|{{&a}}", "x \\\"y\\\"|x \"y\"|x \"y\"");
        check("{{_index}}-{{_id}} {{_source.t}}", "logs-7 true");
        check("{{b.c.0}} {{b.c.1.d}} {{b}}", "1 true {c=[1, {d=true}]}");
        check("{{n}}{{missing}}{{b.missing}}.", ".");
        check(
            "{{#t}}yes{{/t}}{{^t}}no{{/t}}{{#n}}null{{/n}}{{^n}}empty{{/n}}",
            "yesempty",
        );
        check("{{#b.c}}<{{.}}>{{/b.c}}", "<1><{d=true}>");
        check(
            "{{#toJson}}b{{/toJson}} {{! note }}{{#join}}b.c{{/join}}",
            "{\"c\":[1,{\"d\":true}]} 1,{d=true}",
        );
    }

    #[test]
    fn refuses_to_parse() {
        for text in [
            "{{a",
            "{{#a}}",
            "{{/a}}",
            "{{> part}}",
            "{{}}",
            "{{#join}}{{a}}{{/join}}",
        ] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert!(Template::parse(&"{{#a}}".repeat(40)).is_err());
    }

    #[test]
    fn media_types() {
        let check = |media_type, expected: &str| {
            let template = Template::parse_as("{{a}}", media_type).unwrap();
            assert_eq!(template.render(&document(), &mut Budget::default()).unwrap(), expected);
        };
        check(MediaType::Plain, "x \"y\"");
        check(MediaType::Form, "x+%22y%22");
        check(MediaType::Json, "x \\\"y\\\"");
    }

    #[test]
    fn a_long_result_exceeds_the_budget() {
        let template = Template::parse("{{#b.c}}{{a}}{{/b.c}}").unwrap();
        let mut budget = Budget {
            output_bytes: 12,
            ..Budget::default()
        };
        assert!(template.render(&document(), &mut budget).is_err());
    }
}
