//! Cluster settings: persistent, transient and configured ones.

use serde_json::Value;

use super::Metadata;
use super::change::Change;
use crate::names::matches_pattern;
use crate::settings::definitions::{CLUSTER_DEFINITIONS, Definition, find};
use crate::settings::{SettingsMap, flatten};
use crate::{Error, Result};

/// Lifetime of a cluster setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Until it is reset.
    Persistent,
    /// Until it is reset or the process ends.
    Transient,
}

impl Lifetime {
    fn name(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Transient => "transient",
        }
    }

    /// Returns the definition of a setting.
    fn definition(self, name: &str) -> Result<&'static Definition> {
        find(CLUSTER_DEFINITIONS, name)
            .ok_or_else(|| Error::illegal_argument(format!("{} setting [{name}], not recognized", self.name())))
    }
}

impl Metadata {
    /// Returns a cluster setting: transient settings override persistent ones, and those override the node's
    /// configuration.
    pub fn cluster_setting(&self, name: &str) -> Option<&Value> {
        [
            &self.transient_settings,
            &self.cluster_settings,
            &self.configured_settings,
        ]
        .into_iter()
        .find_map(|settings| settings.get(name))
    }

    /// Returns all cluster settings that are set, with the precedence of [`Self::cluster_setting`].
    pub fn effective_cluster_settings(&self) -> SettingsMap {
        let mut all = self.configured_settings.clone();
        all.extend(self.cluster_settings.clone());
        all.extend(self.transient_settings.clone());
        all
    }
}

impl Change<'_> {
    /// Sets cluster settings. `null` resets a setting, or all that match a pattern.
    pub(super) fn put_cluster_settings(&mut self, settings: &Value, lifetime: Lifetime) -> Result<()> {
        let present = match lifetime {
            Lifetime::Persistent => &mut self.next.cluster_settings,
            Lifetime::Transient => &mut self.next.transient_settings,
        };
        let mut next = present.clone();
        for (name, value) in flatten(settings, false)? {
            if value.is_null() && name.contains('*') {
                next.retain(|existing, _| !matches_pattern(&name, existing));
                continue;
            }
            let definition = lifetime.definition(&name)?;
            if value.is_null() {
                next.remove(&name);
            } else {
                definition.kind.check(&name, &value)?;
                next.insert(name, value);
            }
        }
        if next != *present {
            *present = next;
            self.changed();
        }
        Ok(())
    }
}

/// Checks whether [`super::Command::PutTransientSettings`] would accept `transient` settings.
pub fn check_cluster_settings(transient: &Value) -> Result<()> {
    for (name, value) in flatten(transient, false)? {
        if value.is_null() && name.contains('*') {
            continue;
        }
        let definition = Lifetime::Transient.definition(&name)?;
        if !value.is_null() {
            definition.kind.check(&name, &value)?;
        }
    }
    Ok(())
}

/// Returns the defaults of the known cluster settings that are not in `set`, flat, as `GET
/// /_cluster/settings?include_defaults=true` prints them.
pub fn cluster_setting_defaults(set: &SettingsMap) -> SettingsMap {
    CLUSTER_DEFINITIONS
        .iter()
        .filter(|definition| !definition.default.is_empty() && !set.contains_key(definition.name))
        .map(|definition| (definition.name.to_owned(), definition.default.into()))
        .collect()
}
