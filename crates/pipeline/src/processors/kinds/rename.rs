//! `rename`: moves a field.

use super::prelude::*;

#[derive(Debug)]
struct Rename {
    field: Template,
    target: Template,
    ignore_missing: bool,
    replace: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(Rename {
        field: options.template("field")?,
        target: options.template("target_field")?,
        ignore_missing: options.boolean("ignore_missing", false)?,
        replace: options.boolean("override", false)?,
    })
}

impl Processor for Rename {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let field = self.field.render(document, &mut run.budget)?;
        let path = if field.is_empty() {
            None
        } else {
            Some(Path::parse(&field)?)
        };
        let Some(path) = path.filter(|path| document.find(path).is_some()) else {
            if self.ignore_missing {
                return Ok(Flow::Continue);
            }
            return Err(Failure::illegal(format!("field [{field}] doesn't exist")));
        };
        let target = self.target.path(document, &mut run.budget)?;
        if !self.replace && document.find(&target).is_some() {
            return Err(Failure::illegal(format!("field [{}] already exists", target.text())));
        }
        // Removed first: a field may become its own parent (`a` to `a.b`).
        let value = document.remove(&path)?;
        if let Err(failure) = document.set(&target, value.clone()) {
            document.set(&path, value)?;
            return Err(failure);
        }
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"rename": {"target_field": "a"}}),
            "[field] required property is missing",
        );
        refused(
            json!({"rename": {"field": "a"}}),
            "[target_field] required property is missing",
        );
    }

    #[test]
    fn results() {
        let rename = |from: &str, to: &str| json!({"rename": {"field": from, "target_field": to}});
        check(rename("a", "b"), json!({"a": 1}), json!({"b": 1}));
        check(
            rename("a.b", "c.d"),
            json!({"a": {"b": null}}),
            json!({"a": {}, "c": {"d": null}}),
        );
        check(rename("a", "a.b"), json!({"a": 1}), json!({"a": {"b": 1}}));
        check(
            rename("{{x}}", "b"),
            json!({"x": "a", "a": 1}),
            json!({"x": "a", "b": 1}),
        );
        let ignore = json!({"rename": {"field": "a", "target_field": "b", "ignore_missing": true}});
        check(ignore, json!({}), json!({}));
        let replace = json!({"rename": {"field": "a", "target_field": "b", "override": true}});
        check(replace, json!({"a": 1, "b": 2}), json!({"b": 1}));
    }

    #[test]
    fn failures() {
        let rename = json!({"rename": {"field": "a", "target_field": "b"}});
        fails(rename.clone(), json!({}), "field [a] doesn't exist");
        fails(rename, json!({"a": 1, "b": 1}), "field [b] already exists");
        let reason = "cannot set [c] with parent object of type [java.lang.Integer] as part of path [b.c]";
        fails(
            json!({"rename": {"field": "a", "target_field": "b.c"}}),
            json!({"a": 1, "b": 1}),
            reason,
        );
    }
}
