//! Levels of the crates: a crate imports crates of lower levels only.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// For tests only: no crate may ship it.
const TESTKIT: &str = "firn-testkit";

/// A member of the workspace: its package name and the names of its dependencies.
struct Member {
    name: String,
    dependencies: BTreeSet<String>,
    dev_dependencies: BTreeSet<String>,
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let (levels, members) = (levels(sources), members(sources));
    let mut violations = Vec::new();
    for member in &members {
        let Some(level) = levels.get(&member.name) else {
            violations.push(format!("{} has no level in ARCHITECTURE.md", member.name));
            continue;
        };
        if member.dependencies.contains(TESTKIT) {
            violations.push(format!("{} ships {TESTKIT}, which is for tests", member.name));
        }
        for dependency in member.dependencies.iter().chain(&member.dev_dependencies) {
            let Some(below) = levels.get(dependency).filter(|_| dependency != TESTKIT) else {
                continue;
            };
            if below >= level {
                let name = &member.name;
                violations.push(format!("{name} (level {level}) imports {dependency} (level {below})"));
            }
        }
    }
    for name in levels.keys() {
        if !members.iter().any(|member| member.name == *name) {
            violations.push(format!("ARCHITECTURE.md lists {name}, which crates/ does not contain"));
        }
    }
    violations
}

/// The members in `crates/`. Reads the part of TOML that the manifests use: sections, and one dependency a line
/// (`name.workspace = true`, `name = …`) or a section (`[dependencies.name]`).
fn members(sources: &[Source]) -> Vec<Member> {
    let manifests = sources.iter().filter(|source| {
        let parts: Vec<&str> = source.name.split('/').collect();
        matches!(parts.as_slice(), ["crates", _, "Cargo.toml"])
    });
    manifests.map(|manifest| member(&manifest.text)).collect()
}

fn member(manifest: &str) -> Member {
    let mut member = Member {
        name: String::new(),
        dependencies: BTreeSet::new(),
        dev_dependencies: BTreeSet::new(),
    };
    let mut section = String::new();
    for line in manifest.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = header.trim_matches(['[', ']']).to_owned();
            for kind in ["dependencies", "build-dependencies"] {
                if let Some((_, name)) = section.split_once(&format!("{kind}.")) {
                    member.dependencies.insert(name.to_owned());
                }
            }
            continue;
        }
        let key = line.split(['=', '.']).next().unwrap_or("").trim().trim_matches('"');
        match section.as_str() {
            "package" if key == "name" => line.split('"').nth(1).unwrap_or("").clone_into(&mut member.name),
            "dev-dependencies" => drop(member.dev_dependencies.insert(key.to_owned())),
            // Dependencies of one platform count like all others.
            other if other.ends_with("dependencies") => drop(member.dependencies.insert(key.to_owned())),
            _ => {}
        }
    }
    member
}

/// The levels by package name, from the table in ARCHITECTURE.md.
fn levels(sources: &[Source]) -> BTreeMap<String, u32> {
    let mut levels = BTreeMap::new();
    let Some(architecture) = sources.iter().find(|source| source.name == "ARCHITECTURE.md") else {
        return levels;
    };
    for line in architecture.text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", level, names, ..] = cells.as_slice() else {
            continue;
        };
        let level = match *level {
            "dev" => 0,
            level => match level.parse() {
                Ok(level) => level,
                Err(_) => continue,
            },
        };
        for name in names.split(',').map(|name| name.trim().trim_matches('`')) {
            let package = if name == "firn" {
                name.to_owned()
            } else {
                format!("firn-{name}")
            };
            levels.insert(package, level);
        }
    }
    levels
}
