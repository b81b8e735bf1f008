//! Escalation: an alert that is not acknowledged in time goes to further channels.
//!
//! An alert has `firn.alert.escalation`, a list of `{"at": time, "channels": […]}`, and `escalate_at`, the next of these times.

use firn_model::dates::DateFormat;
use serde_json::{Map, Value};

use crate::alert_documents::{names, set};

/// Returns the members of `firn.alert` that change because it is `now`; `None`: none, because nothing is due, or because the alert
/// is no longer open.
pub(crate) fn escalate(state: &Map<String, Value>, now: &str) -> Option<Map<String, Value>> {
    if state.get("status").and_then(Value::as_str) != Some("open") {
        return None;
    }
    let now = millis(now)?;
    let due_at = state.get("escalate_at").and_then(Value::as_str).and_then(millis)?;
    if due_at > now {
        return None;
    }
    let mut pending = names(state, "pending");
    let mut next: Option<(i64, &str)> = None;
    for step in state.get("escalation").and_then(Value::as_array).into_iter().flatten() {
        let Some(text) = step.get("at").and_then(Value::as_str) else {
            continue;
        };
        let Some(at) = millis(text) else { continue };
        if at > now {
            next = Some(next.map_or((at, text), |earliest| earliest.min((at, text))));
        } else if at >= due_at {
            pending.extend(step.as_object().map(|step| names(step, "channels")).unwrap_or_default());
        }
    }
    let mut changed = Map::new();
    set(&mut changed, "pending", pending);
    changed.insert(
        "escalate_at".to_owned(),
        next.map_or(Value::Null, |(_, text)| text.into()),
    );
    Some(changed)
}

fn millis(text: &str) -> Option<i64> {
    DateFormat::default_millis().parse_ms(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_step_is_taken_once_and_only_while_the_alert_is_open() {
        let mut alert = json!({
            "status": "open", "pending": ["mail"], "escalate_at": "2026-01-01T00:10:00Z",
            "escalation": [
                {"at": "2026-01-01T00:10:00Z", "channels": ["phone"]}, {"at": "2026-01-01T00:20:00Z", "channels": ["boss", "phone"]},
            ],
        });
        let of = |alert: &Value, now: &str| escalate(alert.as_object().unwrap(), now);
        assert!(of(&alert, "2026-01-01T00:09:59Z").is_none());
        let first = of(&alert, "2026-01-01T00:10:00Z").unwrap();
        assert_eq!(first["pending"], json!(["mail", "phone"]));
        assert_eq!(first["escalate_at"], "2026-01-01T00:20:00Z");
        // Both at once after a pause.
        let late = of(&alert, "2026-01-01T01:00:00Z").unwrap();
        assert_eq!(late["pending"], json!(["boss", "mail", "phone"]));
        assert_eq!(late["escalate_at"], Value::Null);

        alert["escalate_at"] = first["escalate_at"].clone();
        alert["pending"] = json!([]);
        assert_eq!(
            of(&alert, "2026-01-01T00:20:00Z").unwrap()["pending"],
            json!(["boss", "phone"])
        );
        alert["escalate_at"] = Value::Null;
        assert!(of(&alert, "2026-01-01T00:30:00Z").is_none());
        alert["escalate_at"] = "2026-01-01T00:20:00Z".into();
        alert["status"] = "acknowledged".into();
        assert!(of(&alert, "2026-01-01T00:30:00Z").is_none());
    }
}
