//! What a channel sends: one alert, or several in one message.

use firn_detect::Severity;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::alert_documents::AlertKey;
use crate::template::{one_line, value_of};

/// Alerts that a message lists by name; those beyond are counted.
pub(crate) const LISTED_MAX: usize = 20;

/// Alert that is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredAlert {
    pub(crate) key: AlertKey,
    pub(crate) document: Map<String, Value>,
}

impl StoredAlert {
    pub(crate) fn field(&self, path: &str) -> String {
        value_of(&self.document, path)
    }

    /// Returns a member of `firn.alert`.
    fn state(&self, name: &str) -> Option<&Value> {
        self.document.get("firn")?.get("alert")?.get(name)
    }

    /// Identifies the alert: the same after a repetition of what raised it.
    pub(crate) fn id(&self) -> &str {
        self.state("id").and_then(Value::as_str).unwrap_or(&self.key.id)
    }

    pub(crate) fn rule_name(&self) -> String {
        match self.field("rule.name") {
            name if name.is_empty() => self.field("rule.id"),
            name => name,
        }
    }

    pub(crate) fn tenant(&self) -> Option<&str> {
        self.document.get("tenant").and_then(Value::as_str)
    }

    pub(crate) fn severity(&self) -> Severity {
        let name = self.state("severity").and_then(Value::as_str).unwrap_or_default();
        Severity::parse(name).unwrap_or_default()
    }

    /// Identifies the alerts of a rule that belong together.
    pub(crate) fn group(&self) -> &str {
        self.state("group").and_then(Value::as_str).unwrap_or_else(|| self.id())
    }

    /// Number of events that the alert stands for.
    pub(crate) fn count(&self) -> u64 {
        self.state("count").and_then(Value::as_u64).unwrap_or(1)
    }

    /// Returns names and values that a reader wants to see first, those without a value left out.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut add = |name: &str, value: String| {
            if !value.is_empty() && !facts.iter().any(|(known, _)| known == name) {
                facts.push((name.to_owned(), one_line(&value)));
            }
        };
        for (name, path) in [
            ("Rule", "rule.id"),
            ("Severity", "firn.alert.severity"),
            ("Risk score", "firn.alert.risk_score"),
            ("Tenant", "tenant"),
            ("Detected", "@timestamp"),
            ("Event time", "firn.alert.event.time"),
        ] {
            add(name, self.field(path));
        }
        if self.count() > 1 {
            add("Events", self.count().to_string());
        }
        if let Some(Value::Object(group_by)) = self.state("group_by") {
            for name in group_by.keys() {
                let values = group_by.get(name).and_then(Value::as_array);
                let values: Vec<String> = values.into_iter().flatten().map(text_of).collect();
                add(name, values.join(", "));
            }
        }
        for path in [
            "host.name",
            "user.name",
            "source.ip",
            "destination.ip",
            "process.executable",
            "process.command_line",
            "file.path",
            "url.full",
            "event.action",
            "message",
            "threat.technique.id",
            "firn.alert.event.index",
            "firn.alert.event.id",
        ] {
            add(path, shortened(&self.field(path)));
        }
        facts
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Longest value in a list of facts, in characters.
const FACT_CHARS_MAX: usize = 500;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FACT_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// One message of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    /// Id of the channel.
    pub(crate) channel: String,
    /// Identifies the message, also after a repetition: receivers can drop what they have. 32 hexadecimal digits.
    pub(crate) id: String,
    /// At least one, oldest first.
    pub(crate) alerts: Vec<StoredAlert>,
}

impl Notification {
    /// Creates a message. `alerts` holds at least one.
    pub(crate) fn new(channel: &str, alerts: Vec<StoredAlert>) -> Self {
        let mut hash = Sha256::new();
        for part in std::iter::once(channel).chain(alerts.iter().map(StoredAlert::id)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        Self {
            channel: channel.to_owned(),
            id: digest[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
            alerts,
        }
    }

    /// Returns the alert if it is one; `None`: there are several.
    pub(crate) fn single(&self) -> Option<&StoredAlert> {
        match &self.alerts[..] {
            [alert] => Some(alert),
            _ => None,
        }
    }

    /// Returns the highest severity.
    pub(crate) fn severity(&self) -> Severity {
        self.alerts.iter().map(StoredAlert::severity).max().unwrap_or_default()
    }

    /// Returns the alerts that a message lists, and how many more there are.
    pub(crate) fn listed(&self) -> (&[StoredAlert], usize) {
        let listed = &self.alerts[..self.alerts.len().min(LISTED_MAX)];
        (listed, self.alerts.len() - listed.len())
    }

    /// Returns one line that says what it is about.
    pub(crate) fn summary(&self) -> String {
        let line = match self.single() {
            Some(alert) => {
                let tenant = alert.tenant().map(|tenant| format!(" ({tenant})")).unwrap_or_default();
                format!("[{}] {}{tenant}", alert.severity().name(), alert.rule_name())
            }
            None => {
                let mut counts: Vec<(String, usize)> = Vec::new();
                for name in self.alerts.iter().map(StoredAlert::rule_name) {
                    match counts.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, count)) => *count += 1,
                        None => counts.push((name, 1)),
                    }
                }
                counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                let first: Vec<String> = counts
                    .iter()
                    .take(3)
                    .map(|(name, count)| format!("{name} ({count})"))
                    .collect();
                let more = if counts.len() > first.len() { ", …" } else { "" };
                let severity = self.severity().name();
                format!("[{severity}] {} alerts: {}{more}", self.alerts.len(), first.join(", "))
            }
        };
        one_line(&line)
    }
}

/// Alerts for the tests of this crate.
#[cfg(test)]
pub(crate) fn alert(id: &str, rule: &str, severity: &str) -> StoredAlert {
    let document = serde_json::json!({
        "@timestamp": "2026-01-02T00:00:00.000Z", "tenant": "alpha", "rule": {"id": "r", "name": rule},
        "host": {"name": "<web>"}, "source": {"ip": "10.0.0.1"},
        "firn": {"alert": {"id": id, "status": "open", "severity": severity, "risk_score": 73, "group": "g", "count": 2,
            "group_by": {"user.name": ["root"]}, "pending": ["c"], "event": {"index": "web", "id": "1"}}},
    });
    StoredAlert {
        key: AlertKey {
            index: ".ds-.alerts-alpha-000001".to_owned(),
            id: format!("doc-{id}"),
            routing: None,
        },
        document: document.as_object().cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_it_is_about() {
        let one = Notification::new("c", vec![alert("1", "Logon\r\nas root", "high")]);
        assert_eq!(one.summary(), "[high] Logon  as root (alpha)");
        let facts = one.single().unwrap().facts();
        assert!(
            facts.contains(&("user.name".to_owned(), "root".to_owned())),
            "{facts:?}"
        );
        assert!(facts.contains(&("Events".to_owned(), "2".to_owned())), "{facts:?}");

        let many = ["a", "b", "b", "c", "d", "b"].iter().zip(0..);
        let many = many
            .map(|(rule, number)| alert(&number.to_string(), rule, "low"))
            .collect();
        let many = Notification::new("c", many);
        assert_eq!(many.summary(), "[low] 6 alerts: b (3), a (1), c (1), …");
        assert!(many.single().is_none());
    }

    #[test]
    fn a_message_has_the_same_id_again() {
        let of = |channel: &str, ids: &[&str]| {
            Notification::new(channel, ids.iter().map(|id| alert(id, "r", "low")).collect()).id
        };
        assert_eq!(of("c", &["1", "2"]), of("c", &["1", "2"]));
        assert_ne!(of("c", &["1", "2"]), of("c", &["12"]));
        assert_ne!(of("c", &["1"]), of("d", &["1"]));
        assert_eq!(of("c", &["1"]).len(), 32);
    }
}
