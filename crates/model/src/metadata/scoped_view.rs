//! Views: the part of the metadata that one caller may see.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{AliasMetadata, DataStream, IndexMetadata, Indices, Metadata, TIMESTAMP};
use crate::names::{is_alerts_of_another, known_as, private_index_name};
use crate::settings::SettingsMap;
use crate::tenant::TenantId;

/// Caller of a view.
pub struct Viewer<'a> {
    /// If set, the view has only indices that hold events by tenant and are not private to another tenant.
    pub tenant: Option<&'a TenantId>,
    /// Whether the caller may see a name, as far as the name decides.
    pub allows_name: &'a dyn Fn(&str) -> bool,
}

impl Metadata {
    /// Returns the metadata that `viewer` may see. All other entities are absent, not only hidden: resolving a
    /// forbidden name gives the same result as a missing name.
    ///
    /// An index is visible if its name or that of its data stream is allowed. A tenant does not see the alerts of another, aliases with
    /// another tenant's routing, or with a filter that selects only other tenants. Other filters apply but are not
    /// printed, because they may name other tenants. A tenant sees no templates, cluster settings or operators' notes
    /// on data streams. Mappings contain only the fields that every tenant has: which fields a tenant's events have is
    /// not known here.
    pub fn view(&self, viewer: &Viewer<'_>) -> Metadata {
        let mut indices: Indices = self
            .indices
            .values()
            .filter(|index| viewer.sees(index))
            .map(|index| viewer.index(index))
            .collect();
        let mut data_streams: BTreeMap<String, Arc<DataStream>> = self
            .data_streams
            .values()
            .filter_map(|stream| Some((stream.name.clone(), viewer.data_stream(stream, &indices)?)))
            .collect();
        if let Some(tenant) = viewer.tenant {
            name_private(&mut indices, &mut data_streams, tenant);
        }
        let is_tenant = viewer.tenant.is_some();
        let is_known = |name: &str| viewer.tenant.is_none_or(|tenant| tenant.as_str() == name);
        Metadata {
            version: self.version,
            indices,
            data_streams,
            component_templates: hidden_if(is_tenant, &self.component_templates),
            index_templates: hidden_if(is_tenant, &self.index_templates),
            cluster_settings: match is_tenant {
                true => SettingsMap::new(),
                false => self.cluster_settings.clone(),
            },
            transient_settings: match is_tenant {
                true => SettingsMap::new(),
                false => self.transient_settings.clone(),
            },
            configured_settings: match is_tenant {
                true => SettingsMap::new(),
                false => self.configured_settings.clone(),
            },
            cluster_uuid: self.cluster_uuid.clone(),
            closed_tenants: Arc::new(
                self.closed_tenants
                    .iter()
                    .filter(|closed| is_known(closed))
                    .cloned()
                    .collect(),
            ),
            // The table names the tenants that it places.
            placement: self.placement.clone().filter(|_| !is_tenant),
            repositories: hidden_if(is_tenant, &self.repositories),
            ingest: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.ingest),
            },
            event_pipelines: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.event_pipelines),
            },
            detection_rules: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.detection_rules),
            },
            alert_channels: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.alert_channels),
            },
            maintenance_windows: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.maintenance_windows),
            },
            enrich_policies: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.enrich_policies),
            },
            slm: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.slm),
            },
            ilm: match is_tenant {
                true => Arc::default(),
                false => Arc::clone(&self.ilm),
            },
        }
    }
}

fn hidden_if<T: Clone>(hidden: bool, map: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    match hidden {
        true => BTreeMap::new(),
        false => map.clone(),
    }
}

impl Viewer<'_> {
    fn sees(&self, index: &IndexMetadata) -> bool {
        let within_reach = self.tenant.is_none_or(|tenant| index.settings.is_for(tenant));
        let own_name = || match self.tenant.and_then(|tenant| index.name_of_owner(tenant)) {
            Some(name) => (self.allows_name)(name),
            None => (self.allows_name)(&index.name),
        };
        let by_stream = || index.data_stream.as_deref().is_some_and(self.allows_name);
        // Their names are those of tenants.
        let shown_name = index.data_stream.as_deref().unwrap_or(&index.name);
        let is_of_another = self
            .tenant
            .is_some_and(|tenant| is_alerts_of_another(shown_name, tenant));
        within_reach && !is_of_another && (own_name() || by_stream())
    }

    fn sees_alias(&self, name: &str, alias: &AliasMetadata, index: &IndexMetadata) -> bool {
        let is_own = |routing: &Option<String>| match (routing, self.tenant) {
            (Some(routing), Some(tenant)) => routing == tenant.as_str(),
            _ => true,
        };
        // The name of such an alias would reveal other tenants.
        let is_of_others = || match (self.tenant, index.settings.tenant_field.as_deref(), &alias.filter) {
            (Some(tenant), Some(field), Some(filter)) => wants_others(filter, field, tenant.as_str()),
            _ => false,
        };
        is_own(&alias.index_routing) && is_own(&alias.search_routing) && (self.allows_name)(name) && !is_of_others()
    }

    /// Marks a filter as hidden from tenants, because it may name other tenants; it still applies.
    fn alias(&self, alias: &AliasMetadata) -> AliasMetadata {
        AliasMetadata {
            is_filter_untold: self.tenant.is_some() && alias.filter.is_some(),
            ..alias.clone()
        }
    }

    /// Returns the same index if nothing needs to be removed: most views share most indices.
    fn index(&self, index: &Arc<IndexMetadata>) -> Arc<IndexMetadata> {
        let aliases: BTreeMap<String, AliasMetadata> = index
            .aliases
            .iter()
            .filter(|(name, alias)| self.sees_alias(name, alias, index))
            .map(|(name, alias)| (name.clone(), self.alias(alias)))
            .collect();
        let tenant_field = index.settings.tenant_field.as_deref().filter(|_| self.tenant.is_some());
        let mapping = tenant_field.map(|field| index.mapping.narrowed(&|path| path == TIMESTAMP || path == field));
        if aliases == index.aliases && mapping.is_none() {
            return Arc::clone(index);
        }
        Arc::new(IndexMetadata {
            aliases,
            mapping: mapping.map_or_else(|| Arc::clone(&index.mapping), Arc::new),
            made_by: index.made_by.clone().filter(|_| self.tenant.is_none()),
            ..IndexMetadata::clone(index)
        })
    }

    fn data_stream(&self, stream: &Arc<DataStream>, indices: &Indices) -> Option<Arc<DataStream>> {
        let backing: Vec<String> = stream
            .indices
            .iter()
            .filter(|name| indices.contains_key(name.as_str()))
            .cloned()
            .collect();
        if backing.is_empty() || !(self.allows_name)(&stream.name) {
            return None;
        }
        Some(Arc::new(DataStream {
            name: stream.name.clone(),
            indices: backing,
            generation: stream.generation,
            template: stream.template.clone(),
            meta: stream.meta.clone().filter(|_| self.tenant.is_none()),
            hidden: stream.hidden,
            lifecycle: stream.lifecycle.clone(),
            made_by: stream.made_by.clone().filter(|_| self.tenant.is_none()),
        }))
    }
}

/// Whether a filter explicitly selects only other tenants, so that this tenant has no matches.
fn wants_others(filter: &Value, field: &str, tenant: &str) -> bool {
    let Some((kind, part)) = filter.as_object().and_then(|filter| filter.iter().next()) else {
        return false;
    };
    let value = || match &part[field] {
        Value::Object(value) => value.get("value").or_else(|| value.get("query")),
        value => Some(value),
    };
    let parts = |name: &str| match &part[name] {
        Value::Array(parts) => parts.iter().any(|part| wants_others(part, field, tenant)),
        part => wants_others(part, field, tenant),
    };
    match kind.as_str() {
        "term" | "match" | "match_phrase" => value().and_then(Value::as_str).is_some_and(|value| value != tenant),
        "terms" => part[field]
            .as_array()
            .is_some_and(|values| values.iter().all(|value| value != tenant)),
        "bool" => parts("filter") || parts("must"),
        "constant_score" => parts("filter"),
        _ => false,
    }
}

impl IndexMetadata {
    /// Returns the name that a tenant gave its private index; `None`: the index is not a private index of the tenant.
    pub fn name_of_owner(&self, tenant: &TenantId) -> Option<&str> {
        let is_own = self.settings.tenant_owner.as_deref() == Some(tenant.as_str());
        known_as(tenant, &self.name).filter(|_| is_own)
    }
}

impl Metadata {
    /// Returns whether the tenant can access a shared entity of this name.
    pub(super) fn is_shared_with(&self, tenant: &TenantId, name: &str) -> bool {
        let viewer = Viewer {
            tenant: Some(tenant),
            allows_name: &|_| true,
        };
        // A private index hides everything else with its name from the tenant.
        let is_own = |name: &str| {
            let own = private_index_name(tenant, name).ok();
            own.is_some_and(|own| self.indices.contains_key(&own))
        };
        let is_hidden = |index: &IndexMetadata| {
            let stays = index.name_of_owner(tenant).is_some();
            !stays && is_own(index.data_stream.as_deref().unwrap_or(&index.name))
        };
        let is_there = |index: &IndexMetadata| viewer.sees(index) && !is_hidden(index);
        let sees = |name: &str| self.indices.get(name).is_some_and(|index| is_there(index));
        let stream = self.data_streams.get(name);
        let aliased =
            |index: &&Arc<IndexMetadata>| is_there(index) && viewer.sees_alias(name, &index.aliases[name], index);
        sees(name)
            || stream.is_some_and(|stream| stream.indices.iter().any(|backing| sees(backing)))
            || self.indices.with_alias(name).any(|index| aliased(&index))
    }
}

/// Adds the tenant's names for its private indices as aliases. While a private index exists, everything else with its
/// name is absent for the tenant: its events must not vanish because another user creates something.
fn name_private(indices: &mut Indices, data_streams: &mut BTreeMap<String, Arc<DataStream>>, tenant: &TenantId) {
    for index in indices.clone().values() {
        let Some(name) = index.name_of_owner(tenant) else {
            continue;
        };
        // `TENANT~TENANT~x` beside `TENANT~x`: both are private indices of the tenant. A backing index is not removed
        // from its data stream.
        let stays =
            |shared: &Arc<IndexMetadata>| shared.name_of_owner(tenant).is_some() || shared.data_stream.is_some();
        if indices.get(name).is_some_and(stays) {
            continue;
        }
        indices.remove(name);
        if let Some(stream) = data_streams.remove(name) {
            for backing in &stream.indices {
                indices.remove(backing);
            }
        }
        let with_alias: Vec<String> = indices.with_alias(name).map(|index| index.name.clone()).collect();
        for other in with_alias {
            indices.change(&other, |index| {
                index.aliases.remove(name);
            });
        }
        indices.change(&index.name, |index| {
            index.aliases.insert(name.to_owned(), AliasMetadata::default());
        });
    }
}
