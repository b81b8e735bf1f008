//! Entities of the metadata: indices, aliases, data streams and templates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::ilm::Execution;
use crate::lifecycle::Lifecycle;
use crate::mapping::Mapping;
use crate::placement::Placement;
use crate::settings::{IndexSettings, SettingsMap};
use crate::tenant::TenantId;
use crate::tier::Tier;

/// One concrete index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexMetadata {
    /// Its name.
    pub name: String,
    /// 22 characters of URL-safe base64.
    pub uuid: String,
    /// When it was created, ms since epoch UTC.
    pub created_ms: i64,
    /// Closed indices keep their data and serve no requests.
    pub closed: bool,
    /// Settings as typed, normalised to flat `index.…` names, and values derived from them.
    pub settings: IndexSettings,
    /// Its mapping.
    pub mapping: Arc<Mapping>,
    /// Declared fields, by full path without multi-fields: every tenant that sees the index knows them. Fields that
    /// documents added are not included. `None`: not recorded, because the index does not hold events by tenant or was
    /// created before firn recorded them. Fields declared from then on are recorded.
    pub declared_fields: Option<Arc<BTreeSet<String>>>,
    /// By alias name.
    pub aliases: BTreeMap<String, AliasMetadata>,
    /// The data stream that it backs.
    pub data_stream: Option<String>,
    /// Placement of its tenants, copied from the node's table at creation. `None`: by hash.
    pub placement: Option<Arc<Placement>>,
    /// When another index took over the writes of its alias or data stream, ms since epoch UTC.
    pub rolled_over_ms: Option<i64>,
    /// Progress in its lifecycle policy; `None`: it never had a policy, or was only just assigned one.
    pub execution: Option<Arc<Execution>>,
    /// Tiers of its shards, by number; shards without an entry lie on [`Tier::Hot`].
    pub tiers: BTreeMap<u32, Tier>,
    /// The tenant whose write created it, if a template says that tenants share the index. `None`: an operator or an
    /// older firn created it.
    pub made_by: Option<TenantId>,
}

/// Alias of one index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AliasMetadata {
    /// Query in JSON; searches through the alias see only matching documents.
    pub filter: Option<Value>,
    /// Routing of writes.
    pub index_routing: Option<String>,
    /// Routing of searches; may be several values, comma-separated.
    pub search_routing: Option<String>,
    /// Whether the index receives the writes through the alias.
    pub is_write_index: Option<bool>,
    /// Wildcards skip the alias.
    pub is_hidden: Option<bool>,
    /// The filter applies but is not printed: set in a tenant's view, because the filter may name other tenants.
    pub is_filter_untold: bool,
}

/// A data stream.
#[derive(Debug, Clone, PartialEq)]
pub struct DataStream {
    /// Its name.
    pub name: String,
    /// Backing indices, oldest first. The last one receives the writes; with periods, the one of the event's time.
    /// Named `.ds-NAME-yyyy.MM.dd-000001`.
    pub indices: Vec<String>,
    /// Counts rollovers from 1.
    pub generation: u64,
    /// Name of its index template.
    pub template: String,
    /// `_meta` of the template.
    pub meta: Option<Value>,
    /// Whether wildcards skip it.
    pub hidden: bool,
    /// Retention of its events; `None`: events are not removed.
    pub lifecycle: Option<Lifecycle>,
    /// The tenant whose write created it, if a template says that tenants share it. `None`: an operator or an older
    /// firn created it.
    pub made_by: Option<TenantId>,
}

/// Content that a template contributes to an index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TemplateContent {
    /// Flat `index.…` settings.
    pub settings: SettingsMap,
    /// The mapping as JSON, merged in order with those of other templates.
    pub mappings: Option<Value>,
    /// Aliases of new indices.
    pub aliases: BTreeMap<String, AliasMetadata>,
    /// `lifecycle`, stored as written.
    pub lifecycle: Option<Value>,
}

/// `_component_template/NAME`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComponentTemplate {
    /// Contributed content.
    pub template: TemplateContent,
    /// Version given by the user.
    pub version: Option<i64>,
    /// Stored as written.
    pub meta: Option<Value>,
}

/// `_index_template/NAME`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexTemplate {
    /// Patterns with `*`.
    pub index_patterns: Vec<String>,
    /// Component templates; later ones override earlier ones, and the template's own content overrides all.
    pub composed_of: Vec<String>,
    /// Component templates that may be missing.
    pub ignore_missing_component_templates: Vec<String>,
    /// Highest wins (default 0).
    pub priority: u64,
    /// Content of the template itself.
    pub template: TemplateContent,
    /// `Some`: matching names become data streams. Stored as written (`hidden`, …).
    pub data_stream: Option<Map<String, Value>>,
    /// `allow_auto_create`.
    pub allow_auto_create: Option<bool>,
    /// Version given by the user.
    pub version: Option<i64>,
    /// Stored as written.
    pub meta: Option<Value>,
}
