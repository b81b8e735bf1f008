//! `registered_domain`: takes a domain apart by the public suffix list (Mozilla's, compiled in).

use super::prelude::*;

#[derive(Debug)]
struct RegisteredDomain {
    field: Path,
    prefix: String,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let target = options.text_or("target_field", "")?;
    if !target.is_empty() {
        options.parse_path("target_field", &target)?;
    }
    boxed(RegisteredDomain {
        field,
        prefix: if target.is_empty() {
            target
        } else {
            format!("{target}.")
        },
        ignore_missing: options.boolean("ignore_missing", true)?,
    })
}

impl Processor for RegisteredDomain {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let text = match document.find(&self.field) {
            None if self.ignore_missing => None,
            _ => document.get_text(&self.field)?,
        };
        let parts = text.and_then(parts);
        let Some(parts) = parts else {
            if self.ignore_missing {
                return Ok(Flow::Continue);
            }
            return Err(Failure::illegal("unable to set domain information for document"));
        };
        for (name, value) in parts {
            run.budget.write(value.len())?;
            document.set(&Path::parse(&format!("{}{name}", self.prefix))?, value.into())?;
        }
        Ok(Flow::Continue)
    }
}

/// Returns the parts of a domain, or `None` for a text without a known suffix.
fn parts(text: &str) -> Option<Vec<(&'static str, String)>> {
    let lower = text.to_lowercase();
    let suffix = psl::suffix(lower.as_bytes()).filter(psl::Suffix::is_known)?;
    let suffix = std::str::from_utf8(suffix.as_bytes()).ok()?;
    if suffix == lower {
        return Some(vec![("domain", text.to_owned()), ("top_level_domain", text.to_owned())]);
    }
    let registered = psl::domain_str(&lower)?;
    let mut parts = vec![
        ("domain", text.to_owned()),
        ("registered_domain", registered.to_owned()),
        ("top_level_domain", suffix.to_owned()),
    ];
    let subdomain = lower
        .strip_suffix(registered)
        .and_then(|subdomain| subdomain.strip_suffix('.'));
    if let Some(subdomain) = subdomain {
        parts.push(("subdomain", subdomain.to_owned()));
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"registered_domain": {}}), "[field] required property is missing");
    }

    #[test]
    fn results() {
        let parts = |domain: &str, expected: Value| {
            let options = json!({"registered_domain": {"field": "f", "target_field": "t"}});
            check(options, json!({"f": domain}), json!({"f": domain, "t": expected}));
        };
        parts(
            "www.google.co.uk",
            json!({"domain": "www.google.co.uk", "registered_domain": "google.co.uk", "top_level_domain": "co.uk", "subdomain": "www"}),
        );
        parts(
            "example.com",
            json!({"domain": "example.com", "registered_domain": "example.com", "top_level_domain": "com"}),
        );
        parts("co.uk", json!({"domain": "co.uk", "top_level_domain": "co.uk"}));
        let root = json!({"registered_domain": {"field": "f"}});
        let expected = json!({
            "f": "a.b.example.com", "domain": "a.b.example.com", "registered_domain": "example.com",
            "top_level_domain": "com", "subdomain": "a.b"
        });
        check(root.clone(), json!({"f": "a.b.example.com"}), expected);
        check(root.clone(), json!({"f": "localhost"}), json!({"f": "localhost"}));
        check(root, json!({}), json!({}));
    }

    #[test]
    fn failures() {
        let strict = json!({"registered_domain": {"field": "f", "ignore_missing": false}});
        fails(
            strict.clone(),
            json!({"f": "$"}),
            "unable to set domain information for document",
        );
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(strict, json!({"f": 1}), cast);
    }
}
