//! The alert that a channel fails, for the operator.

use std::collections::BTreeSet;

use firn_detect::{MaintenanceWindows, Severity};
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Engine, RequestContext};
use firn_model::Result;
use serde_json::{Map, Value, json};

use crate::channel::Channel;

const DATA_STREAM: &str = ".alerts-default";
const RULE: &str = "firn-channel-failing";
const SEVERITY: Severity = Severity::High;

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
    let mut document = document(channel, reason, now, all);
    maintenance.suppress_own(&mut document);
    let item = BulkItem {
        index: DATA_STREAM.to_owned(),
        id: None,
        routing: None,
        operation: Operation::Create {
            source: serde_json::to_vec(&document)?.into(),
        },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: true,
    };
    let request = BulkRequest {
        items: vec![item],
        refresh: Refresh::Now,
        ..BulkRequest::default()
    };
    let response = engine.bulk(&RequestContext::new(), request).await?;
    response.items.into_iter().try_for_each(|item| item.result.map(drop))
}

fn document(channel: &str, reason: &str, now: &str, all: &[Channel]) -> Map<String, Value> {
    let subscribed = all.iter().filter(|other| {
        other.id != channel && other.tenant.is_none() && other.subscribes_from.is_some_and(|least| least <= SEVERITY)
    });
    let pending: BTreeSet<&str> = subscribed.map(|channel| channel.id.as_str()).collect();
    let document = json!({
        "@timestamp": now,
        "event": {"kind": "signal"},
        "message": format!("the channel [{channel}] does not deliver alerts: {reason}"),
        "rule": {
            "id": RULE, "name": format!("Channel {channel} fails"),
            "description": "A channel does not deliver alerts. They stay pending and are tried again; those that the receiver refuses for good are listed with the channel in firn.alert.failed, and can be sent again.",
        },
        "firn": {"alert": {
            "status": "open", "severity": SEVERITY.name(), "risk_score": SEVERITY.risk_score(), "count": 1,
            "group": format!("{RULE}-{channel}"), "group_by": {"channel": [channel]}, "event": {"time": now}, "pending": pending,
        }},
    });
    document.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
        let alert = document("fails", "why", "2026-01-01T00:00:00Z", &all);
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
