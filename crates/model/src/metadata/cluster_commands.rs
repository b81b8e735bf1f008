//! Settings of the cluster.

use serde_json::Value;

use super::change::Change;
use crate::names::matches_pattern;
use crate::settings::definitions::{CLUSTER_DEFINITIONS, find};
use crate::settings::{SettingsMap, flatten};
use crate::{Error, Result};

impl Change<'_> {
    /// `null` resets, and may stand for a pattern.
    pub(super) fn put_cluster_settings(&mut self, settings: &Value) -> Result<()> {
        let mut next = self.next.cluster_settings.clone();
        for (name, value) in flatten(settings, false)? {
            if value.is_null() && name.contains('*') {
                next.retain(|existing, _| !matches_pattern(&name, existing));
                continue;
            }
            let definition = find(CLUSTER_DEFINITIONS, &name)
                .ok_or_else(|| Error::illegal_argument(format!("persistent setting [{name}], not recognized")))?;
            if value.is_null() {
                next.remove(&name);
            } else {
                definition.kind.check(&name, &value)?;
                next.insert(name, value);
            }
        }
        if next != self.next.cluster_settings {
            self.next.cluster_settings = next;
            self.changed();
        }
        Ok(())
    }
}

/// Defaults of the cluster settings that firn knows and that are not in `set`, flat, as
/// `GET /_cluster/settings?include_defaults=true` prints them.
pub fn cluster_setting_defaults(set: &SettingsMap) -> SettingsMap {
    CLUSTER_DEFINITIONS
        .iter()
        .filter(|definition| !definition.default.is_empty() && !set.contains_key(definition.name))
        .map(|definition| (definition.name.to_owned(), definition.default.into()))
        .collect()
}
