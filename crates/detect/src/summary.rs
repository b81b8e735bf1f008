//! What a list of rules shows of a definition.

use serde_json::{Map, Value};

use crate::rule::Severity;
use crate::sigma;

/// Members that a summary has as the definition has them.
const COPIED: [&str; 4] = ["type", "enabled", "tenant", "channels"];

/// Returns `type`, `name`, `severity`, `enabled` and `tags` of a definition, and its `tenant` and `channels` if it has any. What a
/// definition of a Sigma rule leaves out is read from the rule; the rule is not compiled.
pub fn rule_summary(id: &str, definition: &Map<String, Value>) -> Map<String, Value> {
    let mut summary = Map::new();
    for name in COPIED {
        if let Some(value) = definition.get(name) {
            summary.insert(name.to_owned(), value.clone());
        }
    }
    summary.entry("enabled").or_insert(true.into());
    let own = ["name", "severity", "tags"].map(|name| definition.get(name).filter(|value| !value.is_null()).cloned());
    let sigma = definition.get("sigma").and_then(Value::as_str);
    let headline = match sigma.filter(|_| own.iter().any(Option::is_none)) {
        Some(yaml) => sigma::headline(yaml),
        None => None,
    };
    let headline = headline.unwrap_or_else(|| sigma::Headline {
        title: id.to_owned(),
        ..sigma::Headline::default()
    });
    let [name, severity, tags] = own;
    summary.insert("name".to_owned(), name.unwrap_or_else(|| headline.title.into()));
    let of_rule = || Severity::name(headline.severity).into();
    summary.insert("severity".to_owned(), severity.unwrap_or_else(of_rule));
    summary.insert("tags".to_owned(), tags.unwrap_or_else(|| headline.tags.into()));
    summary
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_has_what_the_sigma_rule_says_unless_the_definition_does() {
        let check = |definition: Value, expect: Value| {
            assert_eq!(
                Value::Object(rule_summary("id", definition.as_object().unwrap())),
                expect
            );
        };
        let sigma = "title: Tool\nlogsource: {product: windows}\nlevel: low\ntags: [attack.t1]\ndetection: {s: {a: 1}, condition: s}\n";
        check(
            json!({"type": "sigma", "sigma": sigma, "channels": ["mail"]}),
            json!({"type": "sigma", "channels": ["mail"], "enabled": true, "name": "Tool", "severity": "low", "tags": ["attack.t1"]}),
        );
        check(
            json!({"type": "sigma", "sigma": sigma, "name": "Mine", "severity": "high", "tags": [], "enabled": false}),
            json!({"type": "sigma", "enabled": false, "name": "Mine", "severity": "high", "tags": []}),
        );
        check(
            json!({"type": "query", "query": "*", "name": "All", "tenant": "acme", "description": "long"}),
            json!({"type": "query", "tenant": "acme", "enabled": true, "name": "All", "severity": "medium", "tags": []}),
        );
        check(
            json!({"type": "sigma", "sigma": "title: ["}),
            json!({"type": "sigma", "enabled": true, "name": "id", "severity": "medium", "tags": []}),
        );
    }
}
