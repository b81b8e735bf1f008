//! `fail`: fails with a message.

use super::prelude::*;

#[derive(Debug)]
struct Fail {
    message: Template,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Fail {
        message: options.template("message")?,
    })
}

impl Processor for Fail {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let message = self.message.render(document, &mut run.budget)?;
        Err(Failure::new(FailureKind::Fail, message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{NOW_MS, fails, refused, run};
    use crate::processors::{Context, FailureKind};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"fail": {}}), "[message] required property is missing");
    }

    #[test]
    fn failures() {
        fails(json!({"fail": {"message": "no {{a}}"}}), json!({"a": 1}), "no 1");
        let fail = json!({"fail": {"message": "m", "tag": "t"}});
        let failure = run(&fail, json!({}), &Context::new(NOW_MS)).1.unwrap_err();
        assert_eq!(
            (failure.kind, failure.processor_type),
            (FailureKind::Fail, Some("fail"))
        );
        assert_eq!(failure.processor_tag.as_deref(), Some("t"));
    }
}
