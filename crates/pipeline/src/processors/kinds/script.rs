//! `script`: changes the document by a script in a safe subset of Painless.

use super::super::painless;
use super::prelude::*;

#[derive(Debug)]
struct Script {
    script: painless::Script,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Script {
        script: options.script()?,
    })
}

impl Processor for Script {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        self.script.run(document, &mut run.budget)?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, check, refused, run};

    #[test]
    fn refuses_to_parse() {
        let reason = "must specify either [source] for an inline script or [id] for a stored script";
        refused(json!({"script": {}}), reason);
        refused(
            json!({"script": {"id": "x"}}),
            "a stored script ([id]) in an ingest pipeline is not implemented by firn",
        );
        refused(
            json!({"script": {"source": "1", "lang": "mustache"}}),
            "script language [mustache] is not implemented by firn",
        );
        refused(json!({"script": {"source": "ctx.a ="}}), "compile error");
    }

    #[test]
    fn results() {
        check(json!({"script": "ctx.a = 1"}), json!({}), json!({"a": 1}));
        let params = json!({"script": {"lang": "painless", "source": "ctx.a = params.x + 1; ctx.remove('b')", "params": {"x": 2}}});
        check(params, json!({"b": 1}), json!({"a": 3}));
        let (document, result) = run(
            &json!({"script": "ctx._index = ctx.t + '-x'"}),
            json!({"t": "logs"}),
            &Context::new(NOW_MS),
        );
        result.unwrap();
        assert_eq!(document.index(), "logs-x");
    }

    #[test]
    fn failures() {
        let failure = run(&json!({"script": "ctx.a.b = 1"}), json!({}), &Context::new(NOW_MS))
            .1
            .unwrap_err();
        assert_eq!(failure.reason, "runtime error");
        let root = "cannot access method/field [b] from a null def reference";
        assert_eq!(failure.root().reason, root);
    }
}
