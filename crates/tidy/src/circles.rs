//! Import circles between the modules of one crate.
//!
//! A module is a file. It imports the files that its paths (`crate::…`, `super::…`, `self::…`, in `use` and elsewhere) lead to:
//! the deepest module that a path names. Modules of tests are left out. A circle is a strongly connected component of these
//! imports; files in one circle cannot be understood, moved or compiled one without the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, code_only, is_word};

/// Files in the largest circle of a crate that has no entry in [`LARGER`].
const CIRCLE_MAX: usize = 12;

/// Crates with a larger circle: what it may have at most, and why. A smaller circle lowers the number here.
const LARGER: &[(&str, usize, &str)] = &[("query", 125, "queries and aggregations contain each other")];

/// Hops over re-exports, in case two modules re-export from each other.
const HOPS_MAX: usize = 16;

/// Path of a module in its crate (`["search", "sort"]`); the root is empty.
type ModulePath = Vec<String>;

/// What one crate consists of.
struct Crate {
    /// Code of each module, without comments and without its tests.
    code: BTreeMap<ModulePath, String>,
    /// Names that a module imports or re-exports, with the paths that they lead to.
    uses: BTreeMap<ModulePath, BTreeMap<String, Vec<String>>>,
}

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for (name, circle) in largest_by_crate(sources) {
        let exception = LARGER.iter().find(|(listed, _, _)| *listed == name);
        let max = exception.map_or(CIRCLE_MAX, |(_, max, _)| *max);
        let len = circle.len();
        if len > max {
            let files = circle.join(", ");
            violations.push(format!(
                "crates/{name}: {len} files in one circle, at most {max}: {files}"
            ));
        } else if exception.is_some() && len < max {
            violations.push(format!(
                "crates/{name}: the largest circle has {len} files now; lower its entry in circles.rs"
            ));
        }
    }
    violations
}

/// The files of the largest circle of every crate.
fn largest_by_crate(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut crates: BTreeMap<String, BTreeMap<ModulePath, String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let parts: Vec<&str> = source.name.split('/').collect();
        if let ["crates", name, "src", module @ ..] = parts.as_slice()
            && let Some(module) = module_path(module)
        {
            let code = code_only(&source.text);
            // A module of tests in the same file comes last by convention.
            let code = code.split("\nmod tests {").next().unwrap_or("");
            // A path in a visibility imports nothing.
            let code = code.replace("pub(in crate::", "pub(");
            crates.entry((*name).to_owned()).or_default().insert(module, code);
        }
    }
    let largest = crates.into_iter().map(|(name, code)| {
        let modules = Crate::new(code);
        let paths: Vec<&ModulePath> = modules.code.keys().collect();
        let imports: Vec<Vec<usize>> = paths.iter().map(|module| modules.imports(module, &paths)).collect();
        let circle = circles(&imports).into_iter().max_by_key(Vec::len).unwrap_or_default();
        let mut files: Vec<String> = circle.iter().map(|at| paths[*at].join("::")).collect();
        files.sort();
        (name, files)
    });
    largest.collect()
}

/// Module path of a file below `src`; `None` for modules of tests.
fn module_path(parts: &[&str]) -> Option<ModulePath> {
    let mut path: ModulePath = parts
        .iter()
        .map(|part| part.trim_end_matches(".rs").to_owned())
        .collect();
    if path
        .last()
        .is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
    {
        path.pop();
    }
    (!path.iter().any(|part| matches!(part.as_str(), "tests" | "bin"))).then_some(path)
}

impl Crate {
    fn new(code: BTreeMap<ModulePath, String>) -> Self {
        let uses = code.iter().map(|(module, code)| {
            let mut names = BTreeMap::new();
            for (at, _) in code.match_indices("use ") {
                let is_start = at == 0 || !is_word(code.as_bytes()[at - 1]);
                if is_start {
                    let mut paths = Vec::new();
                    tree(code, at + "use ".len(), &mut Vec::new(), &mut paths);
                    names.extend(paths.into_iter().map(|(path, name)| (name, path)));
                }
            }
            (module.clone(), names)
        });
        let uses = uses.collect();
        Self { code, uses }
    }

    /// Places in `paths` of the modules that one module imports.
    fn imports(&self, module: &ModulePath, paths: &[&ModulePath]) -> Vec<usize> {
        // Paths may begin with a child of this module, too.
        let children = paths
            .iter()
            .filter(|path| path.split_last().is_some_and(|(_, parent)| parent == module));
        let children = children.filter_map(|path| path.last()).map(String::as_str);
        let starts: Vec<&str> = ["crate", "super", "self"].into_iter().chain(children).collect();
        let mut found = BTreeSet::new();
        for path in paths_in(&self.code[module], &starts) {
            let target = self.module_of(module, &path);
            if target != *module
                && let Ok(at) = paths.binary_search(&&target)
            {
                found.insert(at);
            }
        }
        found.into_iter().collect()
    }

    /// The module that holds the item which `path`, written in `module`, names. Re-exports are followed.
    fn module_of(&self, module: &ModulePath, path: &[String]) -> ModulePath {
        let (mut at, mut rest) = (module.clone(), path.to_vec());
        let mut hops = 0;
        while !rest.is_empty() {
            let part = rest.remove(0);
            match part.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => {
                    at.push(part.clone());
                    if self.code.contains_key(&at) {
                        continue;
                    }
                    at.pop();
                    let Some(target) = self.uses.get(&at).and_then(|names| names.get(&part)) else {
                        return at;
                    };
                    hops += 1;
                    let is_local = matches!(target[0].as_str(), "crate" | "self" | "super")
                        || self.code.contains_key(&[at.clone(), vec![target[0].clone()]].concat());
                    if hops > HOPS_MAX || !is_local {
                        return at;
                    }
                    rest.splice(..0, target.iter().cloned());
                }
            }
        }
        at
    }
}

/// Every path that begins with one of `starts`, with trees (`a::{b, c::d}`) spread out.
fn paths_in(code: &str, starts: &[&str]) -> Vec<Vec<String>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for start in starts {
        for (at, _) in code.match_indices(&format!("{start}::")) {
            let is_start = at == 0 || !(is_word(bytes[at - 1]) || bytes[at - 1] == b':' || bytes[at - 1] == b'$');
            if is_start {
                tree(code, at, &mut Vec::new(), &mut found);
            }
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

/// Reads a path or tree at `at` below `prefix`, as paths with the names that they are imported as; returns where it ends.
fn tree(code: &str, mut at: usize, prefix: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) -> usize {
    let bytes = code.as_bytes();
    let word = |from: usize| {
        from + bytes[from.min(bytes.len())..]
            .iter()
            .take_while(|byte| is_word(**byte))
            .count()
    };
    let depth = prefix.len();
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if bytes.get(at) == Some(&b'{') {
            at += 1;
            loop {
                at = tree(code, at, prefix, found);
                while bytes
                    .get(at)
                    .is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b',')
                {
                    at += 1;
                }
                if !bytes.get(at).is_some_and(|byte| is_word(*byte) || *byte == b'{') {
                    break;
                }
            }
            prefix.truncate(depth);
            return at + usize::from(bytes.get(at) == Some(&b'}'));
        }
        let end = word(at);
        if end > at {
            prefix.push(code[at..end].to_owned());
        }
        if end > at && code[end..].starts_with("::") {
            at = end + 2;
            continue;
        }
        let rest = &code[end..];
        let alias = rest.trim_start().strip_prefix("as ");
        let (end, name) = match alias {
            Some(alias) => {
                let start = end + rest.len() - alias.len();
                (word(start), code[start..word(start)].to_owned())
            }
            None => (end, prefix.last().cloned().unwrap_or_default()),
        };
        // `a::{self}` imports `a`.
        let mut path = prefix.clone();
        let name = match name.as_str() {
            "self" if path.len() > 1 => {
                path.pop();
                path.last().cloned().unwrap_or_default()
            }
            _ => name,
        };
        if !path.is_empty() {
            found.push((path, name));
        }
        prefix.truncate(depth);
        return end;
    }
}

/// Strongly connected components (Tarjan 1972), without recursion.
fn circles(imports: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; imports.len()], vec![0; imports.len()]);
    let (mut is_on_stack, mut stack, mut found, mut next) = (vec![false; imports.len()], Vec::new(), Vec::new(), 0);
    for root in 0..imports.len() {
        if index[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((at, child)) = calls.pop() {
            if child == 0 {
                (index[at], low[at]) = (next, next);
                next += 1;
                stack.push(at);
                is_on_stack[at] = true;
            }
            if child > 0 {
                let before = imports[at][child - 1];
                if is_on_stack[before] {
                    low[at] = low[at].min(low[before]);
                }
            }
            match imports[at].get(child) {
                Some(to) => {
                    calls.push((at, child + 1));
                    if index[*to] == UNSEEN {
                        calls.push((*to, 0));
                    }
                }
                None if low[at] == index[at] => {
                    let start = stack.iter().position(|on| *on == at).expect("it is on the stack");
                    let circle = stack.split_off(start);
                    circle.iter().for_each(|one| is_on_stack[*one] = false);
                    found.push(circle);
                }
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> Source {
        Source {
            name: format!("crates/x/src/{name}"),
            text: text.to_owned(),
        }
    }

    #[test]
    fn trees_of_imports_are_spread_out() {
        let paths = paths_in(
            "use crate::a::{b::C, d::{self, E as F}, G};\nlet x = super::h::i();",
            &["crate", "super"],
        );
        let joined: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
        for path in [
            "crate::a::b::C",
            "crate::a::d",
            "crate::a::d::E",
            "crate::a::G",
            "super::h::i",
        ] {
            assert!(joined.iter().any(|found| found == path), "{path} in {joined:?}");
        }
    }

    #[test]
    fn a_circle_over_three_files_is_found() {
        let sources = [
            file("lib.rs", "mod a; mod b; mod c;"),
            file("a.rs", "use crate::b::B;"),
            file("b/mod.rs", "use super::c;"),
            file("b/d.rs", "use super::B;"),
            file("c.rs", "fn f() { crate::a::g() }"),
            file("tests.rs", "use crate::a::A;"),
        ];
        assert_eq!(largest_by_crate(&sources)["x"], ["a", "b", "c"]);
    }
}
