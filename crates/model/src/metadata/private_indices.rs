//! Private indices: indices of one tenant, which it creates by writing to them or by name.

use serde_json::{Value, json};

use super::change::Change;
use super::create::NewIndex;
use super::parse::parse_mapping;
use super::tenant_indices::add_tenant_field;
use super::{Metadata, TemplateContent};
use crate::names::{known_as, private_index_name};
use crate::settings::{IndexSettings, SettingsMap, flatten};
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

/// Maximum number of private indices of one tenant. Each costs files, memory and a part of the node's shard limit,
/// which all tenants share.
pub const PRIVATE_INDICES_MAX: usize = 32;
/// Maximum bytes of JSON of the mapping of a private index, and of its settings: every change of the catalog writes
/// them, and every reader loads them.
const OWN_BYTES_MAX: usize = 256 * 1024;
/// Default tenant field.
const FIELD: &str = "tenant";
/// Settings that a tenant may set on a private index. The limit of fields is not among them: all tenants share the
/// memory for mappings.
const OWN_SETTINGS: &[&str] = &[
    "index.number_of_replicas",
    "index.mapping.ignore_malformed",
    "index.mapping.coerce",
    "index.query.default_field",
    "index.codec",
    "index.hidden",
];

impl Change<'_> {
    /// Creates the index for a tenant's write to a name that does not exist in its view. If a template creates indices
    /// that hold events by tenant, the tenant shares that index with other tenants. Any other name becomes a private
    /// index. No other tenant can use the node's name of that index, so trying names reveals nothing about other
    /// tenants.
    pub(super) fn auto_create_for(&mut self, name: &str, tenant: &TenantId) -> Result<()> {
        let private = private_index_name(tenant, name)?;
        if self.next.closed_tenants.contains(tenant.as_str()) {
            return Err(Error::index_not_found(name));
        }
        // The shared index may have been created since the tenant's view was read. The tenant may have written to it
        // already, and a private index would hide those events.
        if self.next.indices.contains_key(&private) || self.next.is_shared_with(tenant, name) {
            return Ok(());
        }
        // Errors from here on concern operators and may contain operators' names.
        let refused = |error: Error| match error.kind() {
            ErrorKind::QuotaExceeded => error,
            _ => Error::index_not_found(name),
        };
        let content = self.next.content_for(name).map_err(refused)?;
        if content.as_ref().is_some_and(|content| is_for(content, tenant)) {
            if !self.next.has_name(name) {
                self.check_room_to_share(tenant, content.as_ref()).map_err(refused)?;
            }
            return self.auto_create(name, Some(tenant)).map_err(refused);
        }
        self.check_auto_creation(name).map_err(refused)?;
        self.check_room(tenant)?;
        self.check_spared(content.as_ref()).map_err(refused)?;
        let new = NewIndex {
            name: private,
            settings: owned_by(tenant),
            ..NewIndex::default()
        };
        self.create_index(new, content.unwrap_or_default()).map_err(refused)
    }

    /// Creates a private index as a write of the tenant would, but with a mapping and with settings for the tenant's
    /// events.
    pub(super) fn create_own_index(
        &mut self,
        name: &str,
        tenant: &TenantId,
        settings: &Value,
        mappings: Option<&Value>,
    ) -> Result<()> {
        let resolved = self.date_math(name)?;
        let private = private_index_name(tenant, &resolved)?;
        let called = known_as(tenant, &private).unwrap_or(&resolved).to_owned();
        if self.next.closed_tenants.contains(tenant.as_str()) {
            return Err(Error::index_not_found(&called));
        }
        if let Some(existing) = self.next.indices.get(&private) {
            let reason = format!("index [{called}/{}] already exists", existing.uuid);
            return Err(Error::new(ErrorKind::ResourceAlreadyExists, reason).with_index(&called));
        }
        let mut settings = flatten(settings, true)?;
        check_own_settings(&settings)?;
        check_own_bytes("settings", &Value::Object(settings.clone().into_iter().collect()))?;
        settings.extend(owned_by(tenant));
        // The tenant's settings are checked alone first: errors from a template may contain operators' names.
        let own = IndexSettings::from_flat(settings.clone())?;
        let mapping = mappings.map(parse_mapping).transpose()?;
        if let Some(mapping) = &mapping {
            mapping.check_limits(own.total_fields_limit, own.depth_limit)?;
            check_own_bytes("mapping", &mapping.print())?;
            add_tenant_field(&mut mapping.clone(), FIELD)?;
        }
        let content = self.next.content_for(&called);
        let has_template = !matches!(content, Ok(None));
        let refused = |error: Error| match error.kind() {
            ErrorKind::QuotaExceeded => error,
            _ if has_template => Error::index_not_found(&called),
            _ => error,
        };
        let content = content.map_err(refused)?;
        if content.as_ref().is_some_and(|content| is_for(content, tenant)) {
            return Err(Error::index_not_found(&called));
        }
        if self.check_auto_creation(&called).is_err() || self.next.is_shared_with(tenant, &called) {
            return Err(Error::index_not_found(&called));
        }
        self.check_room(tenant)?;
        self.check_spared(content.as_ref()).map_err(refused)?;
        let new = NewIndex {
            name: private,
            settings,
            mapping,
            ..NewIndex::default()
        };
        self.create_index(new, content.unwrap_or_default()).map_err(refused)?;
        self.outcome.created_index = Some(called);
        Ok(())
    }

    fn check_room(&self, tenant: &TenantId) -> Result<()> {
        let indices = self.next.indices.values();
        let count = indices
            .filter(|index| index.settings.tenant_owner.as_deref() == Some(tenant.as_str()))
            .count();
        if count >= PRIVATE_INDICES_MAX {
            return Err(Error::new(
                ErrorKind::QuotaExceeded,
                format!("this tenant already has [{count}] private indices, the limit is [{PRIVATE_INDICES_MAX}]"),
            ));
        }
        Ok(())
    }
}

fn owned_by(tenant: &TenantId) -> SettingsMap {
    let mut settings = SettingsMap::new();
    settings.insert("index.tenant.field".to_owned(), json!(FIELD));
    settings.insert("index.tenant.owner".to_owned(), json!(tenant.as_str()));
    settings
}

/// Refuses JSON that is too large to be held in shared memory for one tenant.
pub(super) fn check_own_bytes(what: &str, json: &Value) -> Result<()> {
    let bytes = json.to_string().len();
    if bytes > OWN_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the {what} of a tenant's private index has [{bytes}] bytes as JSON, the limit is [{OWN_BYTES_MAX}]"
        )));
    }
    Ok(())
}

/// Refuses settings that concern more than the tenant's events. All others concern the node: its devices, its files,
/// its memory, its tenants.
fn check_own_settings(settings: &SettingsMap) -> Result<()> {
    let is_own = |name: &str| OWN_SETTINGS.contains(&name);
    let is_default = |name: &str, value: &Value| {
        matches!(name, "index.number_of_shards") && matches!(value.to_string().trim_matches('"'), "1")
    };
    let mut all = settings.iter();
    match all.find(|(name, value)| !is_own(name) && !is_default(name, value)) {
        Some((name, _)) => Err(Error::illegal_argument(format!(
            "[{name}] is for operators; a tenant's private index accepts [{}]",
            OWN_SETTINGS.join(",")
        ))),
        None => Ok(()),
    }
}

impl Metadata {
    /// Returns the content that a template contributes to a new index of this name, without aliases: those are shared.
    fn content_for(&self, name: &str) -> Result<Option<TemplateContent>> {
        let Some((_, template)) = self.find_index_template(name) else {
            return Ok(None);
        };
        let content = self.compose(template)?;
        // A template for data streams that are not for tenants does not apply to an index.
        let speaks = template.data_stream.is_none() || content.settings.contains_key("index.tenant.field");
        Ok(speaks.then(|| TemplateContent {
            aliases: Default::default(),
            ..content
        }))
    }
}

/// Whether a template creates indices that the tenant can access.
fn is_for(content: &TemplateContent, tenant: &TenantId) -> bool {
    let text = |name: &str| content.settings.get(name).and_then(|value| value.as_str());
    text("index.tenant.field").is_some_and(|field| !field.is_empty())
        && text("index.tenant.owner").is_none_or(|owner| owner.is_empty() || owner == tenant.as_str())
}
