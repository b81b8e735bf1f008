//! `trim`: removes white space from both ends of a text.

use super::prelude::*;
use super::text::{self, Change};

#[derive(Debug)]
struct Trim;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, Trim)
}

impl Change for Trim {
    fn change(&self, text: &str, _path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        // Java's `trim`: all characters up to the space.
        Ok(text.trim_matches(|c| c <= ' ').into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"trim": {}}), "[field] required property is missing");
        refused(
            json!({"trim": {"field": 1}}),
            "[field] property isn't a string, but of type [java.lang.Integer]",
        );
        refused(
            json!({"trim": {"field": "f", "x": 1}}),
            "processor [trim] doesn't support one or more provided configuration parameters [x]",
        );
    }

    #[test]
    fn failures() {
        fails(
            json!({"trim": {"field": "f"}}),
            json!({}),
            "field [f] not present as part of path [f]",
        );
        fails(
            json!({"trim": {"field": "f"}}),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(json!({"trim": {"field": "f"}}), json!({"f": 1}), cast);
        let cast = "value [1] of type [java.lang.Integer] in list field [f] cannot be cast to [java.lang.String]";
        fails(json!({"trim": {"field": "f"}}), json!({"f": ["a", 1]}), cast);
    }

    #[test]
    fn results() {
        check(
            json!({"trim": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
        check(
            json!({"trim": {"field": "f"}}),
            json!({"f": " \t a b\n"}),
            json!({"f": "a b"}),
        );
        check(
            json!({"trim": {"field": "f"}}),
            json!({"f": "\u{a0}a"}),
            json!({"f": "\u{a0}a"}),
        );
        check(
            json!({"trim": {"field": "f", "target_field": "g"}}),
            json!({"f": [" a", "b "]}),
            json!({"f": [" a", "b "], "g": ["a", "b"]}),
        );
    }
}
