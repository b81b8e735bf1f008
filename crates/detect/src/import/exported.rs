//! firn's own format of rules: one rule a line, `{"id": ID, "definition": {…}}`, and a last line with counts.

use serde_json::{Map, Value, json};

/// Members of a line.
pub(super) const ID: &str = "id";
pub(super) const DEFINITION: &str = "definition";
/// Member of the last line, as in Kibana's exports.
pub(super) const COUNT: &str = "exported_count";

/// Returns the line of a rule. An import of it stores the same definition.
pub fn rule_line(id: &str, definition: &Map<String, Value>) -> String {
    let mut line = json!({ ID: id, DEFINITION: definition }).to_string();
    line.push('\n');
    line
}

/// Returns the last line: how many rules were exported, and which of those that were asked for do not exist.
pub fn summary_line(exported: usize, missing: &[String]) -> String {
    let mut line = json!({
        COUNT: exported, "exported_rules_count": exported, "missing_rules": missing, "missing_rules_count": missing.len(),
    })
    .to_string();
    line.push('\n');
    line
}

/// Returns the YAML of a Sigma rule as a document that others may follow; `None` for a rule of another type. The bytes are those that
/// were stored; a line feed is added to a text that ends without one.
pub fn sigma_text(definition: &Map<String, Value>) -> Option<String> {
    if definition.get("type").and_then(Value::as_str) != Some("sigma") {
        return None;
    }
    let sigma = definition.get("sigma").and_then(Value::as_str)?;
    let end = if sigma.ends_with('\n') { "" } else { "\n" };
    Some(format!("---\n{sigma}{end}"))
}
