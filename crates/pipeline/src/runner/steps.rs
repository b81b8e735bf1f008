//! Steps of a pipeline between its source and the write: parse, map, look up, route.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use firn_detect::EventPlace;
use firn_model::{Error, Result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::alert_groups::Groups;
use super::dead_letter;
use super::detection::{Detection, Draft, Rules, RunnerRules};
use super::json_members::add_members;
use super::rule_costs::{Pending, RuleCosts};
use crate::aggregation::{AggregateDefinition, Sample, Sampler, TENANT_FIELD};
use crate::definition::Definition;
use crate::mapping::dates::push_iso;
use crate::mapping::{MapOptions, Mapper, Pack};
use crate::sources::{Clock, SourceEvent};
use crate::tables::{TableDefinition, TableHandle, TableSource, TableStatus, Tables};

const NANOS_PER_MS: i64 = 1_000_000;
/// Costs of rules after which the budget is charged within a batch, nanoseconds of processor time. A batch may have 10,000 events.
const CHARGE_AFTER_NANOS: i64 = 20_000_000;

/// Compiled steps of a pipeline.
pub(super) struct Steps {
    pub(super) id: Arc<str>,
    /// Index of the events; the patterns of those that are stored already.
    pub(super) index: String,
    /// Whether the events are stored.
    pub(super) stores_events: bool,
    pub(super) dead_letter_index: String,
    /// `None`: records are documents.
    mapping: Option<Mapping>,
    /// `None`: the pipeline has no aggregates.
    sampler: Option<Sampler>,
    /// Tenant of the pipeline.
    tenant: Option<String>,
    /// `None`: there are no rules.
    rules: ArcSwapOption<Rules>,
    pub(super) rule_costs: RuleCosts,
    /// What no thread uses now.
    idle: Mutex<Vec<Equipment>>,
    clock: Clock,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What one thread needs for the steps.
#[derive(Debug)]
struct Equipment {
    mapper: Option<Mapper>,
    detection: Option<Detection>,
}

impl Equipment {
    /// Costs of rules that were not charged, nanoseconds of processor time.
    fn cost_nanos(&mut self) -> i64 {
        let of_events = self.detection.as_ref().map_or(0, Detection::cost_nanos);
        of_events + self.mapper.as_mut().map_or(0, Mapper::rule_cost_nanos)
    }

    /// Evaluates the same rules without those that are left out of `rules`.
    fn leave_out(&mut self, rules: &Arc<Rules>) {
        if let Some(mapper) = &mut self.mapper {
            mapper.skip_rules(rules.skipped_of_records());
        }
        if let Some(detection) = &mut self.detection {
            detection.leave_out(Arc::clone(rules));
        }
    }
}

/// Pack with its tables.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pack: Arc<Pack>,
    tables: Tables,
    options: MapOptions,
}

/// Document of an event, and where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// Offset of its event.
    pub(super) offset: u64,
    pub(super) source: Bytes,
    /// Why it goes to the dead letters.
    pub(super) error: Option<String>,
    /// What aggregates read of it.
    pub(super) sample: Option<Sample>,
    /// Alerts that it raises.
    pub(super) alerts: Vec<Draft>,
}

impl AsMut<Vec<Draft>> for Document {
    fn as_mut(&mut self) -> &mut Vec<Draft> {
        &mut self.alerts
    }
}

impl Steps {
    /// Compiles a definition. Reads the files of tables; `queried` are those that are not from files. `aggregates` are those of the
    /// definition and of rules.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: no such pack, or a table that cannot be loaded.
    pub(super) fn new(
        id: &str,
        definition: &Definition,
        aggregates: &BTreeMap<String, Arc<AggregateDefinition>>,
        queried: Tables,
        clock: Clock,
    ) -> Result<Self> {
        let mapping = match &definition.pack {
            None => None,
            Some(pack) => Some(Mapping {
                pack: pack.load()?,
                tables: tables(definition, queried, clock() / NANOS_PER_MS)?,
                options: MapOptions {
                    original: definition.keep_original,
                    received: None,
                },
            }),
        };
        Ok(Self {
            id: id.into(),
            index: definition.event_indices().join(","),
            stores_events: definition.stores_events(),
            dead_letter_index: definition.dead_letter_index.clone(),
            mapping,
            tenant: definition.tenant.clone(),
            rules: ArcSwapOption::empty(),
            rule_costs: RuleCosts::default(),
            idle: Mutex::default(),
            clock,
            sampler: (!aggregates.is_empty()).then(|| Sampler::new(aggregates.values().map(|aggregate| &**aggregate))),
        })
    }

    /// Creates the steps of runs over stored events, which only evaluate rules. `tenant` is that of the pipeline.
    pub(super) fn of_run(id: &str, mapping: Mapping, tenant: Option<String>, clock: Clock) -> Self {
        Self {
            id: id.into(),
            index: String::new(),
            stores_events: false,
            dead_letter_index: String::new(),
            mapping: Some(mapping),
            sampler: None,
            tenant,
            rules: ArcSwapOption::empty(),
            rule_costs: RuleCosts::default(),
            idle: Mutex::default(),
            clock,
        }
    }

    /// Returns the pack with its tables; `None`: records are documents.
    pub(super) fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    /// Evaluates the rules on one stored event, at the time of its arrival, and returns it if one that raises an alert for it matches.
    /// `record` is what the event was made from; `None`: the event itself is the record, and what is made of it is returned.
    ///
    /// # Errors
    /// Why the record cannot be parsed.
    pub(super) fn evaluate_stored(
        &self,
        event: &SourceEvent,
        record: Option<&[u8]>,
    ) -> std::result::Result<Option<Bytes>, String> {
        let mut equipment = self.take(self.rules().as_ref());
        let found = self.evaluate_with(&mut equipment, event, record);
        if equipment.cost_nanos() > 0 {
            self.charge(&mut equipment);
        }
        self.idle.lock().push(equipment);
        found
    }

    fn evaluate_with(
        &self,
        Equipment { mapper, detection }: &mut Equipment,
        event: &SourceEvent,
        record: Option<&[u8]>,
    ) -> std::result::Result<Option<Bytes>, String> {
        let (Some(mapper), Some(detection)) = (mapper, detection) else {
            return Ok(None);
        };
        let mut out = Vec::with_capacity(event.bytes.len());
        mapper.set_received(Some(event.received_ns));
        let mapped = mapper.map(record.unwrap_or(&event.bytes), &mut out);
        mapped.map_err(|error| error.to_string())?;
        if mapper.matches().is_empty() {
            return Ok(None);
        }
        if record.is_some() {
            // Exceptions, and the alert, read the event as it was stored: tables may be others now.
            out.clear();
            copy(event, &mut out)?;
        }
        if let Some(stored) = &event.stored_at {
            set_tenant(&mut out, stored.tenant.as_deref());
        }
        let mut detected = String::new();
        push_iso(event.received_ns, &mut detected);
        let place = EventPlace {
            pipeline: &self.id,
            partition: None,
            offset: event.offset,
            tenant: self.tenant.as_deref(),
        };
        let alerts = detection.alerts(mapper.matches(), &out, place, &detected, &mut Vec::new());
        Ok((!alerts.is_empty()).then(|| out.into()))
    }

    /// Returns the pack; `None`: records are documents.
    pub(super) fn pack(&self) -> Option<&Arc<Pack>> {
        self.mapping.as_ref().map(|mapping| &mapping.pack)
    }

    /// Makes the document of each event, in the same order.
    pub(super) fn run(&self, partition: Option<&str>, events: &[SourceEvent]) -> Vec<Document> {
        self.run_with_rules(partition, events).0
    }

    /// Does the same, and returns the rules that were evaluated on all of the events; `None`: none were set. The alerts of a rule that
    /// the budget throttles meanwhile are left out.
    pub(super) fn run_with_rules(
        &self,
        partition: Option<&str>,
        events: &[SourceEvent],
    ) -> (Vec<Document>, Option<Arc<Rules>>) {
        let mut rules = self.current_rules();
        let first_rules = rules.clone();
        let mut equipment = self.take(rules.as_ref());
        let mut detected = String::new();
        push_iso((self.clock)(), &mut detected);
        let mut groups = Groups::default();
        let mut documents: Vec<Document> = Vec::with_capacity(events.len());
        for event in events {
            if equipment.cost_nanos() >= CHARGE_AFTER_NANOS {
                self.charge(&mut equipment);
                let also = rules.as_ref().and_then(|rules| rules.also_throttled_now());
                if let Some(also) = also.map(Arc::new) {
                    equipment.leave_out(&also);
                    rules = Some(also);
                }
            }
            let Equipment { mapper, detection } = &mut equipment;
            let mut out = Vec::with_capacity(event.bytes.len() * 2);
            let mapped = match mapper.as_mut() {
                Some(mapper) => {
                    mapper.set_received(Some(event.received_ns));
                    mapper.map(&event.bytes, &mut out).map_err(|error| error.to_string())
                }
                None => copy(event, &mut out),
            };
            let error = mapped.err();
            match (&error, &event.context) {
                (Some(reason), _) => {
                    out = dead_letter::document(&self.id, &self.index, partition, event, "parse", reason);
                }
                (None, Some(context)) => add_members(&mut out, context),
                (None, None) => {}
            }
            if let (Some(stored), None) = (&event.stored_at, &error) {
                set_tenant(&mut out, stored.tenant.as_deref());
            }
            let (mut alerts, mut counted) = (Vec::new(), Vec::new());
            if let (Some(detection), None) = (detection.as_mut(), &error) {
                let of_record = mapper.as_ref().map_or(&[][..], |mapper| mapper.matches());
                let place = EventPlace {
                    pipeline: &self.id,
                    partition,
                    offset: event.offset,
                    tenant: self.tenant.as_deref(),
                };
                alerts = detection.alerts(of_record, &out, place, &detected, &mut counted);
                if !alerts.is_empty() {
                    alerts = groups.add(&mut documents, alerts, out.len());
                }
            }
            let sampler = self.sampler.as_ref().filter(|_| error.is_none());
            let record = |field: &str| {
                let mapper = mapper.as_ref();
                mapper.map_or(serde_json::Value::Null, |mapper| mapper.record_value(field))
            };
            documents.push(Document {
                offset: event.offset,
                sample: sampler.map(|sampler| sampler.read(&out, event.received_ns, &counted, &record)),
                source: out.into(),
                error,
                alerts,
            });
        }
        self.charge(&mut equipment);
        self.idle.lock().push(equipment);
        if let (Some(first), Some(rules)) = (&first_rules, &rules) {
            self.rule_costs.add_events(events.len() as u64, &first.skipped);
            if !Arc::ptr_eq(first, rules) {
                let is_skipped = |draft: &Draft| {
                    let id = draft.document["rule"]["id"].as_str();
                    id.is_some_and(|id| rules.skipped.contains_key(id))
                };
                for document in &mut documents {
                    document.alerts.retain(|draft| !is_skipped(draft));
                }
            }
        }
        (documents, rules)
    }

    /// Returns the rules of the next batch, without those that are throttled.
    pub(super) fn current_rules(&self) -> Option<Arc<Rules>> {
        let rules = self.rules.load_full()?;
        let Some(throttled) = rules.throttled_now().map(Arc::new) else {
            return Some(rules);
        };
        // Other rules may have been set meanwhile: this batch came before.
        self.rules.compare_and_swap(&Some(rules), Some(Arc::clone(&throttled)));
        Some(throttled)
    }

    /// Charges the budget with the costs since the last time.
    fn charge(&self, equipment: &mut Equipment) {
        let Equipment { mapper, detection } = equipment;
        let Some(detection) = detection else {
            return;
        };
        let rules = Arc::clone(detection.rules());
        let Some(budget) = &rules.budget else {
            return;
        };
        let mut pending = Pending::default();
        detection.take_costs(|rule, nanos| pending.add(rule, nanos));
        if let Some(mapper) = mapper {
            mapper.take_rule_costs(|number, nanos| {
                if let Some(rule) = rules.rule_of_record(number) {
                    pending.add(rule, nanos);
                }
            });
        }
        self.rule_costs.add(&pending);
        match rules.are_throttled() {
            true => budget.charge(pending.charges()),
            false => budget.charge_run(pending.charges()),
        }
    }

    /// Evaluates these rules on the events that follow; those of other pipelines are left out. Takes as long as their compilation.
    pub(super) fn set_rules(&self, rules: &RunnerRules) {
        let places = self.sampler.iter().flat_map(Sampler::rules);
        let previous = self.rules();
        let pack = self.pack().map(|pack| &**pack);
        let rules = Rules::compile(rules, &self.id, pack, &places.collect(), previous.as_deref());
        let is_known = |id: &str| rules.versions.contains_key(id) || rules.skipped.contains_key(id);
        self.rule_costs.retain(is_known);
        self.rules.store(Some(Arc::new(rules)));
        self.idle.lock().clear();
    }

    /// Returns the rules; `None`: none were set.
    pub(super) fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.load_full()
    }

    fn take(&self, rules: Option<&Arc<Rules>>) -> Equipment {
        let rules = rules.filter(|rules| rules.count() > 0);
        let idle = self.idle.lock().pop();
        let mut equipment = idle.unwrap_or_else(|| Equipment {
            mapper: self.mapping.as_ref().map(Mapping::mapper),
            detection: None,
        });
        match (&equipment.detection, &rules) {
            (Some(detection), Some(rules)) if Arc::ptr_eq(detection.rules(), rules) => {}
            (Some(detection), Some(rules)) if detection.rules().has_rules_of(rules) => equipment.leave_out(rules),
            (None, None) => {}
            _ => {
                if let Some(mapper) = &mut equipment.mapper {
                    mapper.set_rules(rules.and_then(|rules| rules.of_records()));
                    if let Some(budget) = rules.and_then(|rules| rules.budget.as_ref()) {
                        mapper.measure_rules(budget.cpu_clock());
                    }
                }
                equipment.detection = rules.map(|rules| Detection::new(Arc::clone(rules)));
                rules.iter().for_each(|rules| equipment.leave_out(rules));
            }
        }
        equipment
    }

    /// Returns the states of the tables. `now_ms` is the time since the epoch.
    pub(super) fn tables(&self, now_ms: i64) -> Vec<TableStatus> {
        let tables = self.mapping.iter().flat_map(|mapping| mapping.tables.iter());
        tables.map(|table| table.status(now_ms)).collect()
    }

    /// Loads changed files of tables. A file that cannot be loaded leaves its last version in use.
    pub(super) fn refresh_tables(&self, now_ms: i64) {
        for table in self.mapping.iter().flat_map(|mapping| mapping.tables.iter()) {
            if let crate::tables::Refresh::Failed(error) = table.refresh(now_ms) {
                tracing::warn!(pipeline = &*self.id, table = table.name(), %error, "the last version of a table stays in use");
            }
        }
    }
}

impl Mapping {
    /// Returns a pack without its tables: enough to evaluate rules on records.
    pub(super) fn without_tables(pack: Arc<Pack>) -> Self {
        Self {
            pack,
            tables: Tables::default(),
            options: MapOptions {
                original: false,
                received: None,
            },
        }
    }

    /// Returns the pack.
    pub(super) fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    fn mapper(&self) -> Mapper {
        Mapper::new(Arc::clone(&self.pack), &self.tables, self.options)
    }
}

/// Returns the tables of a definition: `tables`, and those in files.
fn tables(definition: &Definition, mut tables: Tables, now_ms: i64) -> Result<Tables> {
    for (name, table) in &definition.tables {
        let TableDefinition::File(path) = table else {
            continue;
        };
        let refuse = |reason: String| Error::illegal_argument(format!("table [{name}]: {reason}"));
        let source = TableSource::of(path)
            .ok_or_else(|| refuse(format!("[{}] does not end with .mmdb, .csv or .ndjson", path.display())))?;
        let table =
            TableHandle::open(name, source, now_ms).map_err(|error| Error::illegal_argument(error.to_string()))?;
        tables.insert(table);
    }
    Ok(tables)
}

/// Sets the tenant of an event that is stored already: the index decides, and not a member that anyone may have written.
fn set_tenant(out: &mut Vec<u8>, tenant: Option<&str>) {
    let Ok(mut event) = serde_json::from_slice::<Map<String, Value>>(out) else {
        return;
    };
    if event.get(TENANT_FIELD).and_then(Value::as_str) == tenant && event.contains_key(TENANT_FIELD) == tenant.is_some()
    {
        return;
    }
    match tenant {
        Some(tenant) => event.insert(TENANT_FIELD.to_owned(), tenant.into()),
        None => event.remove(TENANT_FIELD),
    };
    *out = Value::Object(event).to_string().into_bytes();
}

/// Copies a JSON object; one without `@timestamp` gets its time of arrival.
fn copy(event: &SourceEvent, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    #[derive(Deserialize)]
    struct Object {
        #[serde(rename = "@timestamp")]
        timestamp: Option<IgnoredAny>,
    }
    // A list would be read as the members of the object in order.
    let start = event
        .bytes
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .unwrap_or(0);
    if event.bytes.get(start) != Some(&b'{') {
        return Err("not a JSON object".to_owned());
    }
    let object: Object = serde_json::from_slice(&event.bytes).map_err(|error| format!("not a JSON object: {error}"))?;
    if object.timestamp.is_some() {
        out.extend_from_slice(&event.bytes);
        return Ok(());
    }
    let rest = &event.bytes[start + 1..];
    let is_empty = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let mut time = String::new();
    push_iso(event.received_ns, &mut time);
    out.extend_from_slice(b"{\"@timestamp\":\"");
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(if is_empty { b"\"" } else { b"\"," });
    out.extend_from_slice(rest);
    Ok(())
}
