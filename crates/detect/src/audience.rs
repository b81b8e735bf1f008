//! Which channels deliver an alert.

use firn_model::tenant::TenantId;

use crate::definition::DetectionRule;
use crate::rule::Severity;

/// Alerts that a channel may get, and those that it gets although their rules do not name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    /// Id of the channel.
    pub channel: String,
    /// The only tenant whose alerts it may get; `None`: those of all.
    pub tenant: Option<TenantId>,
    /// Least severity of the alerts that it gets in any case; `None`: only those of rules that name it.
    pub subscribes_from: Option<Severity>,
}

/// Returns the channels that deliver an alert of a rule: those that the rule names, without those of other tenants, and those that
/// subscribe to it. A channel that is not among `audiences` is kept: it may be stored a moment later.
pub fn channels_of<'a>(rule: &'a DetectionRule, tenant: Option<&TenantId>, audiences: &'a [Audience]) -> Vec<&'a str> {
    let may_get = |audience: &Audience| audience.tenant.is_none() || audience.tenant.as_ref() == tenant;
    let named = rule.channels.iter().filter(|channel| {
        let audience = audiences.iter().find(|audience| audience.channel == **channel);
        audience.is_none_or(may_get)
    });
    let mut channels: Vec<&str> = named.map(String::as_str).collect();
    let subscribes = |audience: &&Audience| {
        let from = audience.subscribes_from;
        from.is_some_and(|from| rule.rule.severity >= from) && may_get(audience)
    };
    channels.extend(
        audiences
            .iter()
            .filter(subscribes)
            .map(|audience| audience.channel.as_str()),
    );
    channels.sort_unstable();
    channels.dedup();
    channels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_channel_of_a_tenant_gets_the_alerts_of_that_tenant_alone() {
        let body = json!({"type": "query", "name": "r", "query": "a: 1", "severity": "high", "channels": ["alpha", "new", "ops"]});
        let rule = DetectionRule::parse("r", body.as_object().unwrap()).unwrap();
        let tenant = |name: &str| TenantId::parse(name).unwrap();
        let audience = |channel: &str, tenant: Option<TenantId>, subscribes_from| Audience {
            channel: channel.to_owned(),
            tenant,
            subscribes_from,
        };
        let audiences = [
            audience("alpha", Some(tenant("alpha")), None),
            audience("bravo", Some(tenant("bravo")), Some(Severity::Low)),
            audience("ops", None, Some(Severity::Medium)),
            audience("all", None, Some(Severity::High)),
            audience("worst", None, Some(Severity::Critical)),
        ];
        let of = |tenant: Option<&TenantId>| channels_of(&rule, tenant, &audiences);
        assert_eq!(of(Some(&tenant("alpha"))), ["all", "alpha", "new", "ops"]);
        assert_eq!(of(Some(&tenant("bravo"))), ["all", "bravo", "new", "ops"]);
        assert_eq!(of(None), ["all", "new", "ops"]);
    }
}
