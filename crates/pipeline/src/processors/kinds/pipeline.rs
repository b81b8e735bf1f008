//! `pipeline`: runs another pipeline.

use super::prelude::*;

#[derive(Debug)]
struct Call {
    name: Template,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Call {
        name: options.template("name")?,
        ignore_missing: options.boolean("ignore_missing_pipeline", false)?,
    })
}

impl Processor for Call {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let name = self.name.render(document, &mut run.budget)?;
        match run.context.pipelines.pipeline(&name) {
            Some(pipeline) => run.pipeline(&pipeline, document),
            None if self.ignore_missing => Ok(Flow::Continue),
            None => Err(Failure::illegal(format!(
                "Pipeline processor configured for non-existent pipeline [{name}]"
            ))),
        }
    }

    fn statistics_detail(&self) -> Option<String> {
        self.name.constant().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"pipeline": {}}), "[name] required property is missing");
    }

    #[test]
    fn results() {
        check(
            json!({"pipeline": {"name": "x", "ignore_missing_pipeline": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn failures() {
        let reason = "Pipeline processor configured for non-existent pipeline [legal-x]";
        fails(json!({"pipeline": {"name": "legal-{{a}}"}}), json!({"a": "x"}), reason);
    }
}
