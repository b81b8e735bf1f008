//! `join`: joins the values of a list to a text.

use super::prelude::*;

#[derive(Debug)]
struct Join {
    field: Path,
    target: Path,
    separator: String,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    boxed(Join {
        target: options.target(&field)?,
        field,
        separator: options.text("separator")?,
    })
}

impl Processor for Join {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let values = match document.get(&self.field)? {
            Value::Array(values) => values,
            Value::Null => {
                let reason = format!("field [{}] is null, cannot join.", self.field.text());
                return Err(Failure::illegal(reason));
            }
            other => return Err(cannot_cast(self.field.text(), other, "java.util.List")),
        };
        let mut joined = String::new();
        for (at, value) in values.iter().enumerate() {
            let before = joined.len();
            if at > 0 {
                joined.push_str(&self.separator);
            }
            joined.push_str(&java_text(value));
            run.budget.write(joined.len() - before)?;
        }
        document.set(&self.target, joined.into())?;
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
            json!({"join": {"separator": ","}}),
            "[field] required property is missing",
        );
        refused(
            json!({"join": {"field": "f"}}),
            "[separator] required property is missing",
        );
    }

    #[test]
    fn results() {
        let join = json!({"join": {"field": "f", "separator": "-"}});
        check(
            join.clone(),
            json!({"f": ["a", 1, true, 1.5]}),
            json!({"f": "a-1-true-1.5"}),
        );
        check(join, json!({"f": []}), json!({"f": ""}));
        let target = json!({"join": {"field": "f", "separator": "", "target_field": "g.h"}});
        check(
            target,
            json!({"f": ["a", "b"]}),
            json!({"f": ["a", "b"], "g": {"h": "ab"}}),
        );
    }

    #[test]
    fn failures() {
        let join = json!({"join": {"field": "f", "separator": "-"}});
        fails(join.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(join.clone(), json!({"f": null}), "field [f] is null, cannot join.");
        let cast = "field [f] of type [java.lang.String] cannot be cast to [java.util.List]";
        fails(join, json!({"f": "a"}), cast);
    }
}
