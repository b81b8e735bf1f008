//! `POST /_aliases`: adding and removing aliases.

use std::collections::{BTreeMap, BTreeSet};

use super::AliasAction;
use super::change::Change;
use crate::names::matches_pattern;
use crate::{Error, ErrorKind, Result};

impl Change<'_> {
    /// Applies alias actions. One action of a user becomes one action per index here, so an alias that must exist needs
    /// to exist on at least one of the indices that the request names for it.
    pub(super) fn update_aliases(&mut self, actions: &[AliasAction]) -> Result<()> {
        if actions.is_empty() {
            return Err(Error::new(
                ErrorKind::RequestValidation,
                "Validation Failed: 1: Must specify at least one alias action;",
            ));
        }
        let mut touched = BTreeSet::new();
        let mut required: BTreeMap<&str, bool> = BTreeMap::new();
        // Deletions come first, because an alias may take the name of an index that the same request deletes.
        let deleted: Vec<String> = actions
            .iter()
            .filter_map(|action| match action {
                AliasAction::RemoveIndex { index } => Some(index.clone()),
                _ => None,
            })
            .collect();
        self.delete_indices(&deleted)?;
        for action in actions {
            match action {
                AliasAction::Add { index, alias, metadata } => {
                    let alias = self.date_math(alias)?;
                    self.refuse_backing_index(index)?;
                    self.check_alias_name(&alias, index)?;
                    let target = self.index(index)?;
                    if target.aliases.get(&alias) != Some(metadata) {
                        let (alias, metadata) = (alias.clone(), metadata.clone());
                        self.change_index(index, |index| {
                            index.aliases.insert(alias, metadata);
                        })?;
                        self.adopt(index);
                    }
                    touched.insert(alias);
                }
                AliasAction::Remove {
                    index,
                    alias,
                    must_exist,
                } => {
                    let pattern = if alias == "_all" { "*" } else { alias };
                    let matching: Vec<String> = self
                        .index(index)?
                        .aliases
                        .keys()
                        .filter(|name| matches_pattern(pattern, name))
                        .cloned()
                        .collect();
                    if *must_exist {
                        *required.entry(alias).or_default() |= !matching.is_empty();
                    }
                    for name in matching {
                        self.change_index(index, |index| {
                            index.aliases.remove(&name);
                        })?;
                    }
                }
                AliasAction::RemoveIndex { .. } => {}
            }
        }
        let missing: Vec<&str> = required
            .into_iter()
            .filter(|(_, found)| !found)
            .map(|(alias, _)| alias)
            .collect();
        if !missing.is_empty() {
            return Err(Error::new(
                ErrorKind::AliasNotFound,
                format!("aliases [{}] missing", missing.join(",")),
            ));
        }
        for alias in touched {
            self.check_write_index(&alias)?;
        }
        Ok(())
    }

    /// Refuses an alias of a backing index: it would stay on the old index after the data stream rolls over.
    fn refuse_backing_index(&self, name: &str) -> Result<()> {
        match self.next.indices.get(name).and_then(|index| index.data_stream.as_ref()) {
            Some(stream) => Err(Error::illegal_argument(format!(
                "The provided expression [{name}] matches a backing index belonging to data stream [{stream}]. Data \
                 streams and their backing indices don't support aliases in firn."
            ))),
            None => Ok(()),
        }
    }
}
