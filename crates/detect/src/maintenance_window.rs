//! Maintenance windows: times in which alerts are stored and not delivered, as in Kibana.
//!
//! An alert is marked when it is raised, in the same write that stores it, and not when it is delivered: what the windows say at the time
//! of the detection is then in the alert, and no later change of a window can lose it or deliver it. A marked alert names no channel
//! that is to deliver it and has no escalation. It is open, is found like all others, and `_resend` delivers it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use firn_model::dates::{DateFormat, Zone, is_relative_to_now, parse_duration_ms};
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::definition::condition;
use crate::evaluator::Evaluator;
use crate::log_sources::{LogSource, LogSources};
use crate::query::Language;
use crate::recurrence::{Every, Recurrence};
use crate::rule::{Rule, Severity};
use crate::rule_set::RuleSet;

/// Longest title, in bytes.
const TITLE_BYTES_MAX: usize = 1000;
/// Most rules that a window names.
const RULES_MAX: usize = 1000;
/// Longest definition in bytes of JSON.
const BYTES_MAX: usize = 64 << 10;
/// Most occurrences that a window may count.
const COUNT_MAX: u32 = 1000;
const DAY_MS: i64 = 86_400_000;
/// Longest occurrence of a window that occurs once, ms.
const DURATION_MS_MAX: i64 = 366 * DAY_MS;
/// The year 9000, ms since the epoch.
const START_MS_MAX: i64 = 221_845_392_000_000;
const WEEKDAYS: [&str; 7] = ["mo", "tu", "we", "th", "fr", "sa", "su"];

/// Body as it is written. Unknown members are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    title: String,
    start: Value,
    #[serde(default)]
    end: Option<Value>,
    #[serde(default)]
    duration: Option<String>,
    #[serde(default)]
    repeat: Option<RepeatBody>,
    #[serde(default)]
    timezone: Option<String>,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    rules: Option<Vec<String>>,
    #[serde(default)]
    min_severity: Option<String>,
    #[serde(default)]
    query: Option<Value>,
    #[serde(default)]
    language: Option<Language>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepeatBody {
    every: EveryName,
    #[serde(default)]
    weekdays: Option<Vec<String>>,
    #[serde(default)]
    until: Option<Value>,
    #[serde(default)]
    count: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EveryName {
    Day,
    Week,
    Month,
}

/// A maintenance window: when it is, and which alerts it is for.
#[derive(Debug, Clone)]
pub struct MaintenanceWindow {
    id: String,
    when: Recurrence,
    zone: Zone,
    tenant: Option<TenantId>,
    /// `None`: all.
    rules: Option<BTreeSet<String>>,
    min_severity: Severity,
    /// One rule, whose condition is the query.
    query: Option<Arc<RuleSet>>,
}

impl MaintenanceWindow {
    /// Reads a definition, the body of `PUT /_firn/maintenance_windows/ID`.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the window and what of it is missing, unknown or not supported.
    pub fn parse(id: &str, body: &Map<String, Value>) -> Result<Self> {
        Self::read(id, body).map_err(|reason| Error::illegal_argument(format!("maintenance window [{id}]: {reason}")))
    }

    fn read(id: &str, json: &Map<String, Value>) -> Result<Self, String> {
        let json = Value::Object(json.clone());
        let bytes = json.to_string().len();
        if bytes > BYTES_MAX {
            return Err(format!("a definition has at most [{BYTES_MAX}] bytes, not [{bytes}]"));
        }
        if json.get("repeat").is_some_and(|repeat| !repeat.is_object()) {
            return Err("[repeat] is an object".to_owned());
        }
        let body: Body = serde_json::from_value(json).map_err(|error| error.to_string())?;
        if body.title.trim().is_empty() || body.title.len() > TITLE_BYTES_MAX {
            return Err(format!("[title] has 1 to {TITLE_BYTES_MAX} bytes"));
        }
        let zone = match body.timezone.as_deref() {
            None => Zone::utc(),
            Some(name) => Zone::parse(name).map_err(|error| format!("[timezone]: {}", error.reason()))?,
        };
        let tenant = body.tenant.as_deref().map(TenantId::parse).transpose();
        let min_severity = match body.min_severity.as_deref() {
            None => Severity::Informational,
            Some(name) => Severity::parse(name).ok_or_else(|| {
                format!("[min_severity] is one of informational, low, medium, high, critical, not [{name}]")
            })?,
        };
        if let Some(rules) = &body.rules
            && (rules.is_empty() || rules.len() > RULES_MAX)
        {
            return Err(format!(
                "[rules] has 1 to {RULES_MAX} ids; without it a window is for all rules"
            ));
        }
        let query = match (&body.query, body.language) {
            (None, Some(_)) => return Err("[language] belongs to a [query]".to_owned()),
            (None, None) => None,
            (Some(query), language) => Some(compiled(id, query, language.unwrap_or_default())?),
        };
        Ok(Self {
            id: id.to_owned(),
            when: body.when(&zone)?,
            zone,
            tenant: tenant.map_err(|error| error.reason().to_owned())?,
            rules: body.rules.map(|rules| rules.into_iter().collect()),
            min_severity,
            query,
        })
    }

    /// Returns whether it is active at a time (ms since the epoch), until when, and when it starts next; times are RFC 3339 in the
    /// zone of the window, `null` if there is none.
    pub fn status(&self, now_ms: i64) -> Value {
        let state = self.when.state(now_ms);
        let format = DateFormat::default_millis();
        let print = |ms: Option<i64>| ms.map(|ms| format.print_ms(ms, &self.zone));
        json!({
            "active": state.active_until_ms.is_some(), "active_until": print(state.active_until_ms),
            "next_start": print(state.next_start_ms),
        })
    }

    fn names(&self, rule: &str) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.contains(rule))
    }

    /// Whether it is for an alert, active or not.
    fn is_for(&self, alert: &Map<String, Value>, rule: &str) -> bool {
        let tenant = alert.get("tenant").and_then(Value::as_str);
        if self.tenant.as_ref().is_some_and(|own| tenant != Some(own.as_str())) {
            return false;
        }
        if self.rules.is_some() && !self.names(rule) {
            return false;
        }
        let severity = alert
            .get("firn")
            .and_then(|firn| firn.get("alert")?.get("severity")?.as_str());
        let severity = severity.and_then(Severity::parse).unwrap_or_default();
        if severity < self.min_severity {
            return false;
        }
        let Some(query) = &self.query else { return true };
        let mut evaluator = Evaluator::new(Arc::clone(query));
        evaluator.begin();
        evaluator.push_object(alert);
        let mut matches = Vec::new();
        evaluator.evaluate(&mut matches);
        !matches.is_empty()
    }
}

impl Body {
    fn when(&self, zone: &Zone) -> Result<Recurrence, String> {
        let start_ms = instant("start", &self.start, zone)?;
        let duration_ms = match (&self.end, &self.duration) {
            (Some(end), None) => instant("end", end, zone)? - start_ms,
            (None, Some(duration)) => {
                let ms = parse_duration_ms(duration).map_err(|error| format!("[duration]: {}", error.reason()))?;
                i64::try_from(ms).unwrap_or(i64::MAX)
            }
            _ => return Err("a window needs either [end] or [duration]".to_owned()),
        };
        let (length_ms_max, length) = match self.repeat.as_ref().map(|repeat| repeat.every) {
            None => (DURATION_MS_MAX, "366 days"),
            Some(EveryName::Day) => (DAY_MS, "24 hours if it repeats each day"),
            Some(EveryName::Week) => (7 * DAY_MS, "7 days if it repeats each week"),
            Some(EveryName::Month) => (28 * DAY_MS, "28 days if it repeats each month"),
        };
        if duration_ms <= 0 || duration_ms > length_ms_max {
            return Err(format!("a window ends after its start, and takes at most {length}"));
        }
        let once = Recurrence::once(start_ms, duration_ms, zone.clone());
        match &self.repeat {
            None => Ok(once),
            Some(repeat) => repeat.apply(once, zone),
        }
    }
}

impl RepeatBody {
    fn apply(&self, once: Recurrence, zone: &Zone) -> Result<Recurrence, String> {
        let mut weekdays = None;
        if let Some(names) = &self.weekdays {
            if self.every == EveryName::Month || names.is_empty() {
                return Err("[weekdays] has at least one day, and belongs to [every] [day] or [week]".to_owned());
            }
            let of = weekdays.insert([false; 7]);
            for name in names {
                let place = WEEKDAYS.iter().position(|known| known == name);
                let place =
                    place.ok_or_else(|| format!("[weekdays] are any of {}, not [{name}]", WEEKDAYS.join(", ")))?;
                of[place] = true;
            }
        } else if self.every == EveryName::Week {
            weekdays.insert([false; 7])[once.first_weekday()] = true;
        }
        if self.until.is_some() && self.count.is_some() {
            return Err("[until] and [count] exclude each other".to_owned());
        }
        if self.count.is_some_and(|count| count == 0 || count > COUNT_MAX) {
            return Err(format!("[count] is 1 to {COUNT_MAX}"));
        }
        let until = self
            .until
            .as_ref()
            .map(|until| instant("until", until, zone))
            .transpose()?;
        let every = match self.every {
            EveryName::Day | EveryName::Week => Every::Day,
            EveryName::Month => Every::Month,
        };
        let repeated = once.repeat(every, weekdays, until, self.count);
        match repeated.state(-1).next_start_ms {
            Some(_) => Ok(repeated),
            None => Err("a window that repeats occurs at least once: [until] is before its start".to_owned()),
        }
    }
}

/// Reads a date, or a number of ms since the epoch. A date without an offset is in the zone.
fn instant(member: &str, value: &Value, zone: &Zone) -> Result<i64, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(format!("[{member}] is a date, not [{other}]")),
    };
    if is_relative_to_now(&text) || text.contains("||") {
        return Err(format!("[{member}] is a date, not [{text}]"));
    }
    let parsed = DateFormat::default_millis().parse_math_ms(&text, 0, false, zone);
    let ms = parsed.map_err(|error| format!("[{member}]: {}", error.reason()))?;
    match (0..START_MS_MAX).contains(&ms) {
        true => Ok(ms),
        false => Err(format!("[{member}] is from 1970 to the year 9000, not [{text}]")),
    }
}

fn compiled(id: &str, query: &Value, language: Language) -> Result<Arc<RuleSet>, String> {
    let rule = Rule {
        id: id.to_owned(),
        title: String::new(),
        description: String::new(),
        severity: Severity::default(),
        tags: Vec::new(),
        references: Vec::new(),
        false_positives: Vec::new(),
        author: None,
        log_source: LogSource::default(),
        condition: condition(query, language)?,
    };
    let compiled = RuleSet::compile(vec![rule], &LogSources::Any);
    match compiled.errors.into_iter().next() {
        Some(error) => Err(error.reason),
        None => Ok(Arc::new(compiled.rules)),
    }
}

/// Windows of a node. Several threads may use them at once.
#[derive(Debug, Default)]
pub struct MaintenanceWindows {
    windows: Vec<MaintenanceWindow>,
    /// Places of the windows that are active at a time: the alerts of a batch have the same.
    active: Mutex<Option<(i64, Arc<[usize]>)>>,
}

impl MaintenanceWindows {
    /// Creates a set of windows.
    pub fn new(windows: Vec<MaintenanceWindow>) -> Self {
        Self {
            windows,
            active: Mutex::default(),
        }
    }

    /// Marks an alert of a rule if any window is for it at its `@timestamp`, the time of the detection: `firn.alert.maintenance_windows`
    /// has the ids, and it is neither delivered nor escalated. To be called before the alert is stored.
    pub fn suppress(&self, alert: &mut Map<String, Value>) {
        self.mark(alert, |_, _| true);
    }

    /// As [`MaintenanceWindows::suppress`], for an alert of firn itself: only windows that name its rule are for it, so that
    /// one for all alerts does not hide that firn is in trouble.
    pub fn suppress_own(&self, alert: &mut Map<String, Value>) {
        self.mark(alert, MaintenanceWindow::names);
    }

    fn mark(&self, alert: &mut Map<String, Value>, may_be_for: impl Fn(&MaintenanceWindow, &str) -> bool) {
        if self.windows.is_empty() {
            return;
        }
        // An alert without a time is delivered.
        let detected = alert.get("@timestamp").and_then(Value::as_str);
        let Some(detected_ms) = detected.and_then(|time| DateFormat::default_millis().parse_ms(time).ok()) else {
            return;
        };
        // Not by its path: the copy of the event may have a field with the name [rule.id].
        let rule = alert.get("rule").and_then(|rule| rule.get("id")?.as_str());
        let rule = rule.unwrap_or_default().to_owned();
        let active = self.active_at(detected_ms);
        let windows = active.iter().filter_map(|place| self.windows.get(*place));
        let windows = windows.filter(|window| may_be_for(window, &rule) && window.is_for(alert, &rule));
        let ids: Vec<Value> = windows.map(|window| window.id.as_str().into()).collect();
        if ids.is_empty() {
            return;
        }
        let state = alert.get_mut("firn").and_then(|firn| firn.get_mut("alert"));
        if let Some(Value::Object(state)) = state {
            state.insert("maintenance_windows".to_owned(), ids.into());
            state.insert("pending".to_owned(), json!([]));
            state.remove("escalate_at");
            state.remove("escalation");
        }
    }

    fn active_at(&self, now_ms: i64) -> Arc<[usize]> {
        let mut known = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at_ms, active)) = &*known
            && *at_ms == now_ms
        {
            return Arc::clone(active);
        }
        let windows = self.windows.iter().enumerate();
        let active = windows.filter(|(_, window)| window.when.active_until(now_ms).is_some());
        let active: Arc<[usize]> = active.map(|(place, _)| place).collect();
        *known = Some((now_ms, Arc::clone(&active)));
        active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: Value) -> Result<MaintenanceWindow, String> {
        let parsed = MaintenanceWindow::parse("w", body.as_object().unwrap());
        parsed.map_err(|error| error.reason().to_owned())
    }

    fn window(id: &str, members: Value) -> MaintenanceWindow {
        let mut body = json!({"title": "t", "start": "2026-01-01T00:00:00Z", "duration": "1h"});
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        MaintenanceWindow::parse(id, body.as_object().unwrap()).unwrap()
    }

    fn alert(detected: &str) -> Map<String, Value> {
        let alert = json!({
            "@timestamp": detected, "tenant": "alpha", "rule": {"id": "root"}, "user": {"name": "ann"},
            "firn": {"alert": {"status": "open", "severity": "medium", "pending": ["mail"], "escalate_at": "2026-01-01T01:00:00Z",
                "escalation": [{"at": "2026-01-01T01:00:00Z", "channels": ["boss"]}]}},
        });
        alert.as_object().unwrap().clone()
    }

    #[test]
    fn a_definition_is_read_and_its_mistakes_are_named() {
        let body = |name: &str, value: Value| {
            let mut body = json!({"title": "t", "start": "2026-01-01", "duration": "1h"});
            body[name] = value;
            body
        };
        parse(body("timezone", json!("Europe/Berlin"))).unwrap();
        parse(body("start", json!(1_700_000_000_000_u64))).unwrap();
        parse(body("query", json!("user.name: ann"))).unwrap();
        let weekly = json!({"every": "week", "weekdays": ["mo", "fr"], "count": 3});
        parse(body("repeat", weekly)).unwrap();
        for (body, reason) in [
            (json!({}), "missing field `title`"),
            (body("title", json!(" ")), "[title]"),
            (body("colour", json!(1)), "colour"),
            (body("start", json!("now-1d")), "[start]"),
            (body("start", json!("2026-01-01||+1d")), "[start]"),
            (body("start", json!("soon")), "[start]"),
            (body("start", json!("9500-01-01")), "year 9000"),
            (body("end", json!("2026-01-02")), "either [end] or [duration]"),
            (
                json!({"title": "t", "start": "2026-01-02", "end": "2026-01-01"}),
                "ends after its start",
            ),
            (
                json!({"title": "t", "start": "2026-01-02", "end": "2028-01-01"}),
                "366 days",
            ),
            (body("duration", json!("soon")), "[duration]"),
            (body("timezone", json!("Mars/Phobos")), "[timezone]"),
            (body("tenant", json!("A b")), "maintenance window [w]"),
            (body("rules", json!([])), "[rules]"),
            (body("min_severity", json!("bad")), "not [bad]"),
            (body("language", json!("kuery")), "[language]"),
            (body("query", json!("@timestamp > 2026-01-01")), "numbers only"),
            (body("query", json!(1)), "[query]"),
            (body("repeat", json!([])), "[repeat]"),
            (body("repeat", json!({"every": "year"})), "year"),
            (
                body("repeat", json!({"every": "month", "weekdays": ["mo"]})),
                "[weekdays]",
            ),
            (
                body("repeat", json!({"every": "week", "weekdays": ["monday"]})),
                "not [monday]",
            ),
            (body("repeat", json!({"every": "day", "count": 0})), "[count]"),
            (
                body("repeat", json!({"every": "day", "count": 1, "until": "2026-02-01"})),
                "exclude",
            ),
            (
                body("repeat", json!({"every": "day", "until": "2025-02-01"})),
                "[until]",
            ),
        ] {
            let error = parse(body.clone()).unwrap_err();
            assert!(error.contains(reason), "{body}: {error}");
        }
        let daily = json!({"title": "t", "start": "2026-01-01", "duration": "25h", "repeat": {"every": "day"}});
        assert!(parse(daily).unwrap_err().contains("24 hours"));
    }

    #[test]
    fn the_status_is_in_the_zone_of_the_window() {
        let body = json!({"title": "t", "start": "2026-01-01T22:00", "duration": "4h", "timezone": "Europe/Berlin",
            "repeat": {"every": "week"}});
        let window = parse(body).unwrap();
        let at = |text: &str| window.status(DateFormat::default_millis().parse_ms(text).unwrap());
        assert_eq!(
            at("2026-01-02T00:30:00Z"),
            json!({"active": true, "active_until": "2026-01-02T02:00:00.000+01:00", "next_start": "2026-01-08T22:00:00.000+01:00"})
        );
        assert_eq!(
            at("2026-01-02T01:00:00Z"),
            json!({"active": false, "active_until": null, "next_start": "2026-01-08T22:00:00.000+01:00"})
        );
    }

    #[test]
    fn an_alert_in_a_window_is_marked_and_neither_delivered_nor_escalated() {
        let marks = |members: Value, detected: &str| {
            let windows =
                MaintenanceWindows::new(vec![window("one", members), window("two", json!({"tenant": "bravo"}))]);
            let mut alert = alert(detected);
            let before = alert.clone();
            windows.suppress(&mut alert);
            let state = alert["firn"]["alert"].clone();
            match state.get("maintenance_windows") {
                None => {
                    assert_eq!(alert, before);
                    false
                }
                Some(ids) => {
                    assert_eq!(*ids, json!(["one"]));
                    assert_eq!((&state["pending"], &state["status"]), (&json!([]), &json!("open")));
                    assert!(state.get("escalate_at").is_none() && state.get("escalation").is_none());
                    true
                }
            }
        };
        let within = "2026-01-01T00:59:59.999999999Z";
        assert!(marks(json!({}), within));
        assert!(!marks(json!({}), "2026-01-01T01:00:00Z"));
        assert!(!marks(json!({}), "2025-12-31T23:59:59Z"));
        for (members, expect) in [
            (json!({"tenant": "alpha"}), true),
            (json!({"tenant": "charlie"}), false),
            (json!({"rules": ["root", "other"]}), true),
            (json!({"rules": ["other"]}), false),
            (json!({"min_severity": "medium"}), true),
            (json!({"min_severity": "high"}), false),
            (json!({"query": "user.name: ann and firn.alert.severity: medium"}), true),
            (json!({"query": "user.name: bob"}), false),
            (json!({"query": {"term": {"rule.id": "root"}}}), true),
        ] {
            assert_eq!(marks(members.clone(), within), expect, "{members}");
        }
    }

    #[test]
    fn an_event_cannot_choose_the_windows_of_its_alert() {
        let only = |members: Value| MaintenanceWindows::new(vec![window("w", members)]);
        let mut forged = alert("2026-01-01T00:30:00Z");
        forged.insert("rule.id".to_owned(), "other".into());
        forged.insert("firn.alert.severity".to_owned(), "critical".into());
        let before = forged.clone();
        only(json!({"rules": ["other"]})).suppress(&mut forged);
        only(json!({"min_severity": "high"})).suppress(&mut forged);
        assert_eq!(forged, before);
        only(json!({"rules": ["root"]})).suppress(&mut forged);
        assert_ne!(forged, before);
    }

    #[test]
    fn alerts_of_firn_are_marked_by_windows_that_name_their_rule() {
        let mut own = alert("2026-01-01T00:30:00Z");
        let before = own.clone();
        MaintenanceWindows::new(vec![window("all", json!({}))]).suppress_own(&mut own);
        assert_eq!(own, before);
        let named = window("named", json!({"rules": ["root"]}));
        MaintenanceWindows::new(vec![window("all", json!({})), named]).suppress_own(&mut own);
        assert_eq!(own["firn"]["alert"]["maintenance_windows"], json!(["named"]));
    }

    #[test]
    fn which_windows_are_active_is_known_anew_at_each_time() {
        let windows = MaintenanceWindows::new(vec![window("w", json!({}))]);
        for (detected, expect) in [
            ("2026-01-01T00:30:00Z", true),
            ("2026-01-01T02:00:00Z", false),
            ("2026-01-01T00:30:00Z", true),
        ] {
            let mut alert = alert(detected);
            windows.suppress(&mut alert);
            assert_eq!(
                alert["firn"]["alert"].get("maintenance_windows").is_some(),
                expect,
                "{detected}"
            );
        }
    }
}
