//! Raw names of a pack: their numbers, their aliases, and where they stand in nested objects.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use super::compile::{RulesFile, template_pieces};
use super::names::{NAMES_MAX, NameTable};
use super::pack::{NameNode, NameTree};
use super::pack_file::{LabelFile, PackFile};

/// Splits `src | sourceAddress`: names with the same rules.
pub(super) fn aliases(names: &str) -> impl Iterator<Item = &str> {
    names.split('|').map(str::trim)
}

/// Replaces `#` by the numbers of a pair of fields.
pub(super) fn label_names(labels: &[LabelFile]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for label in labels {
        for number in 1..=label.count.unwrap_or(1) {
            let number = number.to_string();
            for (value, name) in aliases(&label.value).zip(aliases(&label.label)) {
                pairs.push((value.replace('#', &number), name.replace('#', &number)));
            }
        }
    }
    pairs
}

/// Raw names with their numbers; the names of aliases come after all others.
pub(super) struct RawNames {
    pub(super) names: Vec<String>,
    pub(super) numbers: Vec<u16>,
}

pub(super) fn raw_names(
    file: &PackFile,
    common: &RulesFile<'_>,
    sections: &[RulesFile<'_>],
    labels: &[(String, String)],
) -> Result<RawNames, String> {
    let mut groups: IndexMap<String, Vec<String>> = IndexMap::new();
    let mut add = |name: &str| {
        let mut names = aliases(name);
        let first = names.next().unwrap_or_default().to_owned();
        groups.entry(first).or_default().extend(names.map(str::to_owned));
    };
    for rules in sections.iter().chain([common]) {
        rules.fields.keys().for_each(|names| add(names));
        for template in rules.templates.values() {
            for piece in template_pieces(template)? {
                if let Err(field) = piece {
                    add(field);
                }
            }
        }
        rules.extract.iter().for_each(|extract| add(&extract.from));
    }
    file.sections
        .iter()
        .flat_map(|section| section.when.keys())
        .for_each(|name| add(name));
    for (value, label) in labels {
        add(value);
        add(label);
    }
    // A name that is an alias in another group is no group of its own.
    let aliased: HashSet<String> = groups.values().flatten().cloned().collect();
    groups.retain(|name, aliases| !(aliased.contains(name) && aliases.is_empty()));
    let mut raw = RawNames {
        names: groups.keys().cloned().collect(),
        numbers: (0..groups.len() as u16).collect(),
    };
    let mut seen: HashSet<String> = raw.names.iter().cloned().collect();
    for (number, (name, aliases)) in groups.iter().enumerate() {
        for alias in std::iter::once(name).chain(aliases) {
            let inside = file.objects.iter().map(|object| format!("{object}.{alias}"));
            for alias in std::iter::once(alias.clone()).chain(inside) {
                if seen.insert(alias.clone()) {
                    raw.names.push(alias);
                    raw.numbers.push(number as u16);
                }
            }
        }
    }
    match raw.names.len() > NAMES_MAX {
        true => Err(format!("more than {NAMES_MAX} names")),
        false => Ok(raw),
    }
}

/// Puts each name at the node of each of its objects, under all the keys that may follow: `a.b.c` is found in
/// `{"a":{"b":{"c":1}}}` as well as in `{"a.b":{"c":1}}` and `{"a.b.c":1}`.
pub(super) fn name_tree(raw: &RawNames, objects: &[String]) -> NameTree {
    #[derive(Default)]
    struct Building {
        keys: IndexMap<String, (Option<u16>, Option<u16>)>,
    }
    let mut nodes = vec![Building::default()];
    let mut by_path: HashMap<String, u16> = HashMap::from([(String::new(), 0)]);
    for (name, number) in raw.names.iter().zip(&raw.numbers) {
        let cuts: Vec<usize> = name.match_indices('.').map(|(at, _)| at).collect();
        // Nodes of all objects around the field, the root first: the offset at which their keys begin.
        let mut starts = vec![(0usize, 0u16)];
        for cut in &cuts {
            let path = name[..*cut].to_owned();
            let node = *by_path.entry(path).or_insert_with(|| {
                nodes.push(Building::default());
                (nodes.len() - 1) as u16
            });
            for (start, outer) in &starts {
                let key = &name[*start..*cut];
                nodes[usize::from(*outer)].keys.entry(key.to_owned()).or_default().1 = Some(node);
            }
            starts.push((cut + 1, node));
        }
        for (start, outer) in &starts {
            let entry = nodes[usize::from(*outer)]
                .keys
                .entry(name[*start..].to_owned())
                .or_default();
            entry.0 = entry.0.or(Some(*number));
        }
    }
    let unnamed: HashSet<u16> = objects
        .iter()
        .filter_map(|object| by_path.get(object))
        .copied()
        .collect();
    NameTree {
        nodes: nodes
            .into_iter()
            .enumerate()
            .map(|(number, node)| NameNode {
                is_unnamed: unnamed.contains(&(number as u16)),
                keys: NameTable::new(&node.keys.keys().collect::<Vec<_>>()),
                entries: node.keys.values().copied().collect(),
            })
            .collect(),
    }
}
