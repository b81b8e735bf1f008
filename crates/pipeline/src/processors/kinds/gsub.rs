//! `gsub`: replaces the matches of a regular expression.

use regex::Regex;

use super::prelude::*;
use super::text::{self, Change};

#[derive(Debug)]
struct Gsub {
    pattern: Regex,
    replacement: String,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let pattern = options.regex("pattern")?;
    let replacement = options.text("replacement")?;
    let replacement = rust_replacement(&replacement).map_err(|reason| options.error(Some("replacement"), reason))?;
    text::parse(options, Gsub { pattern, replacement })
}

impl Change for Gsub {
    fn change(&self, text: &str, _path: &str, budget: &mut Budget) -> Result<Value, Failure> {
        let (mut out, mut end) = (String::new(), 0);
        for captures in self.pattern.captures_iter(text) {
            let matched = captures.get_match();
            out.push_str(&text[end..matched.start()]);
            captures.expand(&self.replacement, &mut out);
            end = matched.end();
            budget.take(1)?;
            if out.len() as u64 > budget.output_bytes {
                budget.write(out.len())?;
            }
        }
        out.push_str(&text[end..]);
        Ok(out.into())
    }
}

/// Rewrites a replacement of Java (`$1`, `${name}`, `\$`) for the `regex` crate.
fn rust_replacement(java: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(java.len());
    let mut chars = java.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('$') => out.push_str("$$"),
                Some(other) => out.push(other),
                None => return Err("character to be escaped is missing"),
            },
            '$' if chars.peek() == Some(&'{') => {
                let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                out.push('$');
                out.push_str(&name);
                out.push('}');
            }
            '$' => {
                let mut group = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    group.push(digit);
                }
                if group.is_empty() {
                    return Err("Illegal group reference");
                }
                out.push_str(&format!("${{{group}}}"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"gsub": {"field": "f"}}),
            "[pattern] required property is missing",
        );
        refused(
            json!({"gsub": {"field": "f", "pattern": "a"}}),
            "[replacement] required property is missing",
        );
        let replacement = "[replacement] Illegal group reference";
        refused(
            json!({"gsub": {"field": "f", "pattern": "a", "replacement": "$x"}}),
            replacement,
        );
        let error =
            crate::processors::tests::parse(&json!({"gsub": {"field": "f", "pattern": "[", "replacement": ""}}));
        assert!(
            error
                .unwrap_err()
                .reason()
                .starts_with("[pattern] Invalid regex pattern. ")
        );
    }

    #[test]
    fn results() {
        let gsub = |pattern: &str, replacement: &str| json!({"gsub": {"field": "f", "pattern": pattern, "replacement": replacement}});
        check(gsub("\\.", "-"), json!({"f": "1.2.3"}), json!({"f": "1-2-3"}));
        check(gsub("(a)(b)", "$2$1x"), json!({"f": "abab"}), json!({"f": "baxbax"}));
        check(gsub("(?P<n>a)", "<${n}>"), json!({"f": "a"}), json!({"f": "<a>"}));
        check(gsub("a", "\\$1"), json!({"f": "a"}), json!({"f": "$1"}));
        check(gsub("x", ""), json!({"f": ["ax", "xb"]}), json!({"f": ["a", "b"]}));
    }

    #[test]
    fn failures() {
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(
            json!({"gsub": {"field": "f", "pattern": "a", "replacement": ""}}),
            json!({"f": 1}),
            cast,
        );
    }
}
