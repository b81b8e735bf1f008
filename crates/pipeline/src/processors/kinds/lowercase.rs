//! `lowercase`: makes a text lower case.

use super::prelude::*;
use super::text::{self, Change};

#[derive(Debug)]
struct Lowercase;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, Lowercase)
}

impl Change for Lowercase {
    fn change(&self, text: &str, _path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        Ok(text.to_lowercase().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"lowercase": {}}), "[field] required property is missing");
        refused(
            json!({"lowercase": {"field": 1}}),
            "[field] property isn't a string, but of type [java.lang.Integer]",
        );
        refused(
            json!({"lowercase": {"field": "f", "x": 1}}),
            "processor [lowercase] doesn't support one or more provided configuration parameters [x]",
        );
    }

    #[test]
    fn failures() {
        fails(
            json!({"lowercase": {"field": "f"}}),
            json!({}),
            "field [f] not present as part of path [f]",
        );
        fails(
            json!({"lowercase": {"field": "f"}}),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(json!({"lowercase": {"field": "f"}}), json!({"f": 1}), cast);
        let cast = "value [1] of type [java.lang.Integer] in list field [f] cannot be cast to [java.lang.String]";
        fails(json!({"lowercase": {"field": "f"}}), json!({"f": ["a", 1]}), cast);
    }

    #[test]
    fn results() {
        check(
            json!({"lowercase": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
        check(
            json!({"lowercase": {"field": "f"}}),
            json!({"f": "ÄbC"}),
            json!({"f": "äbc"}),
        );
        check(
            json!({"lowercase": {"field": "a.f"}}),
            json!({"a": {"f": ["X", "y"]}}),
            json!({"a": {"f": ["x", "y"]}}),
        );
    }
}
