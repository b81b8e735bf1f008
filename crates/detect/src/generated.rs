//! Rules of Sigma correlations that raise alerts of their own.

use std::collections::HashMap;
use std::sync::Arc;

use crate::definition::DetectionRule;
use crate::rule::Rule;

impl DetectionRule {
    /// Returns the rules of a correlation as rules of their own.
    pub(crate) fn generated(&self) -> Vec<Arc<Self>> {
        let own = self.steps.iter().map(|step| {
            let rule = Rule {
                id: format!("{}/{}", self.rule.id, step.name),
                ..Rule::clone(&step.rule)
            };
            Arc::new(Self {
                risk_score: rule.severity.risk_score(),
                rule: Arc::new(rule),
                group_by: Vec::new(),
                window: None,
                steps: Vec::new(),
                ..self.clone()
            })
        });
        own.collect()
    }

    /// Returns rules with those that their correlations generate. A rule that several correlations generate for the same events raises its
    /// alerts once, over the channels of all: it belongs to the first of them.
    pub fn with_generated(rules: Vec<Arc<Self>>) -> Vec<Arc<Self>> {
        let mut generated: Vec<Arc<Self>> = Vec::new();
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for own in rules.iter().flat_map(|rule| &rule.generated) {
            let of_title = places.entry(own.rule.title.clone()).or_default();
            match of_title
                .iter()
                .find(|place| generated[**place].is_same_but_for_delivery(own))
            {
                None => {
                    of_title.push(generated.len());
                    generated.push(Arc::clone(own));
                }
                Some(place) => {
                    let of_first = Arc::make_mut(&mut generated[*place]);
                    let mut others = own.channels.clone();
                    others.retain(|channel| !of_first.channels.contains(channel));
                    of_first.channels.append(&mut others);
                    of_first.escalation.extend(own.escalation.iter().cloned());
                    of_first.escalation.sort_by_key(|step| step.after_ms);
                    of_first.escalation.dedup();
                }
            }
        }
        let mut all = rules;
        all.append(&mut generated);
        all
    }

    /// Whether another rule matches the same events and says the same of them; channels and escalation may differ.
    fn is_same_but_for_delivery(&self, other: &Self) -> bool {
        let condition = |rule: &Self| (rule.enabled, rule.input, rule.risk_score);
        let mut same = Rule::clone(&other.rule);
        same.id.clone_from(&self.rule.id);
        condition(self) == condition(other)
            && *self.rule == same
            && self.exceptions == other.exceptions
            && self.tenant == other.tenant
            && self.pipelines == other.pipelines
    }
}

#[cfg(test)]
mod tests {
    use firn_model::tenant::TenantId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_that_several_correlations_generate_raises_its_alerts_once() {
        let both = |title: &str| {
            format!(
                "title: Failed\nname: failed\nlogsource: {{product: windows}}\ndetection: {{s: {{a: 1}}, condition: s}}\n---\n\
                 title: {title}\nlevel: high\ngenerate: true\n\
                 correlation: {{type: event_count, rules: [failed], group-by: [User], timespan: 1m, condition: {{gte: 5}}}}\n"
            )
        };
        let parse = |id: &str, title: &str, channels: serde_json::Value| {
            let body = json!({"type": "sigma", "sigma": both(title), "channels": channels});
            DetectionRule::parse(id, body.as_object().unwrap()).unwrap()
        };
        let many = parse("r", "Many", json!(["mail"]));
        let other = Arc::new(parse("s", "Also many", json!(["chat", "mail"])));
        let all = DetectionRule::with_generated(vec![Arc::new(many.clone()), Arc::clone(&other)]);
        let shown: Vec<(&str, Vec<&str>)> = all
            .iter()
            .map(|rule| {
                (
                    rule.rule.id.as_str(),
                    rule.channels.iter().map(String::as_str).collect(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("r", vec!["mail"]),
                ("s", vec!["chat", "mail"]),
                ("r/failed", vec!["mail", "chat"])
            ]
        );
        // For other events it is another rule.
        let of_alpha = DetectionRule {
            generated: vec![Arc::new(DetectionRule {
                tenant: Some(TenantId::parse("alpha").unwrap()),
                ..DetectionRule::clone(&other.generated[0])
            })],
            ..DetectionRule::clone(&other)
        };
        assert_eq!(
            DetectionRule::with_generated(vec![Arc::new(many.clone()), Arc::new(of_alpha)]).len(),
            4
        );
    }
}
