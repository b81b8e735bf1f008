//! Text of a mail: plain and HTML. What comes from events is escaped.

use std::fmt::Write as _;

use super::webhook_formats::line;
use crate::notification::Notification;
use crate::template::{html as escape, value_of};

/// Returns the plain text.
pub(super) fn plain(notification: &Notification) -> String {
    let mut text = format!("{}\n\n", notification.summary());
    match notification.single() {
        Some(alert) => {
            let description = value_of(&alert.document, "rule.description");
            if !description.is_empty() {
                let _ = writeln!(text, "{}\n", description.trim());
            }
            for (name, value) in alert.facts() {
                let _ = writeln!(text, "{name}: {value}");
            }
        }
        None => {
            let (listed, more) = notification.listed();
            for alert in listed {
                let _ = writeln!(text, "{}", line(alert));
            }
            if more > 0 {
                let _ = writeln!(text, "{more} more");
            }
        }
    }
    text
}

/// Returns the HTML text.
pub(super) fn html(notification: &Notification) -> String {
    let mut text = format!(
        "<!doctype html><html><body style=\"font-family:sans-serif\"><h3>{}</h3>",
        escape(&notification.summary())
    );
    match notification.single() {
        Some(alert) => {
            let description = value_of(&alert.document, "rule.description");
            if !description.is_empty() {
                let _ = write!(text, "<p>{}</p>", escape(description.trim()));
            }
            text.push_str("<table cellpadding=\"4\">");
            for (name, value) in alert.facts() {
                let (name, value) = (escape(&name), escape(&value));
                let _ = write!(text, "<tr><td valign=\"top\"><b>{name}</b></td><td>{value}</td></tr>");
            }
            text.push_str("</table>");
        }
        None => {
            let (listed, more) = notification.listed();
            text.push_str("<ul>");
            for alert in listed {
                let _ = write!(text, "<li>{}</li>", escape(&line(alert)));
            }
            text.push_str("</ul>");
            if more > 0 {
                let _ = write!(text, "<p>{more} more</p>");
            }
        }
    }
    text.push_str("</body></html>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::alert;

    #[test]
    fn what_events_hold_is_no_markup() {
        let one = Notification::new("c", vec![alert("1", "<script>alert(1)</script>", "high")]);
        let text = html(&one);
        assert!(!text.contains("<script>") && text.contains("&lt;script&gt;"), "{text}");
        assert!(text.contains("<td>&lt;web&gt;</td>"), "{text}");
        assert!(plain(&one).contains("host.name: <web>"));

        let alerts = (0..25).map(|number| alert(&number.to_string(), "<i>", "low")).collect();
        let many = Notification::new("c", alerts);
        assert!(plain(&many).ends_with("5 more\n") && html(&many).contains("<p>5 more</p>"));
        assert!(!html(&many).contains("<i>"));
    }
}
