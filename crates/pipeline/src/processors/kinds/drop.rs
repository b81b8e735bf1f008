//! `drop`: ends the pipelines; the document is not indexed, and that is no error.

use super::prelude::*;

#[derive(Debug)]
struct Drop;

pub(crate) fn parse(_options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Drop)
}

impl Processor for Drop {
    fn run(&self, _document: &mut Document, _run: &mut Run<'_>) -> Result<Flow, Failure> {
        Ok(Flow::Drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{NOW_MS, refused, run};
    use crate::processors::{Context, Outcome};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"drop": {"field": "f"}}),
            "processor [drop] doesn't support one or more provided configuration parameters [field]",
        );
    }

    #[test]
    fn results() {
        let (_, result) = run(&json!({"drop": {}}), json!({}), &Context::new(NOW_MS));
        assert_eq!(result, Ok(Outcome::Dropped));
    }

    #[test]
    fn a_false_condition_indexes() {
        let (_, result) = run(&json!({"drop": {"if": "false"}}), json!({}), &Context::new(NOW_MS));
        assert_eq!(result, Ok(Outcome::Indexed));
    }
}
