//! The alert that a channel fails, for the operator.

use firn_detect::{MaintenanceWindows, Severity};
use firn_engine::Engine;
use firn_model::Result;

use crate::channel::Channel;
use crate::own_alert::OwnAlert;

const RULE: &str = "firn-channel-failing";

/// Stores an alert that a channel fails. Channels that subscribe to the alerts of all tenants deliver it, but for the one that fails, and
/// none in a maintenance window that names its rule.
pub(crate) async fn raise(
    engine: &dyn Engine,
    channel: &str,
    reason: &str,
    now: &str,
    all: &[Channel],
    maintenance: &MaintenanceWindows,
) -> Result<()> {
    alert(channel, reason, now).store(engine, all, maintenance).await
}

fn alert<'a>(channel: &'a str, reason: &str, now: &'a str) -> OwnAlert<'a> {
    OwnAlert {
        rule: RULE,
        name: format!("Channel {channel} fails"),
        description: "A channel does not deliver alerts. They stay pending, and firn retries them. Alerts that the receiver refuses permanently list the channel in firn.alert.failed; you can send them again.",
        message: format!("the channel [{channel}] does not deliver alerts: {reason}"),
        severity: Severity::High,
        about: ("channel", channel),
        except_channel: Some(channel),
        now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_alert_goes_to_subscribed_channels_of_the_operator_but_not_to_the_failing_one() {
        let channel = |id: &str, members: Value| {
            let mut body = json!({"type": "webhook", "url": "https://example.com"});
            body.as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            Channel::parse(id, body.as_object().unwrap()).unwrap()
        };
        let all = [
            channel("fails", json!({"subscribe": {}})),
            channel("all", json!({"subscribe": {}})),
            channel("worst", json!({"subscribe": {"min_severity": "critical"}})),
            channel("named", json!({})),
            channel("alpha", json!({"subscribe": {}, "tenant": "alpha"})),
        ];
        let alert = super::alert("fails", "why", "2026-01-01T00:00:00Z").document(&all);
        assert_eq!(alert["firn"]["alert"]["pending"], json!(["all"]));
        assert_eq!(alert["message"], "the channel [fails] does not deliver alerts: why");

        // Only a maintenance window that names it suppresses it.
        let suppressed = |members: Value| {
            let mut body = json!({"title": "t", "start": "2026-01-01", "duration": "1h"});
            body.as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            let window = firn_detect::MaintenanceWindow::parse("w", body.as_object().unwrap()).unwrap();
            let mut alert = alert.clone();
            MaintenanceWindows::new(vec![window]).suppress_own(&mut alert);
            alert["firn"]["alert"]["pending"] == json!([])
        };
        assert!(!suppressed(json!({})));
        assert!(!suppressed(json!({"rules": ["another"]})));
        assert!(suppressed(json!({"rules": [RULE]})));
    }
}
