//! Records of stored events, for rules that read records: which pack made an event, and whether its record can be read again.
//!
//! An event does not name its pipeline. It has the name of its pack in `firn.mapping.name`, and the pipelines that store into its index
//! are known. If these do not tell by which pack the rule is to be evaluated, it is not evaluated, and the event is counted.

use std::sync::Arc;

use bytes::Bytes;
use firn_model::names::{known_as, matches_pattern};
use firn_model::tenant::TenantId;
use serde_json::{Map, Value};

use super::json_members::member;
use crate::sources::{SourceEvent, StoredAt};

/// Stored event that a rule is evaluated on again.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Concrete index.
    pub index: Arc<str>,
    /// Its id.
    pub id: String,
    /// Names under which pipelines may know the index: its own, and those of its data stream and aliases.
    pub names: Arc<[String]>,
    /// The stored document.
    pub source: Bytes,
    /// Tenant, if the index holds events by tenant.
    pub tenant: Option<String>,
    /// Time of the event, nanoseconds since the epoch: exceptions that end before it do not hold.
    pub time_ns: i64,
}

/// What a rule says of a stored event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evaluated {
    /// The event that the alert is about, as the pipeline had it; `None`: the rule does not match.
    pub matched: Option<Bytes>,
    /// Why a pipeline would have evaluated the rule, and it cannot be done again.
    pub obstacle: Option<Obstacle>,
    /// Why no pipeline evaluates the rule on the event; `None`: one does.
    pub not_applicable: Option<String>,
}

/// Why a rule cannot be evaluated on a stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The same text for all such events of a pack.
    pub reason: String,
    /// What is wrong with this event.
    pub detail: Option<String>,
}

impl Obstacle {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            detail: None,
        }
    }
}

/// Rule that is compiled for one pack.
pub(super) trait PackEvaluator: Send + Sync {
    /// Whether the pack has a log source for the rule. The first call compiles the rule.
    fn is_mapped(&self) -> bool;

    /// Returns the event if the rule matches `record` and no exception holds; without a record, the event itself is the record, and what
    /// is made of it is returned.
    ///
    /// # Errors
    /// Why the record cannot be parsed.
    fn evaluate(&self, event: &SourceEvent, record: Option<&[u8]>) -> Result<Option<Bytes>, String>;
}

/// Pack of pipelines, with the indices of their events.
pub(super) struct RecordSource {
    /// Indices that the events are stored in, as the tenant of each pipeline names them; patterns if the events are read from there.
    pub(super) indices: Vec<(String, Option<TenantId>)>,
    /// Whether stored events are the records, as for a source of type `index`.
    pub(super) reads_events: bool,
    /// Why records of the pack cannot be evaluated again; `None`: they can.
    pub(super) obstacle: Option<String>,
    /// The pack; an error says why it cannot be used.
    pub(super) pack: Result<UsablePack, String>,
}

/// Pack that can be used.
pub(super) struct UsablePack {
    pub(super) name: String,
    pub(super) version: u32,
    pub(super) evaluator: Box<dyn PackEvaluator>,
}

impl RecordSource {
    fn has_index(&self, names: &[String]) -> bool {
        let is_named = |(index, tenant): &(String, Option<TenantId>)| {
            let of_tenant = |name| tenant.as_ref().and_then(|tenant| known_as(tenant, name));
            let mut known = names
                .iter()
                .flat_map(|name| [Some(name.as_str()), of_tenant(name)])
                .flatten();
            known.any(|name| match self.reads_events {
                true => !name.starts_with('.') && matches_pattern(index, name),
                false => index == name,
            })
        };
        self.indices.iter().any(is_named)
    }

    fn named(&self, name: &str) -> Option<&UsablePack> {
        self.pack.as_ref().ok().filter(|pack| pack.name == name)
    }
}

/// Packs of all pipelines that have one.
pub(super) struct RecordSources(pub(super) Vec<RecordSource>);

/// What the pipeline stamps on an event.
struct Stamp<'d> {
    name: &'d str,
    version: Option<u64>,
}

impl RecordSources {
    /// Evaluates the rule on an event as the pipelines that know it would have.
    pub(super) fn evaluate(&self, event: &StoredEvent) -> Evaluated {
        let mut found = Evaluated::default();
        let Ok(document) = serde_json::from_slice::<Map<String, Value>>(&event.source) else {
            found.obstacle = Some(Obstacle::new("the event is no JSON object"));
            return found;
        };
        let as_source = SourceEvent {
            bytes: event.source.clone(),
            offset: 0,
            received_ns: event.time_ns,
            context: None,
            stored_at: Some(Box::new(StoredAt {
                index: Arc::clone(&event.index),
                id: event.id.clone(),
                tenant: event.tenant.clone(),
            })),
        };
        let of_index = self.0.iter().filter(|source| source.has_index(&event.names));
        let (reading, storing): (Vec<_>, Vec<_>) = of_index.partition(|source| source.reads_events);
        let mut is_evaluated = false;
        let mut add = |one: Result<Option<Bytes>, Refusal>| match one {
            Ok(matched) => {
                is_evaluated = true;
                found.matched = found.matched.take().or(matched);
            }
            Err(Refusal::Obstacle(obstacle)) => drop(found.obstacle.get_or_insert(obstacle)),
            Err(Refusal::NotApplicable(reason)) => drop(found.not_applicable.get_or_insert(reason)),
        };
        for source in &reading {
            add(of_read(source, &as_source));
        }
        let stamp = member(&document, "firn.mapping.name")
            .and_then(Value::as_str)
            .map(|name| Stamp {
                name,
                version: member(&document, "firn.mapping.version").and_then(Value::as_u64),
            });
        match stamp {
            None if storing.is_empty() && !reading.is_empty() => {}
            None if storing.is_empty() => add(Err(Refusal::NotApplicable(
                "no pipeline with a pack stores or reads the events of the index".to_owned(),
            ))),
            None => add(obstacle(
                "no pack in [firn.mapping.name], although a pipeline with a pack stores into the index",
            )),
            Some(stamp) => add(of_stored(&storing, &stamp, &document, &as_source)),
        }
        if is_evaluated || found.obstacle.is_some() {
            found.not_applicable = None;
        }
        found
    }
}

/// Why a pack does not evaluate the rule.
enum Refusal {
    Obstacle(Obstacle),
    NotApplicable(String),
}

fn obstacle(reason: impl Into<String>) -> Result<Option<Bytes>, Refusal> {
    Err(Refusal::Obstacle(Obstacle::new(reason)))
}

/// Evaluates the rule on an event that is the record.
fn of_read(source: &RecordSource, event: &SourceEvent) -> Result<Option<Bytes>, Refusal> {
    let pack = match &source.pack {
        Ok(pack) => pack,
        Err(reason) => return obstacle(format!("a pack cannot be used: {reason}")),
    };
    if !pack.evaluator.is_mapped() {
        return Err(no_log_source(pack));
    }
    if let Some(reason) = &source.obstacle {
        return obstacle(reason);
    }
    evaluate(pack, event, None)
}

/// Evaluates the rule on the record that an event was made from.
fn of_stored(
    storing: &[&RecordSource],
    stamp: &Stamp<'_>,
    document: &Map<String, Value>,
    event: &SourceEvent,
) -> Result<Option<Bytes>, Refusal> {
    let name = stamp.name;
    let named = storing.iter().filter_map(|source| Some((*source, source.named(name)?)));
    let mut named: Vec<(&RecordSource, &UsablePack)> = named.collect();
    if named.len() > 1 {
        named.retain(|(_, pack)| Some(u64::from(pack.version)) == stamp.version);
        if named.len() != 1 {
            return obstacle(format!("several packs [{name}] store into the index"));
        }
    }
    let Some((source, pack)) = named.pop() else {
        let unusable = storing.iter().find_map(|source| source.pack.as_ref().err());
        return match unusable {
            Some(reason) => obstacle(format!("a pack cannot be used: {reason}")),
            None => obstacle(format!("no pipeline with the pack [{name}] stores into the index now")),
        };
    };
    if !pack.evaluator.is_mapped() {
        return match Some(u64::from(pack.version)) == stamp.version {
            true => Err(no_log_source(pack)),
            false => obstacle(format!(
                "the pack [{name}] has another version now, without a log source for the rule"
            )),
        };
    }
    if let Some(reason) = &source.obstacle {
        return obstacle(reason);
    }
    match member(document, "event.original").and_then(Value::as_str) {
        None => obstacle("no record in [event.original]"),
        // If the record was not UTF-8, this is the text that the pipeline had, too.
        Some(record) => evaluate(pack, event, Some(record.as_bytes())),
    }
}

fn no_log_source(pack: &UsablePack) -> Refusal {
    Refusal::NotApplicable(format!("the pack [{}] has no log source for the rule", pack.name))
}

fn evaluate(pack: &UsablePack, event: &SourceEvent, record: Option<&[u8]>) -> Result<Option<Bytes>, Refusal> {
    pack.evaluator.evaluate(event, record).map_err(|error| {
        Refusal::Obstacle(Obstacle {
            reason: format!("the pack [{}] cannot parse the record again", pack.name),
            detail: Some(error),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Matches records that contain a word.
    struct Word {
        word: &'static str,
        is_mapped: bool,
    }

    impl PackEvaluator for Word {
        fn is_mapped(&self) -> bool {
            self.is_mapped
        }

        fn evaluate(&self, event: &SourceEvent, record: Option<&[u8]>) -> Result<Option<Bytes>, String> {
            let text = String::from_utf8_lossy(record.unwrap_or(&event.bytes));
            match text.contains("unparsable") {
                true => Err("no JSON".to_owned()),
                false => Ok(text.contains(self.word).then(|| event.bytes.clone())),
            }
        }
    }

    fn source(index: &str, pack: &str, version: u32, is_mapped: bool) -> RecordSource {
        RecordSource {
            indices: vec![(index.to_owned(), None)],
            reads_events: false,
            obstacle: None,
            pack: Ok(UsablePack {
                name: pack.to_owned(),
                version,
                evaluator: Box::new(Word {
                    word: "evil",
                    is_mapped,
                }),
            }),
        }
    }

    fn event(index: &str, source: &Value) -> StoredEvent {
        StoredEvent {
            index: index.into(),
            id: "one".to_owned(),
            names: Arc::new([index.to_owned(), "stream".to_owned(), ".hidden".to_owned()]),
            source: source.to_string().into(),
            tenant: None,
            time_ns: 0,
        }
    }

    fn mapped(pack: &str, version: u32, original: Option<&str>) -> Value {
        let mut event = json!({"event": {}, "firn": {"mapping": {"name": pack, "version": version}}});
        if let Some(original) = original {
            event["event"]["original"] = original.into();
        }
        event
    }

    /// Evaluates, and returns what is found in few words.
    fn outcome(sources: Vec<RecordSource>, index: &str, document: &Value) -> String {
        let found = RecordSources(sources).evaluate(&event(index, document));
        match (found.matched, found.obstacle, found.not_applicable) {
            (None, None, None) => "no match".to_owned(),
            (Some(matched), None, None) => {
                assert_eq!(
                    matched,
                    document.to_string(),
                    "the stored event is the one of the alert"
                );
                "match".to_owned()
            }
            (_, Some(obstacle), None) => format!("obstacle: {}", obstacle.reason),
            (None, None, Some(reason)) => format!("not applicable: {reason}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_pack_of_an_event_evaluates_its_record() {
        let win = || source("logs", "windows", 2, true);
        let check = |sources: Vec<RecordSource>, document: &Value, expect: &str| {
            let found = outcome(sources, "logs", document);
            assert!(found.starts_with(expect), "{found}");
        };
        check(vec![win()], &mapped("windows", 2, Some("evil")), "match");
        check(vec![win()], &mapped("windows", 1, Some("good")), "no match");
        check(vec![win()], &mapped("windows", 2, None), "obstacle: no record in");
        check(
            vec![win()],
            &mapped("windows", 2, Some("unparsable")),
            "obstacle: the pack [windows] cannot parse",
        );
        check(
            vec![win()],
            &mapped("zeek", 1, Some("evil")),
            "obstacle: no pipeline with the pack [zeek]",
        );
        check(
            vec![win()],
            &json!({"event": {"original": "evil"}}),
            "obstacle: no pack in [firn.mapping.name]",
        );
        // Two packs of a name: the version decides, if it can.
        let other = || source("logs", "windows", 3, true);
        check(vec![win(), other()], &mapped("windows", 2, Some("evil")), "match");
        check(
            vec![win(), other()],
            &mapped("windows", 4, Some("evil")),
            "obstacle: several packs",
        );
        check(
            vec![win(), win()],
            &mapped("windows", 2, Some("evil")),
            "obstacle: several packs",
        );
        let broken = RecordSource {
            pack: Err("no such file".to_owned()),
            ..win()
        };
        check(
            vec![broken],
            &mapped("windows", 2, Some("evil")),
            "obstacle: a pack cannot be used: no such file",
        );
        let unsure = RecordSource {
            obstacle: Some("unsure".to_owned()),
            ..win()
        };
        check(vec![unsure], &mapped("windows", 2, Some("evil")), "obstacle: unsure");
    }

    #[test]
    fn an_event_on_which_no_pipeline_evaluates_the_rule_is_no_obstacle() {
        let cef = || source("logs", "cef", 1, false);
        let check = |sources: Vec<RecordSource>, index: &str, document: &Value, expect: &str| {
            let found = outcome(sources, index, document);
            assert!(found.starts_with(expect), "{found}");
        };
        check(
            vec![cef()],
            "logs",
            &mapped("cef", 1, None),
            "not applicable: the pack [cef] has no log source",
        );
        // With the version that it was mapped by, the pack may have had one.
        check(
            vec![cef()],
            "logs",
            &mapped("cef", 2, Some("evil")),
            "obstacle: the pack [cef] has another version",
        );
        check(
            vec![cef()],
            "others",
            &json!({}),
            "not applicable: no pipeline with a pack",
        );
        check(
            vec![cef()],
            "others",
            &mapped("cef", 1, None),
            "obstacle: no pipeline with the pack [cef]",
        );
        // A data stream stands for its indices.
        check(
            vec![source("stream", "windows", 2, true)],
            ".ds-stream-1",
            &mapped("windows", 2, Some("evil")),
            "match",
        );
    }

    #[test]
    fn a_tenant_has_its_own_name_for_its_index() {
        let check = |pattern: &str, reads_events: bool, tenant: Option<&str>, is_evaluated: bool| {
            let source = RecordSource {
                indices: vec![(pattern.to_owned(), tenant.map(|name| TenantId::parse(name).unwrap()))],
                reads_events,
                ..source("", "windows", 2, true)
            };
            let event = match reads_events {
                true => json!({"a": "evil"}),
                false => mapped("windows", 2, Some("evil")),
            };
            let found = outcome(vec![source], "alpha~logs", &event);
            assert_eq!(found == "match", is_evaluated, "{pattern} {tenant:?}: {found}");
        };
        check("logs", false, Some("alpha"), true);
        check("logs", false, Some("bravo"), false);
        check("logs", false, None, false);
        check("alpha~logs", false, None, true);
        check("lo*", true, Some("alpha"), true);
        check("lo*", true, None, false);
    }

    #[test]
    fn an_event_that_pipelines_read_from_its_index_is_the_record() {
        let reading = |pattern: &str, is_mapped: bool| RecordSource {
            reads_events: true,
            ..source(pattern, "windows", 2, is_mapped)
        };
        let check = |sources: Vec<RecordSource>, document: &Value, expect: &str| {
            let found = outcome(sources, "logs-raw", document);
            assert!(found.starts_with(expect), "{found}");
        };
        check(vec![reading("logs-*", true)], &json!({"a": "evil"}), "match");
        check(vec![reading("logs-*", true)], &json!({"a": "good"}), "no match");
        check(
            vec![reading("logs-*", false)],
            &json!({"a": "evil"}),
            "not applicable: the pack [windows]",
        );
        check(
            vec![reading("none-*", true)],
            &json!({"a": "evil"}),
            "not applicable: no pipeline with a pack",
        );
        check(
            vec![reading("*hidden", true)],
            &json!({"a": "evil"}),
            "not applicable: no pipeline with a pack",
        );
        let stopped = RecordSource {
            obstacle: Some("stopped".to_owned()),
            ..reading("logs-*", true)
        };
        check(vec![stopped], &json!({"a": "evil"}), "obstacle: stopped");
        // One that is stored and read is evaluated twice, and what cannot be done is not hidden by what can.
        let both = || vec![reading("logs-*", true), source("logs-raw", "windows", 2, true)];
        check(both(), &mapped("windows", 2, Some("evil")), "match");
        check(both(), &mapped("windows", 2, None), "obstacle: no record");
    }
}
