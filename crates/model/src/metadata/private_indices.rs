//! Indices that a tenant's own writes make.

use serde_json::json;

use super::change::Change;
use super::create::NewIndex;
use super::{Metadata, TemplateContent};
use crate::names::private_index_name;
use crate::settings::SettingsMap;
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

/// Indices that one tenant may make by writing to them. Each costs files, memory and a place among the
/// node's shards, which all tenants share.
pub const PRIVATE_INDICES_MAX: usize = 32;
/// The field that names the tenant where nobody said otherwise.
const FIELD: &str = "tenant";

impl Change<'_> {
    /// A tenant writes to a name that it sees nothing of. Where a template makes indices that hold
    /// events by tenant, that is what it writes to, together with others. Any other name is its own:
    /// what the node calls the index nobody else can take, so trying names tells nothing of others.
    pub(super) fn auto_create_for(&mut self, name: &str, tenant: &TenantId) -> Result<()> {
        let private = private_index_name(tenant, name)?;
        if self.next.closed_tenants.contains(tenant.as_str()) {
            return Err(Error::index_not_found(name));
        }
        if self.next.indices.contains_key(&private) {
            return Ok(());
        }
        // What goes wrong from here on is the operators' business and may name what is theirs.
        let refused = |error: Error| match error.kind() {
            ErrorKind::QuotaExceeded => error,
            _ => Error::index_not_found(name),
        };
        let content = self.next.content_for(name).map_err(refused)?;
        if content.as_ref().is_some_and(|content| is_for(content, tenant)) {
            return self.auto_create(name).map_err(refused);
        }
        self.check_auto_creation(name).map_err(refused)?;
        self.check_room(tenant)?;
        let mut settings = SettingsMap::new();
        settings.insert("index.tenant.field".to_owned(), json!(FIELD));
        settings.insert("index.tenant.owner".to_owned(), json!(tenant.as_str()));
        let new = NewIndex {
            name: private,
            settings,
            ..NewIndex::default()
        };
        self.create_index(new, content.unwrap_or_default()).map_err(refused)
    }

    fn check_room(&self, tenant: &TenantId) -> Result<()> {
        let indices = self.next.indices.values();
        let count = indices
            .filter(|index| index.settings.tenant_owner.as_deref() == Some(tenant.as_str()))
            .count();
        if count >= PRIVATE_INDICES_MAX {
            return Err(Error::new(
                ErrorKind::QuotaExceeded,
                format!("this tenant has [{count}] indices of its own already, and may have [{PRIVATE_INDICES_MAX}]"),
            ));
        }
        Ok(())
    }
}

impl Metadata {
    /// What a template contributes to a new index of this name, without aliases: those are shared.
    fn content_for(&self, name: &str) -> Result<Option<TemplateContent>> {
        let Some((_, template)) = self.find_index_template(name) else {
            return Ok(None);
        };
        let content = self.compose(template)?;
        // A template for data streams that are not for tenants has nothing to say about an index.
        let speaks = template.data_stream.is_none() || content.settings.contains_key("index.tenant.field");
        Ok(speaks.then(|| TemplateContent {
            aliases: Default::default(),
            ..content
        }))
    }
}

/// Whether a template makes what a tenant may reach.
fn is_for(content: &TemplateContent, tenant: &TenantId) -> bool {
    let text = |name: &str| content.settings.get(name).and_then(|value| value.as_str());
    text("index.tenant.field").is_some_and(|field| !field.is_empty())
        && text("index.tenant.owner").is_none_or(|owner| owner.is_empty() || owner == tenant.as_str())
}
