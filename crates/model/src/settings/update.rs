//! Updates of index settings.

use serde_json::Value;

use super::definitions::{Changes, DEFINITIONS, find, unknown};
use super::{IndexSettings, SettingsMap};
use crate::names::matches_pattern;
use crate::{Error, Result};

impl IndexSettings {
    /// Returns these settings with `changes` (flat, with `index.` names) applied; `null` resets a setting, or all that
    /// match a pattern (`index.routing.*`). With `preserve_existing`, settings that are already set do not change.
    ///
    /// `index` and `uuid` are for messages. Changes of static settings of an open index, and of final settings of any
    /// index, are refused as in Elasticsearch, unless the value stays the same.
    pub fn update(
        &self,
        changes: &SettingsMap,
        preserve_existing: bool,
        closed: bool,
        index: &str,
        uuid: &str,
    ) -> Result<Self> {
        let mut typed = self.typed.clone();
        let mut refused = Vec::new();
        for (name, value) in changes {
            if value.is_null() && name.contains('*') {
                typed.retain(|existing, _| !matches_pattern(name, existing) || !is_dynamic(existing));
                continue;
            }
            let definition = find(DEFINITIONS, name).ok_or_else(|| unknown(name))?;
            if preserve_existing && typed.contains_key(name) {
                continue;
            }
            if !value.is_null() {
                super::definitions::check(name, value)?;
            }
            let same = same_value(typed.get(name), value);
            match definition.changes {
                Changes::Dynamic => {}
                Changes::Static | Changes::Final if !closed => {
                    refused.push(name.as_str());
                    continue;
                }
                Changes::Final if !same => {
                    return Err(Error::illegal_argument(format!(
                        "final {index} setting [{name}], not updateable"
                    )));
                }
                Changes::Static | Changes::Final => {}
            }
            if value.is_null() {
                typed.remove(name);
            } else {
                typed.insert(name.clone(), value.clone());
            }
        }
        if !refused.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Can't update non dynamic settings [[{}]] for open indices [[{index}/{uuid}]]",
                refused.join(", ")
            )));
        }
        Self::from_checked(typed)
    }
}

fn is_dynamic(name: &str) -> bool {
    find(DEFINITIONS, name).is_some_and(|definition| definition.changes == Changes::Dynamic)
}

/// Whether two values are the same setting: `5` equals `"5"`.
fn same_value(old: Option<&Value>, new: &Value) -> bool {
    match old {
        Some(old) => super::kinds::plain(old) == super::kinds::plain(new),
        None => new.is_null(),
    }
}
