//! Texts with placeholders: `{{rule.name}}` is the value of a field of the alert.
//!
//! There are no conditions and no loops. A value is escaped for where it stands, so that what an event holds is never read as
//! markup, as another header, or as JSON.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Longest template in bytes, and most placeholders.
const BYTES_MAX: usize = 16 << 10;
const PLACEHOLDERS_MAX: usize = 100;
/// Longest value of a placeholder in characters.
const VALUE_CHARS_MAX: usize = 1000;

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Path of a field.
    Field(String),
}

impl Template {
    /// Reads a template.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("a template has at most {BYTES_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let closed = after.split_once("}}");
            let (path, after) = closed.ok_or_else(|| format!("[{{{{] without [}}}}] in [{text}]"))?;
            let path = path.trim();
            let is_path = |character: char| character.is_alphanumeric() || "._-@".contains(character);
            if path.is_empty() || !path.chars().all(is_path) {
                return Err(format!("[{{{{{path}}}}}] is not the name of a field"));
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Field(path.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if parts.len() > 2 * PLACEHOLDERS_MAX {
            return Err(format!("a template has at most {PLACEHOLDERS_MAX} placeholders"));
        }
        Ok(Self { parts })
    }

    /// Fills the placeholders in; `escape` is applied to each value. A field without a value is empty.
    pub(crate) fn render(&self, alert: &Map<String, Value>, escape: impl Fn(&str) -> String) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(path) => escape(&shortened(&value_of(alert, path))),
        });
        parts.collect()
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Returns the values of a field, by its path with dots, as one text.
pub(crate) fn value_of(alert: &Map<String, Value>, path: &str) -> String {
    firn_detect::values_of(alert, path).join(", ")
}

/// Escapes a text for HTML.
pub(crate) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Escapes a text for the inside of a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Makes one line of a text: control characters become spaces.
pub(crate) fn one_line(text: &str) -> String {
    let clean = |character: char| if character.is_control() { ' ' } else { character };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_escaped() {
        let alert = json!({"rule": {"name": "<b> \"x\"\r\n"}, "a.b": [1, 2], "long": "é".repeat(2000)});
        let alert = alert.as_object().unwrap();
        let template = Template::parse("{{ rule.name }}: {{a.b}}{{missing}}!").unwrap();
        assert_eq!(template.render(alert, html), "&lt;b&gt; &quot;x&quot;\r\n: 1, 2!");
        assert_eq!(template.render(alert, one_line), "<b> \"x\"  : 1, 2!");
        assert_eq!(template.render(alert, json_string), "<b> \\\"x\\\"\\r\\n: 1, 2!");
        let long = Template::parse("{{long}}").unwrap().render(alert, str::to_owned);
        assert_eq!(long.chars().count(), VALUE_CHARS_MAX + 1);

        assert!(Template::parse("{{a").unwrap_err().contains("without"));
        assert!(Template::parse("{{a b}}").unwrap_err().contains("name of a field"));
        assert!(Template::parse(&"x".repeat(BYTES_MAX + 1)).is_err());
        assert!(
            Template::parse(&"{{a}}x".repeat(200))
                .unwrap_err()
                .contains("placeholders")
        );
    }
}
