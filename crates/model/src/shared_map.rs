//! Persistent sorted map: its versions share their entries.
//!
//! Metadata is immutable: a command creates the next version, and readers of the previous version continue to use it.
//! With many thousands of indices, a copy of a plain map would make each command pay for all of them. Here a clone
//! shares all entries, a change copies one chunk, and a comparison of two versions skips shared chunks.

use std::ops::Index;
use std::sync::Arc;

/// Maximum entries of one chunk. A change copies one chunk; a clone of the map increments one reference count for each
/// chunk. With 12,500 entries either takes some microseconds.
const CHUNK_MAX: usize = 128;

type Chunk<V> = Arc<Vec<(String, V)>>;

/// Map from names to values, sorted by name. A clone shares all entries.
#[derive(Debug, Clone)]
pub struct SharedMap<V> {
    /// No chunk is empty; each is sorted; all entries of one come before all of the next.
    chunks: Vec<Chunk<V>>,
    len: usize,
}

/// Difference of one name between two versions of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference<'a, V> {
    /// Only the second version has the name.
    Added(&'a str, &'a V),
    /// Both versions have the name, with different values: before and after.
    Changed(&'a str, &'a V, &'a V),
    /// Only the first version has the name.
    Removed(&'a str, &'a V),
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<V> SharedMap<V> {
    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map has no names.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        let (chunk, place) = self.find(name);
        let place = place.ok()?;
        Some(&self.chunks[chunk][place].1)
    }

    /// Returns whether the map has a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Iterates over names and values, in the order of names.
    pub fn iter(&self) -> Iter<'_, V> {
        Iter {
            chunks: self.chunks.iter(),
            front: [].iter(),
            back: [].iter(),
        }
    }

    /// Iterates over names, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &String> + Clone {
        self.iter().map(|(name, _)| name)
    }

    /// Iterates over values, in the order of names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the chunk where a name is or belongs, and its position there. The chunk index is out of range only if
    /// the map has no chunks.
    fn find(&self, name: &str) -> (usize, Result<usize, usize>) {
        let after = self.chunks.partition_point(|chunk| chunk[0].0.as_str() <= name);
        let chunk = after.saturating_sub(1);
        match self.chunks.get(chunk) {
            Some(entries) => (chunk, entries.binary_search_by(|(other, _)| other.as_str().cmp(name))),
            None => (chunk, Err(0)),
        }
    }

    /// Returns the differences between this version and a later one, in the order of names. Shared chunks are skipped;
    /// for all other entries `same` compares the values.
    pub fn differences<'a>(&'a self, later: &'a Self, same: impl Fn(&V, &V) -> bool) -> Vec<Difference<'a, V>> {
        let mut differences = Vec::new();
        let (mut old, mut new) = (Cursor::new(self), Cursor::new(later));
        loop {
            if let (Some(left), Some(right)) = (old.whole_chunk(), new.whole_chunk())
                && Arc::ptr_eq(left, right)
            {
                old.skip_chunk();
                new.skip_chunk();
                continue;
            }
            let order = match (old.entry(), new.entry()) {
                (None, None) => return differences,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((left, _)), Some((right, _))) => left.cmp(right),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            match (before, after) {
                (Some((name, before)), Some((_, after))) if !same(before, after) => {
                    differences.push(Difference::Changed(name, before, after));
                }
                (Some((name, before)), None) => differences.push(Difference::Removed(name, before)),
                (None, Some((name, after))) => differences.push(Difference::Added(name, after)),
                _ => {}
            }
        }
    }
}

impl<V: Clone> SharedMap<V> {
    /// Sets the value of a name; returns the previous value.
    pub fn insert(&mut self, name: String, value: V) -> Option<V> {
        let (chunk, place) = self.find(&name);
        if self.chunks.is_empty() {
            self.chunks.push(Arc::new(vec![(name, value)]));
            self.len = 1;
            return None;
        }
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        match place {
            Ok(place) => Some(std::mem::replace(&mut entries[place].1, value)),
            Err(place) => {
                entries.insert(place, (name, value));
                self.len += 1;
                if entries.len() > CHUNK_MAX {
                    let rest = entries.split_off(entries.len() / 2);
                    self.chunks.insert(chunk + 1, Arc::new(rest));
                }
                None
            }
        }
    }

    /// Removes a name; returns its value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let (chunk, place) = self.find(name);
        let place = place.ok()?;
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        let (_, value) = entries.remove(place);
        self.len -= 1;
        self.join(chunk);
        Some(value)
    }

    /// Returns the value of a name for modification.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        let (chunk, place) = self.find(name);
        let place = place.ok()?;
        Some(&mut Arc::make_mut(&mut self.chunks[chunk])[place].1)
    }

    /// Keeps chunks from becoming many and small: merges a small chunk with the next.
    fn join(&mut self, chunk: usize) {
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
            return;
        }
        let Some(next) = self.chunks.get(chunk + 1) else { return };
        if self.chunks[chunk].len() + next.len() <= CHUNK_MAX / 2 {
            let next = self.chunks.remove(chunk + 1);
            Arc::make_mut(&mut self.chunks[chunk]).extend(next.iter().cloned());
        }
    }
}

impl<V: Clone> FromIterator<(String, V)> for SharedMap<V> {
    fn from_iter<T: IntoIterator<Item = (String, V)>>(entries: T) -> Self {
        let mut map = Self::default();
        for (name, value) in entries {
            map.insert(name, value);
        }
        map
    }
}

impl<V: PartialEq> PartialEq for SharedMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.differences(other, V::eq).is_empty()
    }
}

impl<V> Index<&str> for SharedMap<V> {
    type Output = V;

    fn index(&self, name: &str) -> &V {
        self.get(name).expect("the map has the name")
    }
}

impl<'a, V> IntoIterator for &'a SharedMap<V> {
    type Item = (&'a String, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
    }
}

/// Iterator over a [`SharedMap`] in the order of names.
#[derive(Debug)]
pub struct Iter<'a, V> {
    chunks: std::slice::Iter<'a, Chunk<V>>,
    front: std::slice::Iter<'a, (String, V)>,
    back: std::slice::Iter<'a, (String, V)>,
}

impl<V> Clone for Iter<'_, V> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            front: self.front.clone(),
            back: self.back.clone(),
        }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a String, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((name, value)) = self.front.next() {
                return Some((name, value));
            }
            match self.chunks.next() {
                Some(chunk) => self.front = chunk.iter(),
                None => return self.back.next().map(|(name, value)| (name, value)),
            }
        }
    }
}

impl<V> DoubleEndedIterator for Iter<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((name, value)) = self.back.next_back() {
                return Some((name, value));
            }
            match self.chunks.next_back() {
                Some(chunk) => self.back = chunk.iter(),
                None => return self.front.next_back().map(|(name, value)| (name, value)),
            }
        }
    }
}

/// Position in a map, from the first name to past the last.
struct Cursor<'a, V> {
    chunks: &'a [Chunk<V>],
    place: usize,
}

impl<'a, V> Cursor<'a, V> {
    fn new(map: &'a SharedMap<V>) -> Self {
        Self {
            chunks: &map.chunks,
            place: 0,
        }
    }

    /// Returns the current chunk if nothing of it was consumed yet.
    fn whole_chunk(&self) -> Option<&'a Chunk<V>> {
        self.chunks.first().filter(|_| self.place == 0)
    }

    fn skip_chunk(&mut self) {
        self.chunks = &self.chunks[1..];
        self.place = 0;
    }

    fn entry(&self) -> Option<&'a (String, V)> {
        Some(&self.chunks.first()?[self.place])
    }

    fn next(&mut self) -> Option<(&'a str, &'a V)> {
        let (name, value) = self.entry()?;
        self.place += 1;
        if self.place == self.chunks[0].len() {
            self.skip_chunk();
        }
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn same_as(map: &SharedMap<u32>, model: &BTreeMap<String, u32>) {
        assert_eq!(map.len(), model.len());
        assert!(map.iter().eq(model.iter()));
        assert!(map.iter().rev().eq(model.iter().rev()));
        assert!(map.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
    }

    fn difference(old: &BTreeMap<String, u32>, new: &BTreeMap<String, u32>) -> Vec<String> {
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort();
        names.dedup();
        let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
        changed.cloned().collect()
    }

    fn names_of(differences: &[Difference<'_, u32>]) -> Vec<String> {
        let name = |difference: &Difference<'_, u32>| match difference {
            Difference::Added(name, _) | Difference::Changed(name, ..) | Difference::Removed(name, _) => {
                (*name).to_owned()
            }
        };
        differences.iter().map(name).collect()
    }

    proptest! {
        /// Tests a sequence of versions, each a few changes away from the previous one.
        #[test]
        fn is_a_map_whose_versions_stay_distinct(
            steps in prop::collection::vec((0_u32..600, prop::option::weighted(0.7, 0_u32..3)), 0..1500),
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut before = (map.clone(), model.clone());
            for (number, (name, value)) in steps.into_iter().enumerate() {
                let name = format!("index-{name}");
                match value {
                    Some(value) => prop_assert_eq!(map.insert(name.clone(), value), model.insert(name.clone(), value)),
                    None => prop_assert_eq!(map.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!(map.get(&name), model.get(&name));
                if number % 100 == 0 {
                    same_as(&before.0, &before.1);
                    let found = names_of(&before.0.differences(&map, u32::eq));
                    prop_assert_eq!(found, difference(&before.1, &model));
                    prop_assert_eq!(before.0 == map, before.1 == model);
                    before = (map.clone(), model.clone());
                }
            }
            same_as(&map, &model);
        }
    }

    #[test]
    fn iterates_from_both_ends() {
        let map: SharedMap<usize> = (0..1000).map(|n| (format!("{n:04}"), n)).collect();
        let mut values = map.values();
        assert_eq!((values.next(), values.next_back()), (Some(&0), Some(&999)));
        assert!(values.eq((1..999).collect::<Vec<_>>().iter()));
    }

    #[test]
    fn versions_share_what_did_not_change() {
        let old: SharedMap<Arc<usize>> = (0..10_000).map(|n| (format!("{n:05}"), Arc::new(n))).collect();
        let mut new = old.clone();
        new.insert("05000x".to_owned(), Arc::new(0));
        let shared = new
            .chunks
            .iter()
            .filter(|chunk| old.chunks.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert!(shared.count() + 2 >= old.chunks.len());
        let compared = std::cell::Cell::new(0);
        let differences = old.differences(&new, |left, right| {
            compared.set(compared.get() + 1);
            Arc::ptr_eq(left, right)
        });
        assert_eq!(differences, [Difference::Added("05000x", &Arc::new(0))]);
        assert!(compared.get() <= CHUNK_MAX, "{} values were compared", compared.get());
    }
}
