//! Alerts in ArcSight's Common Event Format (version 0), as its implementation standard says.

use firn_detect::Severity;

use crate::notification::StoredAlert;
use crate::template::one_line;

/// Extension keys and the fields that they get.
const EXTENSIONS: [(&str, &str); 11] = [
    ("src", "source.ip"),
    ("dst", "destination.ip"),
    ("spt", "source.port"),
    ("dpt", "destination.port"),
    ("suser", "user.name"),
    ("shost", "source.domain"),
    ("dhost", "host.name"),
    ("dproc", "process.executable"),
    ("fname", "file.path"),
    ("request", "url.full"),
    ("act", "event.action"),
];

/// Longest value in characters.
const VALUE_CHARS_MAX: usize = 1023;

/// Returns the line of an alert; `detected_ms` is the time of its detection.
pub(super) fn line(alert: &StoredAlert, detected_ms: i64) -> String {
    let severity = match alert.severity() {
        Severity::Informational => 1,
        Severity::Low => 3,
        Severity::Medium => 5,
        Severity::High => 8,
        Severity::Critical => 10,
    };
    let mut line = format!(
        "CEF:0|firn|firn|{}|{}|{}|{severity}|",
        env!("CARGO_PKG_VERSION"),
        head(&alert.field("rule.id")),
        head(&alert.rule_name())
    );
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            if !line.ends_with('|') {
                line.push(' ');
            }
            line.push_str(key);
            line.push('=');
            line.push_str(&extension(value));
        }
    };
    add("rt", &detected_ms.to_string());
    add("externalId", alert.id());
    add("cnt", &alert.count().to_string());
    for (key, path) in EXTENSIONS {
        add(key, &alert.field(path));
    }
    if let Some(tenant) = alert.tenant() {
        add("cs1Label", "tenant");
        add("cs1", tenant);
    }
    add("cs2Label", "group");
    add("cs2", alert.group());
    add("msg", &alert.field("message"));
    line
}

fn head(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('|', "\\|")
}

fn extension(text: &str) -> String {
    let short: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let escaped = short.replace('\\', "\\\\").replace('=', "\\=");
    one_line(&escaped.replace("\r\n", "\\n").replace(['\n', '\r'], "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::alert;

    #[test]
    fn a_line_is_escaped_as_the_format_says() {
        let mut alert = alert("7", "a|b\\c\nd", "high");
        alert.document.insert("message".to_owned(), "x=1\r\ny\\z".into());
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            line(&alert, 1_700_000_000_000),
            format!(
                "CEF:0|firn|firn|{version}|r|a\\|b\\\\c d|8|rt=1700000000000 externalId=7 cnt=2 src=10.0.0.1 dhost=<web> \
                 cs1Label=tenant cs1=alpha cs2Label=group cs2=g msg=x\\=1\\ny\\\\z"
            )
        );
    }
}
