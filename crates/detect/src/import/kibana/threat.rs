//! Tactics and techniques of MITRE ATT&CK as tags.

use serde_json::{Map, Value};

use super::members::{objects, text};
use crate::import::NotTaken;

/// Adds tags such as `attack.defense-evasion` and `attack.t1059.001`, as Sigma rules have them.
pub(super) fn add_tags(
    rule: &Map<String, Value>,
    tags: &mut Vec<String>,
    not_taken: &mut Vec<NotTaken>,
) -> Result<(), String> {
    let mut add = |name: &str| {
        let tag = format!("attack.{}", name.trim().to_ascii_lowercase().replace([' ', '_'], "-"));
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    };
    for threat in objects(rule, "threat")? {
        let framework = text(threat, "framework")?.unwrap_or_default();
        if !framework.starts_with("MITRE ATT&CK") {
            not_taken.push(NotTaken::new(
                "threat",
                format!("tags name tactics and techniques of MITRE ATT&CK, not of [{framework}]"),
            ));
            continue;
        }
        if let Some(tactic) = threat.get("tactic").and_then(Value::as_object)
            && let Some(name) = text(tactic, "name")?
        {
            add(name);
        }
        for technique in objects(threat, "technique")? {
            if let Some(id) = text(technique, "id")? {
                add(id);
            }
            for subtechnique in objects(technique, "subtechnique")? {
                if let Some(id) = text(subtechnique, "id")? {
                    add(id);
                }
            }
        }
    }
    Ok(())
}
