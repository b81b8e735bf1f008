//! `dot_expander`: makes objects of a field whose name has dots.

use super::prelude::*;

#[derive(Debug)]
struct DotExpander {
    field: String,
    path: Option<Path>,
    replace: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.text("field")?;
    if field != "*" {
        let wrong = if !field.contains('.') {
            Some("field does not contain a dot and is not a wildcard")
        } else if field.starts_with('.') || field.ends_with('.') {
            Some("Field can't start or end with a dot")
        } else if field.contains("..") {
            Some("No space between dots")
        } else {
            None
        };
        if let Some(reason) = wrong {
            return Err(options.error(Some("field"), reason));
        }
    }
    boxed(DotExpander {
        field,
        path: options.optional_path("path")?,
        replace: options.boolean("override", false)?,
    })
}

impl Processor for DotExpander {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        if self.field != "*" {
            self.expand(document, &self.field)?;
            return Ok(Flow::Continue);
        }
        let names: Vec<String> = match &self.path {
            None => document.source.keys().cloned().collect(),
            Some(path) => match document.get(path)? {
                Value::Object(fields) => fields.keys().cloned().collect(),
                other => return Err(cannot_cast(path.text(), other, "java.util.Map")),
            },
        };
        for name in names.iter().filter(|name| name.contains('.')) {
            run.budget.take(1)?;
            self.expand(document, name)?;
        }
        Ok(Flow::Continue)
    }
}

impl DotExpander {
    fn expand(&self, document: &mut Document, field: &str) -> Result<(), Failure> {
        let path = match &self.path {
            None => Path::parse(field)?,
            Some(path) => Path::parse(&format!("{}.{field}", path.text()))?,
        };
        let exists = document.find(&path).is_some();
        if !exists {
            // Else the failure of `set` would be hard to understand.
            for (at, _) in path.text().match_indices('.') {
                let partial = &path.text()[..at];
                match document.find(&Path::parse(partial)?) {
                    None => break,
                    Some(Value::Object(_)) => {}
                    Some(_) => {
                        return Err(Failure::illegal(format!(
                            "cannot expand [{}], because [{partial}] is not an object field, but a value field",
                            path.text()
                        )));
                    }
                }
            }
        }
        let fields = match &self.path {
            None => Some(&mut document.source),
            Some(path) => document.object_mut(path)?,
        };
        let Some(value) = fields.and_then(|fields| fields.shift_remove(field)) else {
            return Ok(()); // Nothing to expand.
        };
        match exists && !self.replace {
            true => document.append(&path, value, true),
            false => document.set(&path, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"dot_expander": {}}), "[field] required property is missing");
        for (field, reason) in [
            ("a", "[field] field does not contain a dot and is not a wildcard"),
            (".a", "[field] Field can't start or end with a dot"),
            ("a.", "[field] Field can't start or end with a dot"),
            ("a..b", "[field] No space between dots"),
        ] {
            refused(json!({"dot_expander": {"field": field}}), reason);
        }
    }

    #[test]
    fn results() {
        let expand = json!({"dot_expander": {"field": "a.b"}});
        check(expand.clone(), json!({"a.b": 1}), json!({"a": {"b": 1}}));
        check(
            expand.clone(),
            json!({"a.b": 1, "a": {"b": 2}}),
            json!({"a": {"b": [2, 1]}}),
        );
        check(
            expand.clone(),
            json!({"a.b": 1, "a": {"c": 2}}),
            json!({"a": {"c": 2, "b": 1}}),
        );
        check(expand, json!({"x": 1}), json!({"x": 1}));
        let replace = json!({"dot_expander": {"field": "a.b", "override": true}});
        check(replace, json!({"a.b": 1, "a": {"b": 2}}), json!({"a": {"b": 1}}));
        let path = json!({"dot_expander": {"field": "b.c", "path": "a"}});
        check(path, json!({"a": {"b.c": 1}}), json!({"a": {"b": {"c": 1}}}));
        let all = json!({"dot_expander": {"field": "*"}});
        check(
            all,
            json!({"a.b": 1, "c": 2, "d.e.f": 3}),
            json!({"c": 2, "a": {"b": 1}, "d": {"e": {"f": 3}}}),
        );
    }

    #[test]
    fn failures() {
        let reason = "cannot expand [a.b], because [a] is not an object field, but a value field";
        fails(
            json!({"dot_expander": {"field": "a.b"}}),
            json!({"a.b": 1, "a": 2}),
            reason,
        );
    }
}
