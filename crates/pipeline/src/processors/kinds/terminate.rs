//! `terminate`: ends the current pipeline; a pipeline that called it continues.

use super::prelude::*;

#[derive(Debug)]
struct Terminate;

pub(crate) fn parse(_options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Terminate)
}

impl Processor for Terminate {
    fn run(&self, _document: &mut Document, _run: &mut Run<'_>) -> Result<Flow, Failure> {
        Ok(Flow::Terminate)
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
            json!({"terminate": {"x": 1}}),
            "processor [terminate] doesn't support one or more provided configuration parameters [x]",
        );
    }

    #[test]
    fn results() {
        let (_, result) = run(&json!({"terminate": {}}), json!({}), &Context::new(NOW_MS));
        assert_eq!(result, Ok(Outcome::Indexed));
    }
}
