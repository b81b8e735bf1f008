//! Enrich policies: which records of which indices are looked up by what, and the records of a policy in memory.

use std::collections::HashMap;
use std::net::IpAddr;

use firn_model::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::intervals::Intervals;

/// Most bytes of the records of one policy.
pub const ENRICH_BYTES_MAX: u64 = 1 << 30;
/// Most records of one policy.
pub const ENRICH_RECORDS_MAX: u64 = 10_000_000;

/// How a policy finds records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrichKind {
    /// The value equals one of the match field.
    Match,
    /// The value lies in a range of the match field: a block of addresses (`10.0.0.0/8`), or an object with `gte`, `gt`, `lte` and
    /// `lt`, of numbers or addresses.
    Range,
}

impl EnrichKind {
    /// Returns Elasticsearch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Range => "range",
        }
    }
}

/// Definition of an enrich policy.
#[derive(Debug, Clone, PartialEq)]
pub struct EnrichDefinition {
    /// How records are found.
    pub kind: EnrichKind,
    /// Indices, aliases and data streams that hold the records.
    pub indices: Vec<String>,
    /// Field that is compared.
    pub match_field: String,
    /// Further fields of a record.
    pub enrich_fields: Vec<String>,
    /// Which documents are records; `None`: all.
    pub query: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyBody {
    indices: OneOrMany,
    match_field: String,
    enrich_fields: OneOrMany,
    #[serde(default)]
    query: Option<Value>,
    #[serde(default)]
    #[allow(dead_code, reason = "stored by older Elasticsearch, and without meaning")]
    elasticsearch_version: Option<String>,
    #[serde(default)]
    #[allow(dead_code, reason = "printed by Elasticsearch beside the others")]
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl EnrichDefinition {
    /// Reads the body of `PUT /_enrich/policy/NAME`.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names what is missing, unknown or invalid;
    /// [`firn_model::ErrorKind::NotImplemented`]: a policy of type `geo_match`.
    pub fn parse(body: &Map<String, Value>) -> Result<Self> {
        let mut kinds = body.iter();
        let (Some((kind, policy)), None) = (kinds.next(), kinds.next()) else {
            return Err(Error::illegal_argument(
                "an enrich policy has one member: [match] or [range]",
            ));
        };
        let kind = match kind.as_str() {
            "match" => EnrichKind::Match,
            "range" => EnrichKind::Range,
            "geo_match" => return Err(Error::not_implemented("an enrich policy of type [geo_match]")),
            other => return Err(Error::illegal_argument(format!("unsupported policy type [{other}]"))),
        };
        let policy: PolicyBody = serde_json::from_value(policy.clone())
            .map_err(|error| Error::illegal_argument(format!("[policy]: {error}")))?;
        let definition = Self {
            kind,
            indices: policy.indices.into_vec(),
            match_field: policy.match_field,
            enrich_fields: policy.enrich_fields.into_vec(),
            query: policy.query,
        };
        if definition.indices.is_empty() || definition.enrich_fields.is_empty() || definition.match_field.is_empty() {
            return Err(Error::illegal_argument(
                "[indices], [match_field] and [enrich_fields] must not be empty",
            ));
        }
        Ok(definition)
    }

    /// Prints the policy as `GET /_enrich/policy` does.
    pub fn to_json(&self, name: &str) -> Value {
        let mut policy = json!({
            "name": name, "indices": self.indices, "match_field": self.match_field, "enrich_fields": self.enrich_fields,
        });
        if let Some(query) = &self.query {
            policy["query"] = query.clone();
        }
        json!({ self.kind.name(): policy })
    }

    /// Returns the fields of a record.
    pub fn record_fields(&self) -> Vec<&str> {
        let fields = self.enrich_fields.iter().chain([&self.match_field]);
        fields.map(String::as_str).collect()
    }
}

/// Records of a policy, in one immutable version.
#[derive(Debug)]
pub struct EnrichTable {
    kind: EnrichKind,
    match_field: String,
    /// Records as JSON.
    records: Vec<Box<[u8]>>,
    by_value: HashMap<Box<str>, Vec<u32>>,
    ranges: Intervals,
    bytes: u64,
}

impl EnrichTable {
    /// Creates a table without records.
    pub fn new(definition: &EnrichDefinition) -> Self {
        Self {
            kind: definition.kind,
            match_field: definition.match_field.clone(),
            records: Vec::new(),
            by_value: HashMap::new(),
            ranges: Intervals::default(),
            bytes: 0,
        }
    }

    /// Adds a record. One without a value of the match field is never found, and left out.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: the policy has more records, or more bytes of them, than it may have.
    pub fn add(&mut self, record: &[u8]) -> Result<()> {
        let document: Value = serde_json::from_slice(record)?;
        let place = self.records.len() as u32;
        let mut is_found = false;
        let mut values = Vec::new();
        values_at(&document, &self.match_field, &mut values);
        for value in values {
            match self.kind {
                EnrichKind::Match => {
                    let Some(key) = text_of(value) else { continue };
                    self.bytes += key.len() as u64;
                    self.by_value.entry(key.into()).or_default().push(place);
                    is_found = true;
                }
                EnrichKind::Range => is_found |= self.ranges.add(value, place),
            }
        }
        if !is_found {
            return Ok(());
        }
        self.bytes += record.len() as u64;
        if self.bytes > ENRICH_BYTES_MAX || self.records.len() as u64 >= ENRICH_RECORDS_MAX {
            return Err(Error::illegal_argument(format!(
                "an enrich policy has at most [{ENRICH_RECORDS_MAX}] records of [{ENRICH_BYTES_MAX}] bytes together"
            )));
        }
        self.records.push(record.into());
        Ok(())
    }

    /// Sorts the ranges, after the last record.
    pub fn finish(&mut self) {
        self.ranges.sort();
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns how records are found.
    pub fn kind(&self) -> EnrichKind {
        self.kind
    }

    /// Returns the field that is compared.
    pub fn match_field(&self) -> &str {
        &self.match_field
    }

    /// Returns at most `max_matches` records of a value, in the order in which they were added. A list stands for any of its values.
    pub fn find(&self, value: &Value, max_matches: usize) -> Vec<Map<String, Value>> {
        let mut places = Vec::new();
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            match self.kind {
                EnrichKind::Match => {
                    let found = text_of(value).and_then(|key| self.by_value.get(key.as_str()));
                    places.extend(found.into_iter().flatten().copied());
                }
                EnrichKind::Range => self.ranges.find(value, &mut places),
            }
        }
        places.sort_unstable();
        places.dedup();
        let records = places.into_iter().take(max_matches);
        // The bytes were read when the record was added.
        let read = |place: u32| serde_json::from_slice(&self.records[place as usize]).ok();
        records.filter_map(read).collect()
    }
}

/// Text of a value, by which it is compared; `None`: an object, a list or null.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the values at a path, through objects and lists; names may have dots.
fn values_at<'v>(value: &'v Value, path: &str, values: &mut Vec<&'v Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| values_at(value, path, values)),
        _ if path.is_empty() => values.push(value),
        Value::Object(members) => {
            for (name, member) in members {
                if path == name {
                    values_at(member, "", values);
                } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
                    values_at(member, rest, values);
                }
            }
        }
        _ => {}
    }
}

/// Reads an address.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(body: Value, records: &[Value]) -> EnrichTable {
        let definition = EnrichDefinition::parse(body.as_object().unwrap()).unwrap();
        let mut table = EnrichTable::new(&definition);
        for record in records {
            table.add(record.to_string().as_bytes()).unwrap();
        }
        table.finish();
        table
    }

    fn names(table: &EnrichTable, value: Value, max: usize) -> Vec<String> {
        let found = table.find(&value, max);
        found
            .iter()
            .map(|record| record["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn records_are_found_by_equal_values() {
        let body = json!({"match": {"indices": "users", "match_field": "user.mail", "enrich_fields": "name"}});
        let users = table(
            body,
            &[
                json!({"user": {"mail": "ann@x"}, "name": "Ann"}),
                json!({"user": {"mail": ["ann@x", "anna@x"]}, "name": "Anna"}),
                json!({"user.mail": 7, "name": "Seven"}),
                json!({"name": "without a mail"}),
            ],
        );
        assert_eq!(users.len(), 3);
        assert_eq!(names(&users, json!("ann@x"), 1), ["Ann"]);
        assert_eq!(names(&users, json!("ann@x"), 9), ["Ann", "Anna"]);
        assert_eq!(names(&users, json!(["anna@x", "ann@x"]), 9), ["Ann", "Anna"]);
        assert_eq!(names(&users, json!("7"), 9), ["Seven"]);
        assert_eq!(names(&users, json!(7), 9), ["Seven"]);
        assert!(names(&users, json!({"mail": "ann@x"}), 9).is_empty());
    }

    #[test]
    fn records_are_found_by_ranges() {
        let body = json!({"range": {"indices": ["nets"], "match_field": "net", "enrich_fields": ["name"]}});
        let nets = table(
            body,
            &[
                json!({"net": "10.0.0.0/8", "name": "all"}),
                json!({"net": "10.1.0.0/16", "name": "part"}),
                json!({"net": {"gte": "10.2.0.0", "lt": "10.2.0.9"}, "name": "few"}),
                json!({"net": {"gt": 5, "lte": 9.5}, "name": "numbers"}),
                json!({"net": "2001:db8::/32", "name": "six"}),
                json!({"net": "no range", "name": "none"}),
            ],
        );
        assert_eq!(nets.len(), 5);
        assert_eq!(names(&nets, json!("10.1.2.3"), 9), ["all", "part"]);
        assert_eq!(names(&nets, json!("10.2.0.8"), 9), ["all", "few"]);
        assert_eq!(names(&nets, json!("10.2.0.9"), 9), ["all"]);
        assert_eq!(names(&nets, json!("11.0.0.0"), 9), Vec::<String>::new());
        assert_eq!(names(&nets, json!("2001:db8::1"), 9), ["six"]);
        assert_eq!(names(&nets, json!(5), 9), Vec::<String>::new());
        assert_eq!(names(&nets, json!(9.5), 9), ["numbers"]);
        assert_eq!(names(&nets, json!("9.5"), 9), ["numbers"]);
    }

    #[test]
    fn invalid_policies_are_refused_by_name() {
        let check = |body: Value, expect: &str| {
            let error = EnrichDefinition::parse(body.as_object().unwrap()).unwrap_err();
            assert!(error.reason().contains(expect), "{error}");
        };
        check(json!({}), "one member");
        check(json!({"near": {}}), "unsupported policy type [near]");
        check(json!({"geo_match": {}}), "geo_match");
        check(json!({"match": {"indices": "a", "enrich_fields": "b"}}), "match_field");
        check(
            json!({"match": {"indices": "a", "match_field": "m", "enrich_fields": [], "query": {}}}),
            "must not be empty",
        );
        check(
            json!({"match": {"indices": "a", "match_field": "m", "enrich_fields": "b", "size": 1}}),
            "unknown field `size`",
        );
    }
}
