//! `kv`: reads pairs of a key and a value (`a=1 b=2`).

use std::collections::HashSet;

use regex::Regex;

use super::super::options::compile_regex;
use super::prelude::*;
use super::split::split;

#[derive(Debug)]
struct KeyValue {
    field: Template,
    field_split: Regex,
    value_split: Regex,
    include_keys: Option<HashSet<String>>,
    exclude_keys: HashSet<String>,
    target: Option<Template>,
    ignore_missing: bool,
    trim_key: Option<Regex>,
    trim_value: Option<Regex>,
    strip_brackets: bool,
    prefix: String,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let target = options.optional_text("target_field")?;
    let target = target
        .map(|text| options.parse_template("target_field", &text))
        .transpose()?;
    boxed(KeyValue {
        field: options.template("field")?,
        field_split: options.regex("field_split")?,
        value_split: options.regex("value_split")?,
        include_keys: options.optional_texts("include_keys")?.map(HashSet::from_iter),
        exclude_keys: options.optional_texts("exclude_keys")?.into_iter().flatten().collect(),
        target,
        ignore_missing: options.boolean("ignore_missing", false)?,
        trim_key: trimmer(options, "trim_key")?,
        trim_value: trimmer(options, "trim_value")?,
        strip_brackets: options.boolean("strip_brackets", false)?,
        prefix: options.text_or("prefix", "")?,
    })
}

/// Takes the characters to trim, as the inside of a character class.
fn trimmer(options: &mut Options, name: &str) -> Result<Option<Regex>> {
    let Some(characters) = options.optional_text(name)? else {
        return Ok(None);
    };
    // In a class of Java's, `[` opens a class inside; here it is itself, as it mostly is meant.
    let mut class = String::new();
    let mut escaped = false;
    for c in characters.chars() {
        if !escaped && matches!(c, '[' | '&' | '~') {
            class.push('\\');
        }
        escaped = c == '\\' && !escaped;
        class.push(c);
    }
    let regex = compile_regex(&format!("^[{class}]+|[{class}]+$"));
    regex.map(Some).map_err(|reason| options.error(Some(name), reason))
}

impl Processor for KeyValue {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let field = self.field.render(document, &mut run.budget)?;
        let path = if field.is_empty() {
            None
        } else {
            Some(Path::parse(&field)?)
        };
        let text = match path.and_then(|path| document.find(&path)) {
            None | Some(Value::Null) if self.ignore_missing => return Ok(Flow::Continue),
            None => return Err(Failure::illegal(format!("field [{field}] doesn't exist"))),
            Some(Value::Null) => {
                let reason = format!("field [{field}] is null, cannot extract key-value pairs.");
                return Err(Failure::illegal(reason));
            }
            Some(Value::String(text)) => text.clone(),
            Some(other) => return Err(cannot_cast(&field, other, "java.lang.String")),
        };
        run.budget.take_text(text.len())?;
        let mut prefix = match &self.target {
            Some(target) => target.render(document, &mut run.budget)?,
            None => String::new(),
        };
        if !prefix.is_empty() {
            prefix.push('.');
        }
        prefix.push_str(&self.prefix);
        for part in split(&self.field_split, &text, 0, false) {
            run.budget.take(1)?;
            let [key, value] = split(&self.value_split, part, 2, true)[..] else {
                let reason = format!("field [{field}] does not contain value_split [{}]", self.value_split);
                return Err(Failure::illegal(reason));
            };
            let key = trim(&self.trim_key, key);
            let included = self
                .include_keys
                .as_ref()
                .is_none_or(|keys| keys.contains(key.as_ref()));
            if !included || self.exclude_keys.contains(key.as_ref()) {
                continue;
            }
            let value = if self.strip_brackets {
                strip_brackets(value)
            } else {
                value
            };
            let value = trim(&self.trim_value, value);
            run.budget.write(prefix.len() + key.len() + value.len())?;
            let path = Path::parse(&format!("{prefix}{key}"))?;
            match document.find(&path) {
                Some(_) => document.append(&path, value.into(), true)?,
                None => document.set(&path, value.into())?,
            }
        }
        Ok(Flow::Continue)
    }
}

fn trim<'a>(trimmer: &Option<Regex>, text: &'a str) -> std::borrow::Cow<'a, str> {
    match trimmer {
        Some(trimmer) => trimmer.replace_all(text, ""),
        None => text.into(),
    }
}

/// Removes one bracket or quote at each end.
fn strip_brackets(text: &str) -> &str {
    let text = text.strip_prefix(['(', '[', '<', '"', '\'']).unwrap_or(text);
    text.strip_suffix([')', ']', '>', '"', '\'']).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    fn kv(more: Value) -> Value {
        let mut options = json!({"field": "f", "field_split": " ", "value_split": "="});
        for (name, value) in more.as_object().unwrap() {
            options[name] = value.clone();
        }
        json!({"kv": options})
    }

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"kv": {"field": "f"}}),
            "[field_split] required property is missing",
        );
        refused(
            json!({"kv": {"field": "f", "field_split": " "}}),
            "[value_split] required property is missing",
        );
    }

    #[test]
    fn results() {
        let target = |more: Value, text: &str, expected: Value| {
            let mut more = more;
            more["target_field"] = json!("t");
            check(kv(more), json!({"f": text}), json!({"f": text, "t": expected}));
        };
        target(json!({}), "a=1 b=x=y", json!({"a": "1", "b": "x=y"}));
        target(json!({}), "a=1 a=2 a=3", json!({"a": ["1", "2", "3"]}));
        target(json!({"include_keys": ["a"]}), "a=1 b=2", json!({"a": "1"}));
        target(json!({"exclude_keys": ["a"]}), "a=1 b=2", json!({"b": "2"}));
        target(json!({"prefix": "p_"}), "a=1", json!({"p_a": "1"}));
        target(
            json!({"strip_brackets": true}),
            "a=[1] b=\"x\" c=(y]",
            json!({"a": "1", "b": "x", "c": "y"}),
        );
        target(
            json!({"trim_key": "<>", "trim_value": "\\[\\]"}),
            "<a>=[1]",
            json!({"a": "1"}),
        );
        target(json!({"value_split": ":+"}), "a::1", json!({"a": "1"}));
        check(
            kv(json!({})),
            json!({"f": "a.b=1"}),
            json!({"f": "a.b=1", "a": {"b": "1"}}),
        );
        check(kv(json!({"ignore_missing": true})), json!({}), json!({}));
    }

    #[test]
    fn failures() {
        fails(kv(json!({})), json!({}), "field [f] doesn't exist");
        fails(
            kv(json!({})),
            json!({"f": null}),
            "field [f] is null, cannot extract key-value pairs.",
        );
        fails(
            kv(json!({})),
            json!({"f": "a"}),
            "field [f] does not contain value_split [=]",
        );
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(kv(json!({})), json!({"f": 1}), cast);
    }
}
