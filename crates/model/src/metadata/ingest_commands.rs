//! Commands of ingest pipelines and enrich policies. Processors and policies are checked where they are known, before a command is made.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::PipelineBodies;
use super::change::Change;
use super::ids::check_id;
use crate::names::matches_pattern;
use crate::{Error, ErrorKind, Result};

/// Maximum pipelines of one node. Each is compiled and stays in memory.
const PIPELINES_MAX: usize = 10_000;

/// Change of ingest pipelines.
#[derive(Debug, Clone, PartialEq)]
pub enum IngestCommand {
    /// `PUT /_ingest/pipeline/ID`. An identical pipeline changes nothing.
    PutPipeline {
        /// The id.
        id: String,
        /// The body.
        body: Map<String, Value>,
        /// Refuse with [`ErrorKind::IllegalArgument`] unless the stored pipeline has this version.
        if_version: Option<i64>,
    },
    /// `DELETE /_ingest/pipeline/ID`: an id or a wildcard. An id that does not exist fails with
    /// [`ErrorKind::ResourceNotFound`], a pipeline that is the default or final one of an index with
    /// [`ErrorKind::IllegalArgument`].
    DeletePipelines {
        /// Id or wildcard.
        id: String,
    },
}

impl Change<'_> {
    pub(super) fn ingest(&mut self, command: &IngestCommand) -> Result<()> {
        match command {
            IngestCommand::PutPipeline { id, body, if_version } => self.put_pipeline(id, body, *if_version),
            IngestCommand::DeletePipelines { id } => self.delete_pipelines(id),
        }
    }

    fn put_pipeline(&mut self, id: &str, body: &Map<String, Value>, if_version: Option<i64>) -> Result<()> {
        check_id(id)?;
        let stored = self.next.ingest.by_id.get(id);
        let mut body = body.clone();
        if let Some(required) = if_version {
            check_version(id, required, stored.map(AsRef::as_ref), &body)?;
            // A conditional change always has a version: the next one, unless the body has its own.
            body.entry("version").or_insert_with(|| (required + 1).into());
        }
        if stored.is_some_and(|stored| **stored == body) {
            return Ok(());
        }
        if stored.is_none() && self.next.ingest.by_id.len() >= PIPELINES_MAX {
            return Err(Error::illegal_argument(format!(
                "this node has the maximum of [{PIPELINES_MAX}] ingest pipelines"
            )));
        }
        Arc::make_mut(&mut self.next.ingest)
            .by_id
            .insert(id.to_owned(), Arc::new(body));
        self.changed();
        Ok(())
    }

    fn delete_pipelines(&mut self, id: &str) -> Result<()> {
        let selected: Vec<String> = self
            .next
            .ingest
            .by_id
            .keys()
            .filter(|name| matches_pattern(id, name))
            .cloned()
            .collect();
        if selected.is_empty() && id != "*" {
            let reason = format!("pipeline [{id}] is missing");
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        }
        for name in &selected {
            self.check_unused(name)?;
        }
        for name in selected {
            Arc::make_mut(&mut self.next.ingest).by_id.remove(&name);
            self.changed();
        }
        Ok(())
    }

    /// Refuses the deletion of a pipeline that writes to an index would miss.
    fn check_unused(&self, id: &str) -> Result<()> {
        for (setting, kind) in [("index.default_pipeline", "default"), ("index.final_pipeline", "final")] {
            let users: Vec<&str> = self
                .next
                .indices
                .values()
                .filter(|index| index.text_setting(setting) == Some(id))
                .map(|index| index.name.as_str())
                .collect();
            if let Some(first) = users.first() {
                return Err(Error::illegal_argument(format!(
                    "pipeline [{id}] cannot be deleted because it is the {kind} pipeline for {} index(es) including [{first}]",
                    users.len()
                )));
            }
        }
        Ok(())
    }
}

fn check_version(
    id: &str,
    required: i64,
    stored: Option<&Map<String, Value>>,
    body: &Map<String, Value>,
) -> Result<()> {
    let version = |body: &Map<String, Value>| body.get("version").and_then(Value::as_i64);
    let refuse = |reason: String| Err(Error::illegal_argument(reason));
    let Some(stored) = stored else {
        return refuse(format!(
            "version conflict, required version [{required}] for pipeline [{id}] but no pipeline was found"
        ));
    };
    let current = version(stored);
    if current != Some(required) {
        let current = current.map_or("null".to_owned(), |version| version.to_string());
        return refuse(format!(
            "version conflict, required version [{required}] for pipeline [{id}] but current version is [{current}]"
        ));
    }
    if version(body) == Some(required) {
        return refuse(format!(
            "cannot update pipeline [{id}] with the same version [{required}]"
        ));
    }
    Ok(())
}

/// Maximum enrich policies of one node.
const POLICIES_MAX: usize = 1000;
/// Start of the names of enrich indices.
const INDEX_PREFIX: &str = ".enrich-";
const POLICY: &str = "policy";
const INDEX: &str = "index";

/// Change of enrich policies.
#[derive(Debug, Clone, PartialEq)]
pub enum EnrichPolicyCommand {
    /// `PUT /_enrich/policy/NAME`. A name that is taken fails with [`ErrorKind::ResourceAlreadyExists`].
    Put {
        /// The name.
        name: String,
        /// The body.
        body: Map<String, Value>,
    },
    /// `DELETE /_enrich/policy/NAME`. A name that does not exist fails with [`ErrorKind::ResourceNotFound`], one that an ingest
    /// pipeline names with [`ErrorKind::Conflict`].
    Delete {
        /// The name.
        name: String,
    },
    /// The records of a policy are now those of another index.
    Executed {
        /// The name.
        name: String,
        /// The index.
        index: String,
    },
}

/// An enrich policy as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredEnrichPolicy<'a> {
    /// The body of its `PUT`.
    pub body: &'a Map<String, Value>,
    /// Index of its records; `None`: it was never executed.
    pub index: Option<&'a str>,
}

impl<'a> StoredEnrichPolicy<'a> {
    /// Returns a policy of the metadata.
    pub fn of(policies: &'a PipelineBodies, name: &str) -> Option<Self> {
        let stored = policies.by_id.get(name)?;
        Some(Self {
            body: stored.get(POLICY)?.as_object()?,
            index: stored.get(INDEX).and_then(Value::as_str),
        })
    }

    /// Returns the name of the index that holds a version of the records.
    pub fn index_name(policy: &str, version: i64) -> String {
        format!("{INDEX_PREFIX}{policy}-{version}")
    }
}

impl Change<'_> {
    pub(super) fn enrich_policy(&mut self, command: &EnrichPolicyCommand) -> Result<()> {
        match command {
            EnrichPolicyCommand::Put { name, body } => self.put_enrich_policy(name, body),
            EnrichPolicyCommand::Delete { name } => self.delete_enrich_policy(name),
            EnrichPolicyCommand::Executed { name, index } => self.set_enrich_index(name, index),
        }
    }

    fn put_enrich_policy(&mut self, name: &str, body: &Map<String, Value>) -> Result<()> {
        check_id(name)?;
        crate::names::validate_index_name(&StoredEnrichPolicy::index_name(name, 0))?;
        let by_id = &self.next.enrich_policies.by_id;
        if by_id.contains_key(name) {
            let reason = format!("policy [{name}] already exists");
            return Err(Error::new(ErrorKind::ResourceAlreadyExists, reason));
        }
        if by_id.len() >= POLICIES_MAX {
            return Err(Error::illegal_argument(format!(
                "this node has the maximum of [{POLICIES_MAX}] enrich policies"
            )));
        }
        let stored = Map::from_iter([(POLICY.to_owned(), Value::Object(body.clone()))]);
        self.store_enrich_policy(name, stored);
        Ok(())
    }

    fn delete_enrich_policy(&mut self, name: &str) -> Result<()> {
        if !self.next.enrich_policies.by_id.contains_key(name) {
            return Err(missing_policy(name));
        }
        let pipelines = self.next.ingest.by_id.iter();
        let named_by: Vec<&str> = pipelines
            .filter(|(_, body)| body.values().any(|value| names_policy(value, name)))
            .map(|(id, _)| id.as_str())
            .collect();
        if !named_by.is_empty() {
            let reason = format!(
                "Could not delete policy [{name}] because a pipeline is referencing it [{}]",
                named_by.join(", ")
            );
            return Err(Error::new(ErrorKind::Conflict, reason));
        }
        Arc::make_mut(&mut self.next.enrich_policies).by_id.remove(name);
        self.changed();
        Ok(())
    }

    fn set_enrich_index(&mut self, name: &str, index: &str) -> Result<()> {
        let Some(stored) = self.next.enrich_policies.by_id.get(name) else {
            return Err(missing_policy(name));
        };
        let mut stored = (**stored).clone();
        stored.insert(INDEX.to_owned(), json!(index));
        self.store_enrich_policy(name, stored);
        Ok(())
    }

    fn store_enrich_policy(&mut self, name: &str, stored: Map<String, Value>) {
        Arc::make_mut(&mut self.next.enrich_policies)
            .by_id
            .insert(name.to_owned(), Arc::new(stored));
        self.changed();
    }
}

fn missing_policy(name: &str) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("policy [{name}] not found"))
}

/// Whether a processor somewhere in this part of a pipeline is `enrich` with the policy.
fn names_policy(part: &Value, policy: &str) -> bool {
    match part {
        Value::Array(values) => values.iter().any(|value| names_policy(value, policy)),
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_named = name == "enrich" && value.get("policy_name").and_then(Value::as_str) == Some(policy);
            is_named || names_policy(value, policy)
        }),
        _ => false,
    }
}
