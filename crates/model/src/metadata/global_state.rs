//! Global state in a snapshot: templates, cluster settings and lifecycle policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{ComponentTemplate, IndexMetadata, IndexTemplate, Metadata, PipelineBodies};
use crate::ilm::Policies;
use crate::settings::SettingsMap;
use crate::{Error, Result};

/// Setting with the uuid of the index that generated the document ids; see [`IndexMetadata::ids_of`].
pub const IDS_OF: &str = "index.ids.uuid";

/// Content of a snapshot besides indices and data streams.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GlobalState {
    /// By name.
    pub component_templates: BTreeMap<String, Arc<ComponentTemplate>>,
    /// By name.
    pub index_templates: BTreeMap<String, Arc<IndexTemplate>>,
    /// `persistent` settings, flat.
    pub cluster_settings: SettingsMap,
    /// Lifecycle policies.
    pub ilm: Arc<Policies>,
    /// Ingest pipelines.
    pub ingest: Arc<PipelineBodies>,
}

impl GlobalState {
    /// Returns the global state of a node.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            component_templates: metadata.component_templates.clone(),
            index_templates: metadata.index_templates.clone(),
            cluster_settings: metadata.cluster_settings.clone(),
            ilm: Arc::clone(&metadata.ilm),
            ingest: Arc::clone(&metadata.ingest),
        }
    }

    /// Prints `component_templates`, `index_templates`, `cluster_settings`, `ilm`, `ingest`.
    pub fn to_json(&self) -> Value {
        let component_templates: Map<String, Value> = each(&self.component_templates, ComponentTemplate::to_json);
        let index_templates: Map<String, Value> = each(&self.index_templates, IndexTemplate::to_json);
        json!({
            "component_templates": component_templates,
            "index_templates": index_templates,
            "cluster_settings": self.cluster_settings,
            "ilm": self.ilm.to_json(),
            "ingest": self.ingest.to_json(),
        })
    }

    /// Reads the output of [`GlobalState::to_json`]; other JSON fails with [`crate::ErrorKind::Internal`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let map = |field: &str| {
            let map = json[field].as_object();
            map.ok_or_else(|| Error::internal(format!("stored global state lacks a valid [{field}]")))
        };
        let mut state = Self {
            cluster_settings: map("cluster_settings")?.clone().into_iter().collect(),
            ilm: Arc::new(Policies::from_json(&json["ilm"])?),
            ingest: Arc::new(PipelineBodies::from_json(&json["ingest"])?),
            ..Self::default()
        };
        for (name, template) in map("component_templates")? {
            let template = Arc::new(ComponentTemplate::from_json(template)?);
            state.component_templates.insert(name.clone(), template);
        }
        for (name, template) in map("index_templates")? {
            let template = Arc::new(IndexTemplate::from_json(template)?);
            state.index_templates.insert(name.clone(), template);
        }
        Ok(state)
    }
}

fn each<T>(entities: &BTreeMap<String, Arc<T>>, print: impl Fn(&T) -> Value) -> Map<String, Value> {
    entities
        .iter()
        .map(|(name, entity)| (name.clone(), print(entity)))
        .collect()
}

impl IndexMetadata {
    /// Returns the uuid of the index that generated the ids of documents written without one: this index, unless its
    /// documents came from a snapshot of another.
    pub fn ids_of(&self) -> &str {
        let typed = &self.settings.typed;
        let of = typed
            .get(IDS_OF)
            .or_else(|| typed.get("index.store.snapshot.index_uuid"));
        of.and_then(Value::as_str).unwrap_or(&self.uuid)
    }
}
