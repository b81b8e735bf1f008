//! Indices of a node, with derived facts about all of them.

use std::ops::Index;
use std::sync::Arc;

use super::IndexMetadata;
use crate::settings::IndexSettings;
use crate::shared_map::{Difference, Iter, SharedMap};

/// Indices by concrete name. A clone shares the entries. No command iterates over all indices: the indices of an alias
/// and the number of open shards are maintained beside the map.
#[derive(Debug, Clone, Default)]
pub struct Indices {
    by_name: SharedMap<Arc<IndexMetadata>>,
    /// Names of the indices of each alias.
    with_alias: SharedMap<SharedMap<()>>,
    open_shards: OpenShards,
}

/// Number of open shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenShards {
    /// Shards with local files.
    pub normal: u64,
    /// Shards that read a snapshot through the cache.
    pub frozen: u64,
}

impl Indices {
    /// Returns the number of indices.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there are no indices.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the index of a concrete name.
    pub fn get(&self, name: &str) -> Option<&Arc<IndexMetadata>> {
        self.by_name.get(name)
    }

    /// Returns whether an index has this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Iterates over names and indices, in the order of names.
    pub fn iter(&self) -> Iter<'_, Arc<IndexMetadata>> {
        self.by_name.iter()
    }

    /// Iterates over names, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &String> + Clone {
        self.by_name.keys()
    }

    /// Iterates over indices, in the order of names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Arc<IndexMetadata>> + Clone {
        self.by_name.values()
    }

    /// Returns the indices of an alias, in the order of their names.
    pub fn with_alias(&self, alias: &str) -> impl Iterator<Item = &Arc<IndexMetadata>> {
        let names = self.with_alias.get(alias);
        names
            .into_iter()
            .flat_map(SharedMap::keys)
            .filter_map(|name| self.by_name.get(name))
    }

    /// Returns whether any index has this alias.
    pub fn has_alias(&self, alias: &str) -> bool {
        self.with_alias.contains_key(alias)
    }

    /// Returns the number of open shards.
    pub fn open_shards(&self) -> OpenShards {
        self.open_shards
    }

    /// Returns the differences between this version and a later one, in the order of names. An index counts as changed
    /// whenever a command wrote it, even if it is equal.
    pub fn differences<'a>(&'a self, later: &'a Self) -> Vec<Difference<'a, Arc<IndexMetadata>>> {
        self.by_name.differences(&later.by_name, Arc::ptr_eq)
    }

    /// Inserts an index, or replaces the one with its name.
    pub fn insert(&mut self, index: Arc<IndexMetadata>) {
        self.count(&index);
        let before = self.by_name.insert(index.name.clone(), index);
        if let Some(before) = before {
            self.discount(&before);
        }
    }

    /// Removes an index.
    pub fn remove(&mut self, name: &str) -> Option<Arc<IndexMetadata>> {
        let index = self.by_name.remove(name)?;
        self.discount(&index);
        Some(index)
    }

    /// Changes an index; returns `false` if no index has this name.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut IndexMetadata)) -> bool {
        let Some(mut index) = self.by_name.get(name).cloned() else {
            return false;
        };
        change(Arc::make_mut(&mut index));
        self.insert(index);
        true
    }

    fn count(&mut self, index: &IndexMetadata) {
        *self.open_shards.of(&index.settings) += shards(index);
        for alias in index.aliases.keys() {
            let known = self.by_name.get(&index.name);
            if known.is_some_and(|known| known.aliases.contains_key(alias)) {
                continue;
            }
            let mut names = self.with_alias.get(alias).cloned().unwrap_or_default();
            names.insert(index.name.clone(), ());
            self.with_alias.insert(alias.clone(), names);
        }
    }

    /// Updates the derived facts after an index was removed or replaced.
    fn discount(&mut self, index: &IndexMetadata) {
        *self.open_shards.of(&index.settings) -= shards(index);
        for alias in index.aliases.keys() {
            let now = self.by_name.get(&index.name);
            if now.is_some_and(|now| now.aliases.contains_key(alias)) {
                continue;
            }
            let mut names = self.with_alias.remove(alias).unwrap_or_default();
            names.remove(&index.name);
            if !names.is_empty() {
                self.with_alias.insert(alias.clone(), names);
            }
        }
    }
}

impl OpenShards {
    /// Returns the counter for the shards of an index.
    pub(super) fn of(&mut self, settings: &IndexSettings) -> &mut u64 {
        match settings.is_frozen() {
            true => &mut self.frozen,
            false => &mut self.normal,
        }
    }
}

fn shards(index: &IndexMetadata) -> u64 {
    match index.closed {
        true => 0,
        false => u64::from(index.settings.number_of_shards),
    }
}

impl PartialEq for Indices {
    fn eq(&self, other: &Self) -> bool {
        let differences = self.differences(other);
        differences
            .iter()
            .all(|difference| matches!(difference, Difference::Changed(_, before, after) if before == after))
    }
}

impl Index<&str> for Indices {
    type Output = Arc<IndexMetadata>;

    fn index(&self, name: &str) -> &Arc<IndexMetadata> {
        &self.by_name[name]
    }
}

impl FromIterator<Arc<IndexMetadata>> for Indices {
    fn from_iter<T: IntoIterator<Item = Arc<IndexMetadata>>>(indices: T) -> Self {
        let mut all = Self::default();
        for index in indices {
            all.insert(index);
        }
        all
    }
}

impl<'a> IntoIterator for &'a Indices {
    type Item = (&'a String, &'a Arc<IndexMetadata>);
    type IntoIter = Iter<'a, Arc<IndexMetadata>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::metadata::AliasMetadata;

    fn index(name: &str, aliases: &[&str], shards: u32) -> IndexMetadata {
        let alias = |name: &&str| ((*name).to_owned(), AliasMetadata::default());
        IndexMetadata {
            name: name.to_owned(),
            uuid: name.to_owned(),
            created_ms: 0,
            closed: false,
            settings: IndexSettings {
                number_of_shards: shards,
                ..IndexSettings::default()
            },
            mapping: Arc::default(),
            declared_fields: None,
            aliases: aliases.iter().map(alias).collect::<BTreeMap<_, _>>(),
            data_stream: None,
            placement: None,
            rolled_over_ms: None,
            execution: None,
            tiers: BTreeMap::new(),
            made_by: None,
        }
    }

    fn named(indices: &Indices, alias: &str) -> Vec<String> {
        indices.with_alias(alias).map(|index| index.name.clone()).collect()
    }

    #[test]
    fn knows_who_has_an_alias_through_every_change() {
        let mut indices = Indices::default();
        indices.insert(Arc::new(index("b", &["logs", "all"], 2)));
        indices.insert(Arc::new(index("a", &["logs"], 3)));
        assert_eq!(named(&indices, "logs"), ["a", "b"]);
        assert_eq!(named(&indices, "all"), ["b"]);
        assert_eq!(indices.open_shards().normal, 5);

        assert!(indices.change("b", |index| {
            index.aliases.remove("all");
            index.closed = true;
        }));
        assert!(!indices.has_alias("all") && indices.has_alias("logs"));
        assert_eq!(indices.open_shards().normal, 3);

        indices.insert(Arc::new(index("b", &["new"], 1)));
        assert_eq!(
            (named(&indices, "logs"), named(&indices, "new")),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        assert!(indices.remove("a").is_some() && indices.remove("a").is_none());
        assert!(!indices.has_alias("logs"));
        assert_eq!(indices.open_shards().normal, 1);
        assert!(!indices.change("a", |_| {}));
    }

    #[test]
    fn versions_are_equal_by_what_they_hold() {
        let one: Indices = [Arc::new(index("a", &[], 1)), Arc::new(index("b", &[], 1))]
            .into_iter()
            .collect();
        let mut other = one.clone();
        other.change("a", |_| {});
        assert!(one == other && one.differences(&other).len() == 1);
        other.change("a", |index| index.closed = true);
        assert!(one != other);
        other.remove("a");
        assert!(one != other);
    }
}
