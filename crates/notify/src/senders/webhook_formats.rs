//! Bodies of webhooks, for firn's own format and for services that receive alerts.

use firn_detect::Severity;
use serde_json::{Value, json};

use crate::channel::WebhookFormat;
use crate::notification::{Notification, StoredAlert};

pub(super) const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";
pub(super) const OPSGENIE_URL: &str = "https://api.opsgenie.com/v2/alerts";
/// Longest `message` of Opsgenie, and longest `summary` of PagerDuty, in characters.
const OPSGENIE_MESSAGE_MAX: usize = 130;
const PAGERDUTY_SUMMARY_MAX: usize = 1024;
/// Bytes of the alerts that a body of firn's own format holds, as JSON; the first one is always there.
const ALERT_BYTES_MAX: usize = 1 << 20;

/// Returns the body of a request. `key` is the routing key of PagerDuty.
pub(super) fn body(format: WebhookFormat, notification: &Notification, key: Option<&str>) -> Value {
    match format {
        WebhookFormat::Json => own(notification),
        WebhookFormat::Slack => json!({"text": slack(notification)}),
        WebhookFormat::Teams => teams(notification),
        WebhookFormat::Pagerduty => pagerduty(notification, key.unwrap_or_default()),
        WebhookFormat::Opsgenie => opsgenie(notification),
    }
}

fn own(notification: &Notification) -> Value {
    let mut alerts: Vec<Value> = Vec::new();
    let mut bytes = 0;
    for alert in &notification.alerts {
        let mut document = alert.document.clone();
        document.insert("_index".to_owned(), alert.key.index.as_str().into());
        document.insert("_id".to_owned(), alert.key.id.as_str().into());
        let document = Value::Object(document);
        bytes += document.to_string().len();
        if bytes > ALERT_BYTES_MAX && !alerts.is_empty() {
            break;
        }
        alerts.push(document);
    }
    json!({
        "id": notification.id,
        "channel": notification.channel,
        "summary": notification.summary(),
        "severity": notification.severity().name(),
        "count": notification.alerts.len(),
        "alerts": alerts,
    })
}

/// Escapes a text for Slack's markup, as its documentation says.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn slack(notification: &Notification) -> String {
    let mut text = format!("*{}*", slack_text(&notification.summary()));
    match notification.single() {
        Some(alert) => {
            for (name, value) in alert.facts() {
                text.push_str(&format!("\n• {}: {}", slack_text(&name), slack_text(&value)));
            }
        }
        None => {
            let (listed, more) = notification.listed();
            for alert in listed {
                text.push_str(&format!("\n• {}", slack_text(&line(alert))));
            }
            if more > 0 {
                text.push_str(&format!("\n{more} more"));
            }
        }
    }
    text
}

/// Returns one line about an alert among others.
pub(super) fn line(alert: &StoredAlert) -> String {
    let group: Vec<String> = ["host.name", "user.name", "source.ip"]
        .iter()
        .map(|path| alert.field(path))
        .filter(|value| !value.is_empty())
        .collect();
    let tenant = alert.tenant().map(|tenant| format!(" ({tenant})")).unwrap_or_default();
    let time = alert.field("@timestamp");
    crate::template::one_line(&format!(
        "{time} [{}] {}{tenant} {}",
        alert.severity().name(),
        alert.rule_name(),
        group.join(" ")
    ))
}

fn teams(notification: &Notification) -> Value {
    let block = |text: String, bold: bool| json!({"type": "TextBlock", "text": text, "wrap": true, "weight": if bold { "Bolder" } else { "Default" }});
    let mut body = vec![block(plain_markdown(&notification.summary()), true)];
    match notification.single() {
        Some(alert) => {
            let facts = alert
                .facts()
                .into_iter()
                .map(|(title, value)| json!({"title": title, "value": plain_markdown(&value)}));
            body.push(json!({"type": "FactSet", "facts": facts.collect::<Vec<_>>()}));
        }
        None => {
            let (listed, more) = notification.listed();
            body.extend(listed.iter().map(|alert| block(plain_markdown(&line(alert)), false)));
            if more > 0 {
                body.push(block(format!("{more} more"), false));
            }
        }
    }
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
                "body": body,
            },
        }],
    })
}

/// Makes links and emphasis of a text plain: cards are Markdown.
fn plain_markdown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_[]()<>#".contains(character) {
            plain.push('\\');
        }
        plain.push(character);
    }
    plain
}

fn first_chars(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Returns names and values of one alert, or the lines of several.
fn details(notification: &Notification) -> Value {
    match notification.single() {
        Some(alert) => alert
            .facts()
            .into_iter()
            .map(|(name, value)| (name, Value::from(value)))
            .collect(),
        None => {
            let (listed, more) = notification.listed();
            let lines: Vec<String> = listed.iter().map(line).collect();
            json!({"alerts": lines.join("\n"), "more": more.to_string()})
        }
    }
}

/// Alerts of a group are one incident.
fn incident(notification: &Notification) -> &str {
    notification.single().map_or(&notification.id, StoredAlert::group)
}

fn pagerduty(notification: &Notification, routing_key: &str) -> Value {
    let severity = match notification.severity() {
        Severity::Critical => "critical",
        Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Informational => "info",
    };
    let source = notification
        .single()
        .map(|alert| alert.field("host.name"))
        .filter(|host| !host.is_empty());
    json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": incident(notification),
        "payload": {
            "summary": first_chars(&notification.summary(), PAGERDUTY_SUMMARY_MAX),
            "source": source.as_deref().unwrap_or("firn"),
            "severity": severity,
            "custom_details": details(notification),
        },
    })
}

fn opsgenie(notification: &Notification) -> Value {
    let priority = match notification.severity() {
        Severity::Critical => "P1",
        Severity::High => "P2",
        Severity::Medium => "P3",
        Severity::Low => "P4",
        Severity::Informational => "P5",
    };
    json!({
        "message": first_chars(&notification.summary(), OPSGENIE_MESSAGE_MAX),
        "alias": incident(notification),
        "priority": priority,
        "source": "firn",
        "details": details(notification),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::alert;

    #[test]
    fn services_get_what_they_read() {
        let one = Notification::new("c", vec![alert("1", "Scan <now>", "critical")]);
        let of = |format| body(format, &one, Some("route"));
        let sent = of(WebhookFormat::Json);
        assert_eq!((&sent["count"], &sent["severity"]), (&json!(1), &json!("critical")));
        assert_eq!(sent["alerts"][0]["_id"], "doc-1");
        let slack = of(WebhookFormat::Slack);
        let text = slack["text"].as_str().unwrap();
        assert!(
            text.starts_with("*[critical] Scan &lt;now&gt; (alpha)*\n• Rule: r"),
            "{text}"
        );
        assert!(text.contains("host.name: &lt;web&gt;"), "{text}");
        let teams = of(WebhookFormat::Teams);
        let card = &teams["attachments"][0]["content"];
        assert_eq!(card["body"][0]["text"], "\\[critical\\] Scan \\<now\\> \\(alpha\\)");
        let pager = of(WebhookFormat::Pagerduty);
        assert_eq!(
            (&pager["routing_key"], &pager["dedup_key"]),
            (&json!("route"), &json!("g"))
        );
        assert_eq!(pager["payload"]["source"], "<web>");
        let genie = of(WebhookFormat::Opsgenie);
        assert_eq!((&genie["priority"], &genie["alias"]), (&json!("P1"), &json!("g")));
        assert_eq!(genie["details"]["user.name"], "root");
    }

    #[test]
    fn a_digest_lists_some_and_counts_the_others() {
        let alerts = (0..37)
            .map(|number| alert(&number.to_string(), "Scan", "low"))
            .collect();
        let many = Notification::new("c", alerts);
        let slack = body(WebhookFormat::Slack, &many, None);
        let text = slack["text"].as_str().unwrap();
        assert!(text.starts_with("*[low] 37 alerts: Scan (37)*"), "{text}");
        assert!(text.ends_with("\n17 more"), "{text}");
        assert_eq!(text.lines().count(), 22);
        assert_eq!(
            body(WebhookFormat::Json, &many, None)["alerts"]
                .as_array()
                .unwrap()
                .len(),
            37
        );
        assert_eq!(body(WebhookFormat::Opsgenie, &many, None)["alias"], many.id);
    }
}
