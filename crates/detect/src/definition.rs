//! Definition of a detection rule: the body of `PUT /_firn/rules/ID`.

use std::sync::Arc;

use firn_model::dates::{DateFormat, parse_duration_ms};
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::expression::Expression;
use crate::member_kinds;
use crate::query::{Language, dsl_condition, text_condition};
use crate::rule::{Rule, Severity};
use crate::sigma;
use crate::steps::{self, Step, StepBody};
use crate::window_rule::{ChangeBody, ThresholdBody, WindowBody, WindowKind, WindowRule, WindowType};

/// Most members of each list of a definition.
pub(crate) const LIST_MAX: usize = 100;
/// Longest time before a step of an escalation.
const ESCALATION_MS_MAX: u64 = 30 * 86_400_000;
/// Longest definition in bytes of JSON. The longest rule of SigmaHQ has 300 KB, hashes of drivers.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// Body as it is written. Unknown members are refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    severity: Option<String>,
    #[serde(default)]
    risk_score: Option<u64>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    references: Option<Vec<String>>,
    #[serde(default)]
    false_positives: Option<Vec<String>>,
    #[serde(default)]
    author: Option<String>,
    #[serde(default, rename = "note")]
    _note: Option<String>,
    #[serde(default)]
    sigma: Option<String>,
    #[serde(default)]
    query: Option<Value>,
    #[serde(default)]
    language: Option<Language>,
    #[serde(default)]
    exceptions: Vec<Exception>,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    pipelines: Vec<String>,
    #[serde(default)]
    group_by: Vec<String>,
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    escalation: Vec<EscalationBody>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    threshold: Option<ThresholdBody>,
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    learn_for: Option<String>,
    #[serde(default)]
    within: Option<String>,
    #[serde(default)]
    ordered: Option<bool>,
    #[serde(default)]
    steps: Option<Vec<StepBody>>,
    #[serde(default)]
    change: Option<ChangeBody>,
    #[serde(default)]
    lateness: Option<String>,
    #[serde(default)]
    max_keys: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct EscalationBody {
    after: String,
    channels: Vec<String>,
}

/// Channels that an alert goes to if it is not acknowledged in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscalationStep {
    /// Time from the detection, ms.
    pub after_ms: u64,
    /// Ids of the channels.
    pub channels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Sigma,
    Query,
    Threshold,
    Absence,
    NewValue,
    Sequence,
    RateOfChange,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sigma => "sigma",
            Self::Query => "query",
            Self::Threshold => "threshold",
            Self::Absence => "absence",
            Self::NewValue => "new_value",
            Self::Sequence => "sequence",
            Self::RateOfChange => "rate_of_change",
        }
    }
}

/// Events that a rule does not report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(default, rename = "name")]
    _name: Option<String>,
    query: Value,
    #[serde(default)]
    language: Language,
    #[serde(default)]
    expires: Option<Value>,
}

/// Events that a rule does not report, as long as the exception holds.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleException {
    /// Condition over the common fields of the events.
    pub condition: Expression,
    /// Time from which on they are reported again, ms since the epoch; `None`: never.
    pub expires_ms: Option<i64>,
}

impl Exception {
    /// Reads the exception with this number in its list.
    fn read(&self, number: usize) -> Result<RuleException, String> {
        let place = format!("exceptions[{number}]");
        let condition = condition(&self.query, self.language).map_err(|reason| format!("[{place}]: {reason}"))?;
        let expires_ms = self.expires.as_ref().map(expiry_ms).transpose();
        Ok(RuleException {
            condition,
            expires_ms: expires_ms.map_err(|reason| format!("[{place}.expires] is a date{reason}"))?,
        })
    }
}

/// Returns the time of `expires`, a date in the default format of Elasticsearch, ms since the epoch; or the end of the sentence that says
/// that it is a date.
fn expiry_ms(expires: &Value) -> Result<i64, String> {
    let text = match expires {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(format!(", not [{other}]")),
    };
    DateFormat::default_millis()
        .parse_ms(&text)
        .map_err(|error| format!(": {}", error.reason()))
}

fn yes() -> bool {
    true
}

/// What a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The record as the source wrote it.
    Record,
    /// The event with its common fields.
    Event,
}

/// A rule with all that its definition says.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectionRule {
    /// The rule. Its id is that of the definition.
    pub rule: Arc<Rule>,
    /// What its condition reads.
    pub input: Input,
    /// A disabled rule is not evaluated.
    pub enabled: bool,
    /// 0 to 100.
    pub risk_score: u8,
    /// Events that are not reported.
    pub exceptions: Vec<RuleException>,
    /// The only tenant whose events are evaluated; `None`: those of all.
    pub tenant: Option<TenantId>,
    /// Ids of the pipelines whose events are evaluated; empty: all.
    pub pipelines: Vec<String>,
    /// Fields of the event: matches with the same values belong together.
    pub group_by: Vec<String>,
    /// Ids of the channels that deliver the alerts.
    pub channels: Vec<String>,
    /// Further channels of alerts that are not acknowledged, soonest first.
    pub escalation: Vec<EscalationStep>,
    /// What it counts in the events that match; `None`: each of them raises an alert.
    pub window: Option<WindowRule>,
    /// Conditions that are evaluated in the place of that of `rule`; empty: it has only that one.
    pub steps: Vec<Step>,
    /// Rules of a correlation that raise alerts of their own. Their ids are that of this one, a slash and their names.
    pub generated: Vec<Arc<DetectionRule>>,
    /// Hash of the definition, 16 hexadecimal digits: which version of the rule an alert is of.
    pub version: String,
}

impl DetectionRule {
    /// Reads a definition.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the rule and what of it is missing, unknown or not supported.
    pub fn parse(id: &str, body: &Map<String, Value>) -> Result<Self> {
        Self::read(id, body).map_err(|reason| Error::illegal_argument(format!("rule [{id}]: {reason}")))
    }

    fn read(id: &str, json: &Map<String, Value>) -> Result<Self, String> {
        let printed = Value::Object(json.clone()).to_string();
        if printed.len() > BYTES_MAX {
            return Err(format!(
                "a definition has at most [{BYTES_MAX}] bytes, not [{}]",
                printed.len()
            ));
        }
        member_kinds::check(json)?;
        let body: Body = serde_json::from_value(Value::Object(json.clone())).map_err(|error| error.to_string())?;
        for (name, length) in [
            ("exceptions", body.exceptions.len()),
            ("pipelines", body.pipelines.len()),
            ("group_by", body.group_by.len()),
            ("channels", body.channels.len()),
            ("escalation", body.escalation.len()),
        ] {
            if length > LIST_MAX {
                return Err(format!("[{name}] has at most [{LIST_MAX}] members"));
            }
        }
        if let Some(number) = body.pipelines.iter().position(String::is_empty) {
            return Err(format!("[pipelines[{number}]] must be the id of a pipeline, not empty"));
        }
        for (place, field) in body.group_by.iter().enumerate() {
            check_field("group_by", field)?;
            if body.group_by[..place].contains(field) {
                return Err(format!("[group_by] has [{field}] twice"));
            }
        }
        let Conditions {
            mut rule,
            input,
            steps,
            correlation,
        } = body.condition(id)?;
        let window = body.window(json, correlation.as_ref().map(|(kind, ..)| kind))?;
        let (group_by, generate) = match correlation {
            None => (body.group_by.clone(), false),
            Some(_) if !body.group_by.is_empty() => {
                return Err("[group_by] of a correlation is [correlation.group-by] of its text".to_owned());
            }
            Some((_, group_by, generate)) => (group_by, generate),
        };
        body.describe(&mut rule)?;
        let rule = Arc::new(rule);
        // Compiled here, so that a rule that cannot be evaluated is refused when it is stored.
        let compiled = match steps.is_empty() {
            true => vec![Arc::clone(&rule)],
            false => steps.iter().map(|step| Arc::clone(&step.rule)).collect(),
        };
        let refused = crate::RuleSet::compile(compiled, &crate::LogSources::Any).errors;
        if let Some(refused) = refused.into_iter().next() {
            return Err(refused.reason);
        }
        let exceptions = body.exceptions.iter().enumerate();
        let exceptions = exceptions.map(|(number, exception)| exception.read(number));
        let exceptions = exceptions.collect::<Result<Vec<_>, _>>()?;
        let risk_score = match body.risk_score {
            None => rule.severity.risk_score(),
            Some(score) => match u8::try_from(score) {
                Ok(score) if score <= 100 => score,
                _ => return Err("[risk_score] is 0 to 100".to_owned()),
            },
        };
        let tenant = body.tenant.as_deref().map(TenantId::parse).transpose();
        let mut read = Self {
            risk_score,
            rule,
            input,
            enabled: body.enabled,
            exceptions,
            tenant: tenant.map_err(|error| error.reason().to_owned())?,
            pipelines: body.pipelines,
            group_by,
            window,
            steps,
            generated: Vec::new(),
            escalation: escalation(body.escalation)?,
            channels: body.channels,
            version: crate::alert::hash(&[&printed]),
        };
        if generate {
            read.generated = read.generated();
        }
        Ok(read)
    }

    /// Returns whether events of a pipeline are evaluated.
    pub fn is_for_pipeline(&self, id: &str) -> bool {
        self.enabled && (self.pipelines.is_empty() || self.pipelines.iter().any(|own| own == id))
    }
}

/// What a definition says of the events that its rule is about.
struct Conditions {
    rule: Rule,
    input: Input,
    steps: Vec<Step>,
    /// Of a Sigma correlation: what it counts, its fields, and whether its rules raise alerts of their own.
    correlation: Option<(WindowKind, Vec<String>, bool)>,
}

impl Body {
    /// Returns the rule as its text or query has it.
    fn condition(&self, id: &str) -> Result<Conditions, String> {
        let alone = |rule: Rule, input: Input| Conditions {
            rule,
            input,
            steps: Vec::new(),
            correlation: None,
        };
        match self.kind {
            Kind::Sigma => {
                if self.query.is_some() || self.language.is_some() {
                    return Err("a rule of the type [sigma] has no [query]".to_owned());
                }
                let yaml = self
                    .sigma
                    .as_deref()
                    .ok_or("a rule of the type [sigma] needs [sigma], the rule in YAML")?;
                let loaded = sigma::load(yaml);
                if let Some(error) = loaded.errors.first() {
                    return Err(error.reason.clone());
                }
                if !loaded.correlations.is_empty() {
                    let correlated = sigma::correlate(id, loaded)?;
                    return Ok(Conditions {
                        rule: correlated.rule,
                        input: Input::Record,
                        steps: correlated.steps,
                        correlation: Some((correlated.kind, correlated.group_by, correlated.generate)),
                    });
                }
                let [rule] = <[Rule; 1]>::try_from(loaded.rules)
                    .map_err(|rules| format!("[sigma] holds {} rules, not one", rules.len()))?;
                let rule = Rule {
                    id: id.to_owned(),
                    ..rule
                };
                Ok(alone(rule, Input::Record))
            }
            kind => {
                let kind = kind.name();
                if self.sigma.is_some() {
                    return Err(format!("a rule of the type [{kind}] has no [sigma]"));
                }
                let needs = |member: &str| format!("a rule of the type [{kind}] needs [{member}]");
                if self.name.is_none() {
                    return Err(needs("name"));
                }
                if self.kind == Kind::Sequence {
                    if self.query.is_some() || self.language.is_some() {
                        return Err("a rule of the type [sequence] has a [query] in each of its [steps]".to_owned());
                    }
                    let steps = steps::read(id, self.steps.as_ref().ok_or_else(|| needs("steps"))?)?;
                    let rule = steps::rule(id.to_owned(), steps::any_of(&steps));
                    return Ok(Conditions {
                        steps,
                        ..alone(rule, Input::Event)
                    });
                }
                let query = self.query.as_ref().ok_or_else(|| needs("query"))?;
                let condition = condition(query, self.language.unwrap_or_default())?;
                Ok(alone(steps::rule(id.to_owned(), condition), Input::Event))
            }
        }
    }

    /// Reads what the rule counts; `correlation` is what its text says of it.
    fn window(
        &self,
        json: &Map<String, Value>,
        correlation: Option<&WindowKind>,
    ) -> Result<Option<WindowRule>, String> {
        let body = WindowBody {
            window: self.window.clone(),
            threshold: self.threshold.clone(),
            after: self.after.clone(),
            learn_for: self.learn_for.clone(),
            within: self.within.clone(),
            ordered: self.ordered,
            has_steps: self.steps.is_some(),
            change: self.change.clone(),
            lateness: self.lateness.clone(),
            max_keys: self.max_keys,
        };
        let kind = match self.kind {
            Kind::Sigma | Kind::Query => {
                return match correlation {
                    None => body.check_members(&[]).map(|()| None),
                    Some(kind) => body.of_kind(kind.clone(), json).map(Some),
                };
            }
            Kind::Threshold => WindowType::Threshold,
            Kind::Absence => WindowType::Absence,
            Kind::NewValue => WindowType::NewValue,
            Kind::Sequence => WindowType::Sequence,
            Kind::RateOfChange => WindowType::RateOfChange,
        };
        body.read(kind, !self.group_by.is_empty(), json).map(Some)
    }

    /// Sets what the definition says beside the condition; the rest stays as the Sigma rule has it.
    fn describe(&self, rule: &mut Rule) -> Result<(), String> {
        let set = |target: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                target.clone_from(value);
            }
        };
        set(&mut rule.title, &self.name);
        set(&mut rule.description, &self.description);
        for (target, value) in [
            (&mut rule.tags, &self.tags),
            (&mut rule.references, &self.references),
            (&mut rule.false_positives, &self.false_positives),
        ] {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        if self.author.is_some() {
            rule.author.clone_from(&self.author);
        }
        if let Some(name) = &self.severity {
            rule.severity = Severity::parse(name).ok_or_else(|| {
                format!("[severity] is one of informational, low, medium, high, critical, not [{name}]")
            })?;
        }
        if rule.title.is_empty() {
            return Err("[name] is empty".to_owned());
        }
        Ok(())
    }
}

/// Longest name of a field, bytes.
const FIELD_BYTES_MAX: usize = 512;

/// Checks that a text may be the name of a field.
pub(crate) fn check_field(member: &str, field: &str) -> Result<(), String> {
    match field.is_empty() || field.len() > FIELD_BYTES_MAX || field.contains('*') {
        true => Err(format!(
            "[{member}] names a field, of at most {FIELD_BYTES_MAX} bytes and without [*]"
        )),
        false => Ok(()),
    }
}

fn escalation(steps: Vec<EscalationBody>) -> Result<Vec<EscalationStep>, String> {
    let step = |(number, step): (usize, EscalationBody)| {
        let place = format!("escalation[{number}].after");
        if step.channels.is_empty() || step.channels.len() > LIST_MAX {
            return Err(format!("a step of [escalation] has 1 to {LIST_MAX} [channels]"));
        }
        let after_ms = parse_duration_ms(&step.after);
        let after_ms = after_ms.map_err(|error| format!("[{place}]: {}", error.reason()))?;
        if after_ms > ESCALATION_MS_MAX {
            return Err(format!("[{place}] is at most 30d, not [{}]", step.after));
        }
        Ok(EscalationStep {
            after_ms,
            channels: step.channels,
        })
    };
    let steps = steps.into_iter().enumerate().map(step);
    let mut steps = steps.collect::<Result<Vec<_>, _>>()?;
    steps.sort_by_key(|step| step.after_ms);
    Ok(steps)
}

/// Returns the condition of a query, a text or an object of the query DSL.
pub(crate) fn condition(query: &Value, language: Language) -> Result<Expression, String> {
    match query {
        Value::String(text) => text_condition(text, language),
        Value::Object(_) => dsl_condition(query),
        other => Err(format!("[query] is a text or an object, not [{other}]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::window_rule::{Measure, WindowKind};

    fn read(body: Value) -> Result<DetectionRule, String> {
        let parsed = DetectionRule::parse("r", body.as_object().unwrap());
        parsed.map_err(|error| error.reason().to_owned())
    }

    #[test]
    fn a_definition_is_read_and_its_mistakes_are_named() {
        let rule = read(json!({
            "type": "query", "name": "Logons as root", "query": "user.name: root", "severity": "high", "tenant": "alpha",
            "group_by": ["host.name"], "channels": ["mail"], "exceptions": [{"query": "host.name: lab*"}],
        }))
        .unwrap();
        assert_eq!(
            (rule.rule.id.as_str(), rule.rule.title.as_str()),
            ("r", "Logons as root")
        );
        assert_eq!((rule.input, rule.risk_score), (Input::Event, 73));
        assert!(rule.exceptions[0].expires_ms.is_none() && rule.is_for_pipeline("any"));
        let with_end = |expires: Value| {
            let exceptions = json!([{"query": "a: 1"}, {"query": "a: 1", "expires": expires}]);
            read(json!({"type": "query", "name": "x", "query": "a: 1", "exceptions": exceptions}))
        };
        for expires in [json!("2026-01-01T01:00:00+01:00"), json!(1_767_225_600_000_i64)] {
            let exception = with_end(expires).unwrap().exceptions.remove(1);
            assert_eq!(exception.expires_ms, Some(1_767_225_600_000));
        }
        for expires in [json!("soon"), json!(true)] {
            assert!(with_end(expires).unwrap_err().contains("[exceptions[1].expires]"));
        }

        let sigma = "title: Tool\nlogsource: {product: windows}\nlevel: low\ndetection: {s: {a: 1}, condition: s}\n";
        let rule = read(json!({"type": "sigma", "sigma": sigma, "risk_score": 5, "enabled": false})).unwrap();
        assert_eq!((rule.rule.title.as_str(), rule.rule.severity), ("Tool", Severity::Low));
        assert_eq!(
            (rule.input, rule.risk_score, rule.is_for_pipeline("any")),
            (Input::Record, 5, false)
        );

        let both = "title: Failed\nname: failed\nlogsource: {product: windows}\ndetection: {s: {a: 1}, condition: s}\n---\n\
            title: Many\nlevel: high\ncorrelation: {type: event_count, rules: [failed], group-by: [User], timespan: 1m, condition: {gte: 5}}\n";
        let many = read(json!({"type": "sigma", "sigma": both, "lateness": "1m"})).unwrap();
        assert_eq!(
            (many.rule.title.as_str(), many.group_by.as_slice()),
            ("Many", &["User".to_owned()][..])
        );
        assert_eq!((many.window.unwrap().lateness_ms, many.generated.len()), (60_000, 0));
        let many =
            read(json!({"type": "sigma", "sigma": format!("{both}generate: true\n"), "channels": ["mail"]})).unwrap();
        let own = &many.generated[0];
        assert_eq!((own.rule.id.as_str(), own.rule.title.as_str()), ("r/failed", "Failed"));
        assert!(own.window.is_none() && own.steps.is_empty() && own.channels == ["mail"]);

        let scan = read(json!({
            "type": "threshold", "name": "Scan", "query": "event.action: denied", "group_by": ["source.ip"], "window": "1m",
            "threshold": {"distinct": "destination.port", "at_least": 20},
        }));
        let kind = WindowKind::Threshold {
            window_ms: 60_000,
            of: Measure::Distinct("destination.port".to_owned()),
            at_least: 20.0,
        };
        assert_eq!(scan.unwrap().window.unwrap().kind, kind);

        for (body, reason) in [
            (json!({"type": "query", "query": "a: 1"}), "needs [name]"),
            (json!({"type": "query", "name": "x"}), "needs [query]"),
            (json!({"type": "query", "name": "x", "query": "a: ("}), "rule [r]: "),
            (
                json!({"type": "query", "name": "x", "query": {"fuzzy": {"a": "b"}}}),
                "[fuzzy]",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "exceptions": [{"query": "b: 1"}, {"query": "b: ("}]}),
                "rule [r]: [exceptions[1]]: ",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "pipelines": ["web", ""]}),
                "[pipelines[1]] must be the id of a pipeline, not empty",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "colour": 1}),
                "colour",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "severity": "bad"}),
                "not [bad]",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "risk_score": 101}),
                "0 to 100",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "tenant": "A b"}),
                "rule [r]: ",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "escalation": [{"after": "soon", "channels": ["c"]}]}),
                "[escalation[0].after]",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "escalation": [{"after": "31d", "channels": ["c"]}]}),
                "at most 30d",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "escalation": [{"after": "1h", "channels": []}]}),
                "[channels]",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "window": "5m"}),
                "[window]",
            ),
            (
                json!({"type": "threshold", "name": "x", "query": "a: 1", "window": "5m"}),
                "[threshold]",
            ),
            (
                json!({"type": "threshold", "name": "x", "query": "a: 1", "threshold": {"count": 2}}),
                "[window]",
            ),
            (
                json!({"type": "threshold", "name": "x", "query": "a: 1", "window": "5m", "threshold": {"distinct": "b"}}),
                "[threshold] is {",
            ),
            (
                json!({"type": "threshold", "name": "x", "query": "a: 1", "window": "2d", "threshold": {"count": 2}}),
                "[window] is 1s to 1d",
            ),
            (
                json!({"type": "absence", "name": "x", "query": "a: 1", "after": "5m"}),
                "[group_by]",
            ),
            (
                json!({"type": "new_value", "name": "x", "query": "a: 1", "group_by": ["b"], "after": "5m"}),
                "[after]",
            ),
            (
                json!({"type": "new_value", "name": "x", "query": "a: 1", "group_by": ["b"], "max_keys": 0}),
                "[max_keys]",
            ),
            (
                json!({"type": "sequence", "name": "x", "within": "5m", "steps": [{"query": "a: 1"}]}),
                "[steps] has 2 to 10",
            ),
            (
                json!({"type": "sequence", "name": "x", "steps": [{"query": "a: 1"}, {"query": "a: 2"}]}),
                "[within]",
            ),
            (
                json!({"type": "sequence", "name": "x", "within": "8d", "steps": [{"query": "a: 1"}, {"query": "a: 2"}]}),
                "[within] is 1s to 7d",
            ),
            (
                json!({"type": "sequence", "name": "x", "within": "1m", "query": "a: 1", "steps": []}),
                "[query] in each",
            ),
            (
                json!({"type": "sequence", "name": "x", "within": "1m",
                    "steps": [{"query": "a: 1", "name": "s"}, {"query": "a: 2", "name": "s"}]}),
                "[s] twice",
            ),
            (
                json!({"type": "sequence", "name": "x", "within": "1m", "steps": [{"query": "a: 1"}, {"query": "a: ("}]}),
                "step [step 2]",
            ),
            (
                json!({"type": "query", "name": "x", "query": "a: 1", "steps": []}),
                "[steps] does not belong",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m"}),
                "needs [change]",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m", "change": {"min_events": 5}}),
                "[rise_factor] or [drop_percent]",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m", "change": {"rise_factor": 1.0}}),
                "[change.rise_factor]",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m", "change": {"drop_percent": 101}}),
                "[change.drop_percent]",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m",
                    "change": {"drop_percent": 50, "baseline_windows": 0}}),
                "[change.baseline_windows]",
            ),
            (
                json!({"type": "rate_of_change", "name": "x", "query": "a: 1", "window": "5m",
                    "change": {"drop_percent": 50, "min_events": 0}}),
                "[change.min_events]",
            ),
            (json!({"type": "sigma", "sigma": "title: x"}), "rule [r]: "),
            (json!({"type": "sigma"}), "needs [sigma]"),
            (json!({"type": "other"}), "other"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }
}
