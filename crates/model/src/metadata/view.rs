//! What of all that exists a request may know of.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{AliasMetadata, DataStream, IndexMetadata, Indices, Metadata, TIMESTAMP};
use crate::names::{known_as, private_index_name};
use crate::settings::SettingsMap;
use crate::tenant::TenantId;

/// Whose view it is.
pub struct Viewer<'a> {
    /// Sees only indices that hold events by tenant, and of those none that belong to another.
    pub tenant: Option<&'a TenantId>,
    /// Whether a name may be known, as far as names tell.
    pub allows_name: &'a dyn Fn(&str) -> bool,
}

impl Metadata {
    /// What there is for `viewer`: everything else is not hidden in it, but absent, so that whoever
    /// resolves names against it finds a foreign name exactly as a missing one.
    ///
    /// An index is there if its own name or that of its data stream is allowed. Aliases with a filter
    /// are not there for tenants, nor those with the routing of somebody else: both may name what
    /// belongs to others. Neither are templates, cluster settings and what operators note about data
    /// streams. Of mappings there is only what every tenant has: which fields a tenant's events have is not
    /// known here.
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
            // It names the tenants that it places.
            placement: self.placement.clone().filter(|_| !is_tenant),
            repositories: hidden_if(is_tenant, &self.repositories),
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
        within_reach && (own_name() || by_stream())
    }

    fn sees_alias(&self, name: &str, alias: &AliasMetadata, index: &IndexMetadata) -> bool {
        let is_own = |routing: &Option<String>| match (routing, self.tenant) {
            (Some(routing), Some(tenant)) => routing == tenant.as_str(),
            _ => true,
        };
        // Its name alone would tell of them.
        let is_of_others = || match (self.tenant, index.settings.tenant_field.as_deref(), &alias.filter) {
            (Some(tenant), Some(field), Some(filter)) => wants_others(filter, field, tenant.as_str()),
            _ => false,
        };
        is_own(&alias.index_routing) && is_own(&alias.search_routing) && (self.allows_name)(name) && !is_of_others()
    }

    /// What the filter of an alias says may name other tenants; it narrows all the same.
    fn alias(&self, alias: &AliasMetadata) -> AliasMetadata {
        AliasMetadata {
            is_filter_untold: self.tenant.is_some() && alias.filter.is_some(),
            ..alias.clone()
        }
    }

    /// The same index if nothing of it has to go: most views share most of it.
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

/// Whether a filter leaves nothing of this tenant, as it asks for another one in so many words.
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
    /// The name that a tenant gave an index of its own; `None`: it is not one of those.
    pub fn name_of_owner(&self, tenant: &TenantId) -> Option<&str> {
        let is_own = self.settings.tenant_owner.as_deref() == Some(tenant.as_str());
        known_as(tenant, &self.name).filter(|_| is_own)
    }
}

impl Metadata {
    /// Whether a tenant reaches something of this name that it does not have alone.
    pub(super) fn is_shared_with(&self, tenant: &TenantId, name: &str) -> bool {
        let viewer = Viewer {
            tenant: Some(tenant),
            allows_name: &|_| true,
        };
        // What has the name of one of its own is not there for it.
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

/// Gives a tenant's own indices the names that it gave them, as aliases. As long as there is one of a name, whatever
/// else has that name is not there for the tenant: its events must not vanish because somebody else made something.
fn name_private(indices: &mut Indices, data_streams: &mut BTreeMap<String, Arc<DataStream>>, tenant: &TenantId) {
    for index in indices.clone().values() {
        let Some(name) = index.name_of_owner(tenant) else {
            continue;
        };
        // `TENANT~TENANT~x` beside `TENANT~x`: both are its own. What a data stream has is not taken out of its middle.
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
