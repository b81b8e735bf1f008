//! A document in a pipeline: its metadata, its source, and the metadata of the run (`_ingest`).

mod access;
mod java;
mod path;
mod template;
mod timestamp;

pub(crate) use access::cannot_cast;
pub(crate) use java::{class_name, java_text};
pub(crate) use path::{Path, Root};
pub(crate) use template::{MediaType, Template, ValueSource};

use serde_json::{Map, Value};

use super::failure::Failure;

/// Names of the metadata, which a pipeline reads and writes like fields of the source.
pub(crate) const METADATA: [&str; 9] = [
    "_index",
    "_id",
    "_routing",
    "_version",
    "_version_type",
    "_if_seq_no",
    "_if_primary_term",
    "_dynamic_templates",
    "_type",
];

/// Version of a document that states none, as Elasticsearch prints it (`Versions.MATCH_ANY`).
const VERSION_ANY: i64 = -3;

/// A document in a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The source.
    pub source: Map<String, Value>,
    /// `_index`, `_id` and so on, as far as they are set; a pipeline may change them.
    metadata: Map<String, Value>,
    /// `_ingest`: time, pipeline, and the failure while an `on_failure` runs.
    ingest: Map<String, Value>,
}

impl Document {
    /// Creates a document.
    pub fn new(index: &str, id: Option<&str>, source: Map<String, Value>) -> Self {
        let mut metadata = Map::new();
        metadata.insert("_index".to_owned(), index.into());
        if let Some(id) = id {
            metadata.insert("_id".to_owned(), id.into());
        }
        metadata.insert("_version".to_owned(), VERSION_ANY.into());
        Self {
            source,
            metadata,
            ingest: Map::new(),
        }
    }

    /// Sets the routing.
    #[must_use]
    pub fn with_routing(mut self, routing: Option<&str>) -> Self {
        if let Some(routing) = routing {
            self.metadata.insert("_routing".to_owned(), routing.into());
        }
        self
    }

    /// Sets the version and its type (`internal`, `external`, `external_gte`).
    #[must_use]
    pub fn with_version(mut self, version: Option<i64>, version_type: Option<&str>) -> Self {
        if let Some(version) = version {
            self.metadata.insert("_version".to_owned(), version.into());
        }
        if let Some(version_type) = version_type {
            self.metadata.insert("_version_type".to_owned(), version_type.into());
        }
        self
    }

    /// Sets the dynamic templates of the bulk item.
    #[must_use]
    pub fn with_dynamic_templates(mut self, templates: Option<Map<String, Value>>) -> Self {
        if let Some(templates) = templates {
            self.metadata
                .insert("_dynamic_templates".to_owned(), Value::Object(templates));
        }
        self
    }

    /// Sets `if_seq_no` and `if_primary_term`.
    #[must_use]
    pub fn with_sequence(mut self, seq_no: Option<i64>, primary_term: Option<i64>) -> Self {
        if let Some(seq_no) = seq_no {
            self.metadata.insert("_if_seq_no".to_owned(), seq_no.into());
        }
        if let Some(primary_term) = primary_term {
            self.metadata.insert("_if_primary_term".to_owned(), primary_term.into());
        }
        self
    }

    /// Returns the index; a pipeline may have changed it.
    pub fn index(&self) -> &str {
        self.metadata_text("_index").unwrap_or_default()
    }

    /// Returns the id, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.metadata_text("_id")
    }

    /// Returns the routing, if there is one.
    pub fn routing(&self) -> Option<&str> {
        self.metadata_text("_routing")
    }

    /// Returns the version, if the request or a processor set one.
    pub fn version(&self) -> Option<i64> {
        let version = self.metadata.get("_version").and_then(Value::as_i64);
        version.filter(|version| *version != VERSION_ANY)
    }

    /// Returns the type of the version, if there is one.
    pub fn version_type(&self) -> Option<&str> {
        self.metadata_text("_version_type")
    }

    /// Returns `if_seq_no` and `if_primary_term`, if set.
    pub fn sequence(&self) -> (Option<i64>, Option<i64>) {
        let number = |name: &str| self.metadata.get(name).and_then(Value::as_i64);
        (number("_if_seq_no"), number("_if_primary_term"))
    }

    /// Returns the dynamic templates: a name of a template by path of a field.
    pub fn dynamic_templates(&self) -> Option<&Map<String, Value>> {
        self.metadata.get("_dynamic_templates").and_then(Value::as_object)
    }

    /// Returns the metadata as they are.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }

    /// Returns `_ingest`.
    pub fn ingest(&self) -> &Map<String, Value> {
        &self.ingest
    }

    /// Sets or removes a value of `_ingest`.
    pub(crate) fn set_ingest(&mut self, name: &str, value: Option<Value>) -> Option<Value> {
        match value {
            Some(value) => self.ingest.insert(name.to_owned(), value),
            None => self.ingest.shift_remove(name),
        }
    }

    /// Sets `_ingest.timestamp`.
    pub(crate) fn start(&mut self, now_ms: i64) {
        let text = timestamp::print(now_ms);
        self.ingest.insert("timestamp".to_owned(), text.into());
    }

    fn metadata_text(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).and_then(Value::as_str)
    }

    /// Checks a value of the metadata. Elasticsearch's texts.
    fn check_metadata(name: &str, value: &Value) -> Result<(), Failure> {
        let expected = match name {
            "_index" | "_id" | "_routing" | "_type" | "_version_type" => "java.lang.String",
            "_version" | "_if_seq_no" | "_if_primary_term" => "java.lang.Number",
            _ => "java.util.Map",
        };
        if value.is_null() {
            return match name {
                "_version" | "_index" => Err(Failure::illegal(format!("{name} cannot be null"))),
                _ => Ok(()),
            };
        }
        let fits = match expected {
            "java.lang.String" => value.is_string(),
            "java.lang.Number" => value.is_i64(),
            _ => value.is_object(),
        };
        if name == "_version_type" && fits && !matches!(value.as_str(), Some("internal" | "external" | "external_gte"))
        {
            let text = value.as_str().unwrap_or_default();
            let reason = format!(
                "_version_type must be a null or one of [internal, external, external_gte] but was [{text}] with type [java.lang.String]"
            );
            return Err(Failure::illegal(reason));
        }
        if fits {
            return Ok(());
        }
        Err(Failure::illegal(format!(
            "{name} [{}] is wrong type, expected assignable to [{expected}], not [{}]",
            java_text(value),
            class_name(value)
        )))
    }
}
