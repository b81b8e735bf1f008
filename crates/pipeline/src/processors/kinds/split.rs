//! `split`: splits a text at a regular expression.

use regex::Regex;

use super::prelude::*;

#[derive(Debug)]
struct Split {
    field: Path,
    target: Path,
    separator: Regex,
    ignore_missing: bool,
    preserve_trailing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    boxed(Split {
        target: options.target(&field)?,
        field,
        separator: options.regex("separator")?,
        ignore_missing: options.boolean("ignore_missing", false)?,
        preserve_trailing: options.boolean("preserve_trailing", false)?,
    })
}

impl Processor for Split {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = document.value_or_missing(&self.field, self.ignore_missing, "split")?;
        let text = match value {
            None => return Ok(Flow::Continue),
            Some(Value::String(text)) => text,
            Some(other) => return Err(cannot_cast(self.field.text(), other, "java.lang.String")),
        };
        run.budget.take_text(text.len())?;
        run.budget.write(text.len())?;
        let parts = split(&self.separator, text, 0, self.preserve_trailing);
        run.budget.take(parts.len() as u64)?;
        let parts = parts.into_iter().map(Value::from).collect();
        document.set(&self.target, Value::Array(parts))?;
        Ok(Flow::Continue)
    }
}

/// Splits as Java does: at most `limit` parts (0: any number), no empty part before a match of no length at the start,
/// and no empty parts at the end unless `preserve_trailing` or a limit is set.
pub(super) fn split<'a>(separator: &Regex, text: &'a str, limit: usize, preserve_trailing: bool) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for found in separator.find_iter(text) {
        if limit > 0 && parts.len() + 1 == limit {
            break;
        }
        // Matches of no length at the ends split nothing off.
        if found.is_empty() && (found.start() == 0 || found.start() == text.len()) {
            continue;
        }
        parts.push(&text[start..found.start()]);
        start = found.end();
    }
    parts.push(&text[start..]);
    if !preserve_trailing && limit == 0 {
        while parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        if parts.len() == 1 && parts[0].is_empty() && !text.is_empty() {
            parts.pop();
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"split": {"separator": ","}}),
            "[field] required property is missing",
        );
        refused(
            json!({"split": {"field": "f"}}),
            "[separator] required property is missing",
        );
    }

    #[test]
    fn results() {
        let same = |separator: &str, text: &str, expected: Value| {
            let split = json!({"split": {"field": "f", "separator": separator}});
            check(split, json!({"f": text}), json!({"f": expected}));
        };
        same(",", "a,b,,c,,", json!(["a", "b", "", "c"]));
        same("\\s+", "a  b c", json!(["a", "b", "c"]));
        same(",", "abc", json!(["abc"]));
        same(",", "", json!([""]));
        same(",", ",,", json!([]));
        same(",", ",a", json!(["", "a"]));
        same("", "abc", json!(["a", "b", "c"]));
        let preserve = json!({"split": {"field": "f", "separator": ",", "preserve_trailing": true}});
        check(preserve, json!({"f": "a,,"}), json!({"f": ["a", "", ""]}));
        let ignore = json!({"split": {"field": "f", "separator": ",", "ignore_missing": true, "target_field": "g"}});
        check(ignore.clone(), json!({}), json!({}));
        check(ignore, json!({"f": "1,2"}), json!({"f": "1,2", "g": ["1", "2"]}));
    }

    #[test]
    fn failures() {
        let split = json!({"split": {"field": "f", "separator": ","}});
        fails(split.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(split.clone(), json!({"f": null}), "field [f] is null, cannot split.");
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(split, json!({"f": 1}), cast);
    }
}
