//! The alert that a detection rule exhausts the budget of its owner, for the operator.

use firn_detect::{Severity, Throttle};

use crate::own_alert::OwnAlert;

const RULE: &str = "firn-rule-budget-exhausted";

/// Returns the alert of a throttle.
pub(crate) fn alert<'a>(throttle: &'a Throttle, now: &'a str) -> OwnAlert<'a> {
    let rule = throttle.rule.as_str();
    let owner = match &throttle.tenant {
        Some(tenant) => format!("of the tenant [{tenant}]"),
        None => "of the operator".to_owned(),
    };
    let seconds = (throttle.until_ns - throttle.since_ns) / 1_000_000_000;
    let does = match throttle.is_skipped {
        true => format!("it is not evaluated for {seconds} s"),
        false => "it counts several events and does not pause".to_owned(),
    };
    let (used, limit) = (throttle.share * 100.0, throttle.share_max * 100.0);
    OwnAlert {
        rule: RULE,
        name: format!("Rule {rule} exhausts the budget"),
        description: "A detection rule uses so much CPU time that the rules of its owner exceed rules.budget. The rule pauses, and the events without it are a hole in its coverage, which firn later fills from stored events if possible. A rule over several events is only reported and does not pause. Make the rule cheaper, or raise the budget.",
        message: format!(
            "the rule [{rule}] uses {used:.2} % of a core, and all rules {owner} may use {limit:.2} %: {does}"
        ),
        severity: Severity::High,
        about: ("rule", rule),
        except_channel: None,
        now,
    }
}

#[cfg(test)]
mod tests {
    use firn_model::tenant::TenantId;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_alert_names_the_rule_its_use_and_what_becomes_of_it() {
        let throttle = Throttle {
            rule: "slow".to_owned(),
            version: "v".to_owned(),
            tenant: Some(TenantId::parse("alpha").unwrap()),
            is_skipped: true,
            share: 0.75,
            share_max: 0.5,
            since_ns: 0,
            until_ns: 300_000_000_000,
        };
        let found = alert(&throttle, "2026-01-01T00:00:00Z").document(&[]);
        assert_eq!(
            found["message"],
            "the rule [slow] uses 75.00 % of a core, and all rules of the tenant [alpha] may use 50.00 %: it is not evaluated for 300 s"
        );
        assert_eq!(found["rule"]["id"], "firn-rule-budget-exhausted");
        assert_eq!(found["firn"]["alert"]["group_by"], json!({"rule": ["slow"]}));
        let counting = Throttle {
            is_skipped: false,
            tenant: None,
            ..throttle
        };
        let found = alert(&counting, "2026-01-01T00:00:00Z").document(&[]);
        let message = found["message"].as_str().unwrap();
        assert!(
            message.ends_with("all rules of the operator may use 50.00 %: it counts several events and does not pause"),
            "{message}"
        );
    }
}
