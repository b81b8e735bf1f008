//! What exists: indices, aliases, templates, data streams; and the commands that change it.
//!
//! [`Metadata::apply`] is pure: it takes the state, a command, the time and fresh identifiers,
//! and returns the next state with an outcome, or an error and no change. Whoever keeps the
//! state stores the difference in one transaction.

mod alias_commands;
mod change;
mod cluster_commands;
mod create;
mod data_streams;
mod global_state;
mod ilm_commands;
mod index_commands;
mod indices;
mod json;
mod mount;
mod parse;
mod periods;
mod print;
mod private_indices;
mod repository_commands;
mod rollover;
mod slm_commands;
mod template_commands;
mod templates;
mod tenant_indices;
mod tenant_room;
mod tiers;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

pub use cluster_commands::{check_cluster_settings, cluster_setting_defaults};
pub use global_state::IDS_OF;
pub use ilm_commands::IlmCommand;
pub use indices::{Indices, OpenShards};
pub use periods::{NEW_PERIODS_MAX, event_times};
pub use private_indices::PRIVATE_INDICES_MAX;
pub use slm_commands::SlmCommand;
pub use templates::TIMESTAMP;
pub use view::Viewer;

use crate::ilm::{Execution, Policies};
use crate::lifecycle::Lifecycle;
use crate::mapping::Mapping;
use crate::placement::Placement;
use crate::repository::RepositoryMetadata;
use crate::settings::{IndexSettings, SettingsMap, SnapshotStore};
use crate::slm::SnapshotPolicies;
use crate::tenant::TenantId;
use crate::tier::Tier;

/// Everything named on a node. Parts are shared, so a clone is cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Goes up by one with every change.
    pub version: u64,
    /// By concrete name.
    pub indices: Indices,
    /// By name.
    pub data_streams: BTreeMap<String, Arc<DataStream>>,
    /// By name.
    pub component_templates: BTreeMap<String, Arc<ComponentTemplate>>,
    /// By name (composable ones).
    pub index_templates: BTreeMap<String, Arc<IndexTemplate>>,
    /// `persistent` settings of `_cluster/settings`, flat.
    pub cluster_settings: SettingsMap,
    /// `transient` settings of `_cluster/settings`, flat. They end with the process: the catalog does not hold them.
    pub transient_settings: SettingsMap,
    /// Settings of the cluster that the node's own configuration has, flat. The catalog does not hold them.
    pub configured_settings: SettingsMap,
    /// Made once, when the data folder is new.
    pub cluster_uuid: String,
    /// Where tenants lie in new indices; `None`: where their hash says.
    pub placement: Option<Arc<Placement>>,
    /// Tenants that are being deleted: nothing more is written for them.
    pub closed_tenants: Arc<BTreeSet<String>>,
    /// Snapshot repositories by name.
    pub repositories: BTreeMap<String, Arc<RepositoryMetadata>>,
    /// Index lifecycle policies.
    pub ilm: Arc<Policies>,
    /// Snapshot lifecycle policies.
    pub slm: Arc<SnapshotPolicies>,
}

/// One concrete index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexMetadata {
    /// Its name.
    pub name: String,
    /// 22 characters of URL-safe base64.
    pub uuid: String,
    /// When it was created, ms since epoch UTC.
    pub created_ms: i64,
    /// Closed indices keep their data and answer nothing.
    pub closed: bool,
    /// As typed, normalised to flat `index.…` names; and what firn derives from them.
    pub settings: IndexSettings,
    /// Its mapping.
    pub mapping: Arc<Mapping>,
    /// The fields that somebody declared, by their full path without multi-fields: every tenant that sees the index
    /// knows them. Those that documents brought are not among them. `None`: nobody wrote them down, because it holds
    /// no events by tenant or is older than that; what is declared from then on is.
    pub declared_fields: Option<Arc<BTreeSet<String>>>,
    /// By alias name.
    pub aliases: BTreeMap<String, AliasMetadata>,
    /// The data stream it backs.
    pub data_stream: Option<String>,
    /// Where its tenants lie, as the node's table said when it was created. `None`: where their hash
    /// says.
    pub placement: Option<Arc<Placement>>,
    /// When another index took over the writes of its alias or data stream, ms since epoch UTC.
    pub rolled_over_ms: Option<i64>,
    /// How far it is in its lifecycle policy; `None`: it never had one, or only just got it.
    pub execution: Option<Arc<Execution>>,
    /// Where its shards lie, by number; those that are not in it lie on [`Tier::Hot`].
    pub tiers: BTreeMap<u32, Tier>,
    /// The tenant whose write made it, where a template says that tenants share it. `None`: an operator made it, or an
    /// older firn did.
    pub made_by: Option<TenantId>,
}

/// An alias as seen from one of its indices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AliasMetadata {
    /// A query in JSON; searches through the alias see only what matches.
    pub filter: Option<Value>,
    /// For writes.
    pub index_routing: Option<String>,
    /// For searches; may be several, comma-separated.
    pub search_routing: Option<String>,
    /// Whether writes through the alias go here.
    pub is_write_index: Option<bool>,
    /// Not expanded by wildcards.
    pub is_hidden: Option<bool>,
    /// The filter narrows, and is not printed: in what a tenant is shown, as it may name others.
    pub is_filter_untold: bool,
}

/// A data stream.
#[derive(Debug, Clone, PartialEq)]
pub struct DataStream {
    /// Its name.
    pub name: String,
    /// Backing indices, oldest first; the last is written to, or, with periods, that of an event's
    /// time. Named `.ds-NAME-yyyy.MM.dd-000001`.
    pub indices: Vec<String>,
    /// Counts rollovers from 1.
    pub generation: u64,
    /// The template it came from.
    pub template: String,
    /// `_meta` of the template.
    pub meta: Option<Value>,
    /// Whether wildcards skip it.
    pub hidden: bool,
    /// How long it keeps its events; `None`: nobody drops them.
    pub lifecycle: Option<Lifecycle>,
    /// The tenant whose write made it, where a template says that tenants share it. `None`: an operator made it, or an
    /// older firn did.
    pub made_by: Option<TenantId>,
}

/// What a template contributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TemplateContent {
    /// Flat `index.…` settings.
    pub settings: SettingsMap,
    /// The mapping as JSON, merged in order with those of other templates.
    pub mappings: Option<Value>,
    /// Aliases of new indices.
    pub aliases: BTreeMap<String, AliasMetadata>,
    /// `lifecycle`, kept as written.
    pub lifecycle: Option<Value>,
}

/// `_component_template/NAME`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComponentTemplate {
    /// What it contributes.
    pub template: TemplateContent,
    /// As the user counts.
    pub version: Option<i64>,
    /// Kept as written.
    pub meta: Option<Value>,
}

/// `_index_template/NAME`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexTemplate {
    /// With `*`.
    pub index_patterns: Vec<String>,
    /// Component templates, later ones win; the template's own content wins over all.
    pub composed_of: Vec<String>,
    /// Those that may be missing.
    pub ignore_missing_component_templates: Vec<String>,
    /// Highest wins (default 0).
    pub priority: u64,
    /// Its own content.
    pub template: TemplateContent,
    /// `Some`: matching names become data streams. Kept as written (`hidden`, …).
    pub data_stream: Option<Map<String, Value>>,
    /// `allow_auto_create`.
    pub allow_auto_create: Option<bool>,
    /// As the user counts.
    pub version: Option<i64>,
    /// Kept as written.
    pub meta: Option<Value>,
}

/// A change of metadata. Names inside are as the user wrote them.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `PUT /name` with the body's parts. Date math in the name is resolved.
    CreateIndex {
        /// The name.
        name: String,
        /// `settings`, nested or flat, with or without `index.`.
        settings: Value,
        /// `mappings`.
        mappings: Option<Value>,
        /// `aliases`, as in the body.
        aliases: Option<Value>,
    },
    /// `PUT /name` by a tenant: an index of its own, whatever others call so. [`Outcome::created_index`] is what the
    /// tenant calls it.
    CreateOwnIndex {
        /// As the tenant calls it.
        name: String,
        /// Who has it alone.
        tenant: TenantId,
        /// As in [`Command::CreateIndex`].
        settings: Value,
        /// `mappings`.
        mappings: Option<Value>,
    },
    /// A write to a name that does not exist: index or data stream, by the templates. Existing
    /// names are fine and change nothing.
    AutoCreate {
        /// The name.
        name: String,
        /// Who writes; `None`: an operator.
        tenant: Option<TenantId>,
    },
    /// Deletes concrete indices, already resolved. A data stream's write index is refused.
    DeleteIndices {
        /// Concrete names.
        names: Vec<String>,
    },
    /// Deletes indices that a tenant's writes made and in which nobody has a document, and the data stream whose only ones
    /// they are. Nothing changes where one of them is another or nobody's by now, or the data stream has more.
    DropUnused {
        /// Whose writes.
        tenant: TenantId,
        /// The data stream.
        stream: Option<String>,
        /// Concrete names, each with its uuid.
        indices: BTreeMap<String, String>,
    },
    /// Opens or closes concrete indices.
    SetClosed {
        /// Concrete names.
        names: Vec<String>,
        /// True: close.
        closed: bool,
    },
    /// Merges a mapping into concrete indices.
    PutMapping {
        /// Concrete names.
        names: Vec<String>,
        /// The mapping's JSON.
        mapping: Value,
    },
    /// Fields found in documents, as a mapping that only adds. Fields past
    /// `index.mapping.total_fields.limit` are left out (dynamic-as-flattened); the outcome's
    /// metadata tells what is there.
    AddDynamicFields {
        /// One concrete index.
        name: String,
        /// The mapping that adds them.
        mapping: Arc<Mapping>,
    },
    /// Changes dynamic settings of concrete indices; `null` resets.
    PutSettings {
        /// Concrete names.
        names: Vec<String>,
        /// Nested or flat.
        settings: Value,
        /// Keep what is set already.
        preserve_existing: bool,
    },
    /// `POST /_aliases`: all actions or none.
    UpdateAliases {
        /// In order; index names already resolved.
        actions: Vec<AliasAction>,
    },
    /// `PUT /_component_template/name`.
    PutComponentTemplate {
        /// The name.
        name: String,
        /// The body.
        body: Value,
        /// Refuse if it exists.
        create: bool,
    },
    /// Names or wildcards; 404 if nothing matches, 400 if one is in use.
    DeleteComponentTemplate {
        /// Names.
        names: Vec<String>,
    },
    /// `PUT /_index_template/name`.
    PutIndexTemplate {
        /// The name.
        name: String,
        /// The body.
        body: Value,
        /// Refuse if it exists.
        create: bool,
    },
    /// Names or wildcards.
    DeleteIndexTemplate {
        /// Names.
        names: Vec<String>,
    },
    /// `PUT /_data_stream/name`: needs a matching template with `data_stream`.
    CreateDataStream {
        /// The name.
        name: String,
    },
    /// The backing indices that a data stream with periods lacks for events of these times; it does
    /// nothing where they exist.
    CreateBackingIndices {
        /// The data stream.
        stream: String,
        /// ms since epoch UTC, in any order.
        times_ms: Vec<i64>,
    },
    /// `PUT` and `DELETE /_data_stream/name/_lifecycle`; names resolved.
    PutDataStreamLifecycle {
        /// Names.
        names: Vec<String>,
        /// `None`: takes it away.
        lifecycle: Option<Lifecycle>,
    },
    /// With its backing indices; names resolved.
    DeleteDataStream {
        /// Names.
        names: Vec<String>,
    },
    /// `POST /target/_rollover[/new_name]`. The engine fills `facts` before it applies.
    Rollover {
        /// Alias with a write index, or data stream.
        target: String,
        /// For aliases; default: the number at the end plus one.
        new_index: Option<String>,
        /// `conditions`, by name; empty: always.
        conditions: IndexMap<String, Value>,
        /// `settings`, `mappings`, `aliases` of the new index.
        body: Value,
        /// Only say what would happen.
        dry_run: bool,
        /// Of the write index.
        facts: RolloverFacts,
    },
    /// `POST /_snapshot/repository/snapshot/_mount`.
    MountIndex(Box<MountIndex>),
    /// The files of a shard lie on another device from now on; they are there. Stored also where nothing
    /// changes, so that whoever is not sure whether it was stored before can make sure.
    MoveShard {
        /// The index.
        index: String,
        /// Its uuid: another index of the same name is another index.
        uuid: String,
        /// The number of the shard.
        shard: u32,
        /// Where it lies.
        tier: Tier,
    },
    /// Where tenants lie in indices that are made from now on; `None`: where their hash says.
    PutPlacement {
        /// The table.
        placement: Option<Placement>,
    },
    /// Policies of index lifecycles, and how far indices are in them.
    Ilm(IlmCommand),
    /// Policies of snapshot lifecycles, and what they have done.
    Slm(SlmCommand),
    /// Refuses writes for a tenant, or takes them again.
    SetTenantClosed {
        /// The value of the tenant field.
        tenant: String,
        /// True: refuse.
        closed: bool,
    },
    /// Registers a snapshot repository, or registers it anew. What lies there is not looked at.
    PutRepository {
        /// Its name.
        name: String,
        /// What it is.
        repository: RepositoryMetadata,
    },
    /// Forgets repositories, and leaves what lies there; names resolved.
    DeleteRepositories {
        /// Names.
        names: Vec<String>,
    },
    /// Whole indices and data streams that come from a snapshot, restored or mounted: their uuids are
    /// fresh, and the files of those that have any are there.
    AddIndices {
        /// The indices.
        indices: Vec<Arc<IndexMetadata>>,
        /// Data streams over them.
        data_streams: Vec<Arc<DataStream>>,
        /// Templates and settings of the cluster that come with them.
        global: Option<Box<GlobalState>>,
    },
    /// `persistent` settings of `PUT /_cluster/settings`; `null` resets.
    PutClusterSettings {
        /// Nested or flat.
        settings: Value,
    },
    /// `transient` settings of `PUT /_cluster/settings`; `null` resets.
    PutTransientSettings {
        /// Nested or flat.
        settings: Value,
    },
}

/// What a snapshot holds beside indices and data streams.
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
}

/// An index that reads a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct MountIndex {
    /// The new index.
    pub name: String,
    /// As it was in the snapshot.
    pub index: Arc<IndexMetadata>,
    /// Where it is read.
    pub store: SnapshotStore,
    /// `index_settings`: over those in the snapshot, flat.
    pub settings: SettingsMap,
    /// `ignore_index_settings`: settings in the snapshot that the new index does not take; wildcards allowed.
    pub ignored_settings: Vec<String>,
}

/// Measured facts that rollover conditions are held against.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloverFacts {
    /// Documents.
    pub doc_count: u64,
    /// Bytes of all primary shards.
    pub size_bytes: u64,
    /// Documents of the largest shard.
    pub shard_doc_count_max: u64,
    /// Bytes of the largest shard.
    pub shard_size_bytes_max: u64,
}

/// One action of `_aliases`.
#[derive(Debug, Clone, PartialEq)]
pub enum AliasAction {
    /// Adds or replaces.
    Add {
        /// Concrete index.
        index: String,
        /// The alias.
        alias: String,
        /// Its parts.
        metadata: AliasMetadata,
    },
    /// Takes away; wildcards allowed in `alias`.
    Remove {
        /// Concrete index.
        index: String,
        /// The alias.
        alias: String,
        /// Fail if it is not there.
        must_exist: bool,
    },
    /// Deletes the index in the same step.
    RemoveIndex {
        /// Concrete index.
        index: String,
    },
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// False: nothing needed changing.
    pub changed: bool,
    /// Concrete index created, if one.
    pub created_index: Option<String>,
    /// Only for rollover.
    pub rollover: Option<RolloverOutcome>,
    /// The state after it.
    pub metadata: Option<Arc<Metadata>>,
}

/// The answer to a rollover.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloverOutcome {
    /// Write index before.
    pub old_index: String,
    /// Write index after (or what it would be).
    pub new_index: String,
    /// Whether it happened.
    pub rolled_over: bool,
    /// Each condition as `[max_docs: 5]`, and whether it was met.
    pub conditions: IndexMap<String, bool>,
    /// Whether the conditions together ask for it.
    pub is_due: bool,
}

impl Metadata {
    /// The state after `command`, and what it did. `fresh_id` makes 22-character uuids.
    ///
    /// All of the command or, with an error, nothing. If nothing needed changing, the state that
    /// comes back has the same version and [`Outcome::changed`] is false.
    pub fn apply(
        &self,
        command: &Command,
        now_ms: i64,
        fresh_id: &mut dyn FnMut() -> String,
    ) -> crate::Result<(Arc<Metadata>, Outcome)> {
        let mut change = change::Change {
            next: self.clone(),
            now_ms,
            fresh_id,
            outcome: Outcome::default(),
        };
        change.run(command)?;
        let change::Change {
            mut next, mut outcome, ..
        } = change;
        if outcome.changed {
            next.version += 1;
        }
        let next = Arc::new(next);
        outcome.metadata = Some(Arc::clone(&next));
        Ok((next, outcome))
    }

    /// Whether an index, alias or data stream has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.indices.contains_key(name) || self.data_streams.contains_key(name) || self.has_alias(name)
    }

    /// Whether some index has this alias.
    pub fn has_alias(&self, name: &str) -> bool {
        self.indices.has_alias(name)
    }
}
