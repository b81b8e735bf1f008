//! `uppercase`: makes a text upper case.

use super::prelude::*;
use super::text::{self, Change};

#[derive(Debug)]
struct Uppercase;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, Uppercase)
}

impl Change for Uppercase {
    fn change(&self, text: &str, _path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        Ok(text.to_uppercase().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"uppercase": {}}), "[field] required property is missing");
        refused(
            json!({"uppercase": {"field": 1}}),
            "[field] property isn't a string, but of type [java.lang.Integer]",
        );
        refused(
            json!({"uppercase": {"field": "f", "x": 1}}),
            "processor [uppercase] doesn't support one or more provided configuration parameters [x]",
        );
    }

    #[test]
    fn failures() {
        fails(
            json!({"uppercase": {"field": "f"}}),
            json!({}),
            "field [f] not present as part of path [f]",
        );
        fails(
            json!({"uppercase": {"field": "f"}}),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(json!({"uppercase": {"field": "f"}}), json!({"f": 1}), cast);
        let cast = "value [1] of type [java.lang.Integer] in list field [f] cannot be cast to [java.lang.String]";
        fails(json!({"uppercase": {"field": "f"}}), json!({"f": ["a", 1]}), cast);
    }

    #[test]
    fn results() {
        check(
            json!({"uppercase": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
        check(
            json!({"uppercase": {"field": "f"}}),
            json!({"f": "äbß"}),
            json!({"f": "ÄBSS"}),
        );
        check(
            json!({"uppercase": {"field": "f", "target_field": "a.g"}}),
            json!({"f": "x"}),
            json!({"f": "x", "a": {"g": "X"}}),
        );
    }
}
