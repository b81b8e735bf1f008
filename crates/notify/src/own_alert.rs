//! Alerts of firn itself, for the operator: no rule of a user raises them.

use std::collections::BTreeSet;

use firn_detect::{MaintenanceWindows, Severity};
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Engine, RequestContext};
use firn_model::Result;
use serde_json::{Map, Value, json};

use crate::channel::Channel;

const DATA_STREAM: &str = ".alerts-default";

/// Alert of firn itself.
pub(crate) struct OwnAlert<'a> {
    /// Id in the place of that of a rule.
    pub(crate) rule: &'static str,
    pub(crate) name: String,
    pub(crate) description: &'static str,
    pub(crate) message: String,
    pub(crate) severity: Severity,
    /// Field and value of what it is about; alerts about the same have the same group.
    pub(crate) about: (&'static str, &'a str),
    /// Channel that does not deliver it.
    pub(crate) except_channel: Option<&'a str>,
    /// Time, RFC 3339.
    pub(crate) now: &'a str,
}

impl OwnAlert<'_> {
    /// Stores the alert. Channels that subscribe to the alerts of all tenants deliver it, and none in a maintenance window that names its
    /// rule.
    ///
    /// # Errors
    /// Of the engine: it is not stored.
    pub(crate) async fn store(
        &self,
        engine: &dyn Engine,
        all: &[Channel],
        maintenance: &MaintenanceWindows,
    ) -> Result<()> {
        let mut document = self.document(all);
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

    pub(crate) fn document(&self, all: &[Channel]) -> Map<String, Value> {
        let subscribed = all.iter().filter(|channel| {
            Some(channel.id.as_str()) != self.except_channel
                && channel.tenant.is_none()
                && channel.subscribes_from.is_some_and(|least| least <= self.severity)
        });
        let pending: BTreeSet<&str> = subscribed.map(|channel| channel.id.as_str()).collect();
        let (field, value) = self.about;
        let document = json!({
            "@timestamp": self.now,
            "event": {"kind": "signal"},
            "message": self.message,
            "rule": {"id": self.rule, "name": self.name, "description": self.description},
            "firn": {"alert": {
                "status": "open", "severity": self.severity.name(), "risk_score": self.severity.risk_score(), "count": 1,
                "group": format!("{}-{value}", self.rule), "group_by": {field: [value]}, "event": {"time": self.now},
                "pending": pending,
            }},
        });
        document.as_object().cloned().unwrap_or_default()
    }
}
