//! The house rules of ARCHITECTURE.md, held against the files of the repository.
//!
//! Every rule collects all that breaks it before it fails, each with file and line. An exception
//! stands in a list here with its reason; one that nothing needs any more fails as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// What git does not track (`.gitignore`), and what it keeps for itself: paths from the root.
const SKIPPED: &[&str] = &[
    ".git",
    ".venv",
    "console/artifacts",
    "console/dist",
    "console/node_modules",
    "data",
    "fuzz/artifacts",
    "fuzz/corpus",
    "fuzz/coverage",
    "fuzz/target",
    "target",
    "tests/clients/js/node_modules",
];
/// Larger files are somebody's events beside the sources, and not tracked.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Lines of a Rust file at most: one file is one idea.
const LINES_MAX: usize = 800;

/// Dependencies that only these members may have, and why.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "firn-embedded",
        &["firn"],
        "only the binary picks an engine; the rest knows the trait",
    ),
    (
        "firn-api",
        &["firn"],
        "the edge is the top; only the binary wires it to an engine",
    ),
    ("tantivy", &["firn-embedded"], "segments are the embedded engine's own"),
    ("redb", &["firn-embedded"], "so is the catalog"),
    ("hyper", &["firn-api"], "HTTP is served in one place"),
    ("hyper-util", &["firn-api"], "HTTP is served in one place"),
    ("http", &["firn-api"], "HTTP is served in one place"),
    ("http-body-util", &["firn-api"], "HTTP is served in one place"),
    ("tower", &["firn-api"], "HTTP is served in one place"),
    ("tower-http", &["firn-api"], "HTTP is served in one place"),
    ("axum", &["firn-api"], "HTTP is served in one place"),
    (
        "rustls",
        &["firn-api", "firn-storage"],
        "TLS is served in one place, and asked of object stores in another",
    ),
    ("tokio-rustls", &["firn-api"], "TLS is served in one place"),
    (
        "ureq",
        &["firn", "firn-testkit"],
        "HTTP is asked by tools and tests alone",
    ),
    ("memmap2", &["firn-storage"], "files are mapped behind the disk trait"),
    ("clap", &["firn"], "the command line is the binary's"),
    ("serde_norway", &["firn"], "configuration files are the binary's"),
    ("tracing-subscriber", &["firn"], "where logs go is the binary's"),
    ("mimalloc", &["firn"], "a library picks no allocator"),
    ("libmimalloc-sys", &["firn"], "nor does it tell one what to do"),
    ("anyhow", &["firn", "firn-testkit"], "libraries fail with typed errors"),
];

/// Lowest of all by ARCHITECTURE.md's levels: for tests only.
const TESTKIT: &str = "firn-testkit";

/// Where each kind of ambient input may be read besides `crates/firn`, the testkit and tests.
struct Ambient {
    what: &'static str,
    calls: &'static [&'static str],
    allowed: &'static [(&'static str, &'static str)],
}

const AMBIENT: &[Ambient] = &[
    Ambient {
        what: "the wall clock",
        calls: &[
            "SystemTime::now",
            "Timestamp::now",
            "Zoned::now",
            "Utc::now",
            "Local::now",
        ],
        allowed: &[],
    },
    Ambient {
        what: "the environment",
        calls: &[
            "env::var",
            "env::args",
            "env::current_dir",
            "env::temp_dir",
            "env::home_dir",
        ],
        allowed: &[],
    },
    Ambient {
        what: "randomness",
        calls: &[
            "fastrand::bool(",
            "fastrand::u8(",
            "fastrand::u16(",
            "fastrand::u32(",
            "fastrand::u64(",
            "fastrand::u128(",
            "fastrand::usize(",
            "fastrand::i64(",
            "fastrand::f64(",
            "fastrand::shuffle(",
            "fastrand::Rng::new(",
            "Rng::new()",
            "rand::random",
        ],
        allowed: &[
            (
                "crates/storage/src/wal/open.rs",
                "the salt of a WAL file, which no seed may repeat",
            ),
            (
                "crates/storage/src/wal/log.rs",
                "the salt of a WAL file, which no seed may repeat",
            ),
        ],
    },
    Ambient {
        what: "the monotonic clock",
        calls: &["Instant::now"],
        allowed: &[
            ("crates/api/src/api.rs", "measures requests for the metrics"),
            (
                "crates/api/src/bulk/mod.rs",
                "a test measures that answers are merged in one pass",
            ),
            ("crates/api/src/by_query/run.rs", "holds batches to their rate"),
            ("crates/api/src/auth/mod.rs", "how long whoever guesses has to wait"),
            (
                "crates/api/src/discover/run.rs",
                "measures stages for the traffic record",
            ),
            ("crates/api/src/discover/step.rs", "measures stages for their `took`"),
            (
                "crates/api/src/discover/tail.rs",
                "ends a live tail after its `timeout`",
            ),
            ("crates/api/src/search.rs", "measures searches for the slow log"),
            ("crates/api/src/server/places.rs", "how long connections are idle"),
            (
                "crates/embedded/src/bulk/apply.rs",
                "measures writes for the statistics",
            ),
            (
                "crates/embedded/src/engine/contexts.rs",
                "measures how long contexts were open for the statistics",
            ),
            ("crates/embedded/src/engine/open.rs", "measures recovery for the log"),
            (
                "crates/embedded/src/engine/recovery_gate.rs",
                "bounds the wait for a shard that is being opened",
            ),
            (
                "crates/embedded/src/engine/searching.rs",
                "measures searches for the statistics",
            ),
            (
                "crates/embedded/src/engine/state.rs",
                "measures refreshes and flushes for the statistics",
            ),
            (
                "crates/embedded/src/search/highlight/boundaries.rs",
                "a test holds sentences of a long text to a bound of time",
            ),
            (
                "crates/embedded/src/search/terms_enum.rs",
                "bounds the time of one request",
            ),
            ("crates/embedded/src/merging.rs", "puts off merges after failed ones"),
            (
                "crates/embedded/src/snapshots/repair.rs",
                "puts off repairs after failed ones",
            ),
            (
                "crates/embedded/src/mounts/following.rs",
                "bounds the wait for searches of what another node rewrote",
            ),
            (
                "crates/embedded/src/mounts/switching.rs",
                "bounds the wait for searches of what is to go",
            ),
            (
                "crates/embedded/src/mounts/copying.rs",
                "when a copy that was not made may be tried again",
            ),
            (
                "crates/embedded/src/tiers/moving.rs",
                "measures moves for the log, and puts off those that failed",
            ),
            ("crates/embedded/src/pool/mod.rs", "bounds the wait for a pool to end"),
            (
                "crates/embedded/src/pool/workers.rs",
                "measures what jobs take, which decides who is next",
            ),
            (
                "crates/storage/src/object/breaker.rs",
                "a unit test needs some instant to count from",
            ),
            (
                "crates/control/src/quotas/mod.rs",
                "a unit test needs some instant to count from",
            ),
            (
                "crates/control/src/quotas/bucket.rs",
                "a unit test needs some instant to count from",
            ),
            (
                "crates/control/src/quotas/rate.rs",
                "a unit test needs some instant to count from",
            ),
            ("crates/embedded/src/search/guard.rs", "ends a search at its timeout"),
            (
                "crates/embedded/src/search/profile.rs",
                "measures the parts of a search that asks for its profile",
            ),
            (
                "crates/embedded/src/shard/merge.rs",
                "measures merges for the statistics",
            ),
            (
                "crates/embedded/src/backoff.rs",
                "a unit test needs some instant to count from",
            ),
            ("crates/embedded/src/ticker.rs", "waits for the next tick"),
            (
                "crates/engine/src/task.rs",
                "a request's own start, which its timeout counts from",
            ),
            (
                "crates/storage/src/object/meter.rs",
                "measures requests to object stores for the metrics",
            ),
            (
                "crates/storage/src/object/throttle.rs",
                "keeps the pace of snapshots and restores",
            ),
            (
                "crates/storage/src/wal/log.rs",
                "when the sync of `durability: async` is due",
            ),
            (
                "crates/storage/src/wal/syncer.rs",
                "when the sync of `durability: async` is due",
            ),
        ],
    },
];

/// Left-overs of writing. Put together here, so that this file does not break its own rule.
const LEFT_OVERS: &[&str] = &[
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
];

/// Places of one machine.
const MACHINE_PATHS: &[&str] = &[
    concat!("/", "work", "/"),
    concat!("/", "root", "/"),
    concat!("/", "home", "/"),
    concat!("/", "Users", "/"),
];

/// A file of the repository, with its path from the root and `/` between its parts.
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// Lines with any of `needles`, as `file:line: needle`.
    fn lines_with(&self, needles: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            for needle in needles.iter().filter(|needle| line.contains(**needle)) {
                found.push(format!("{}:{}: {needle}", self.name, number + 1));
            }
        }
        found
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

/// Every text file, sorted by name.
fn sources() -> Vec<Source> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            let path = entry.path();
            let name = path.strip_prefix(root).expect("below the root");
            let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
            let name = name.join("/");
            let skipped = SKIPPED.contains(&name.as_str()) || name.ends_with("__pycache__") || name.ends_with(".log");
            if skipped || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                walk(&path, root, found);
                continue;
            }
            // What is not text holds nothing that the rules are about.
            let is_small = entry.metadata().is_ok_and(|metadata| metadata.len() <= FILE_BYTES_MAX);
            let Some(text) = is_small.then(|| fs::read_to_string(&path).ok()).flatten() else {
                continue;
            };
            found.push(Source { name, text });
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found.sort_by(|left, right| left.name.cmp(&right.name));
    assert!(found.len() > 100, "the walk found only {} files", found.len());
    found
}

fn source<'a>(sources: &'a [Source], name: &str) -> &'a Source {
    let found = sources.iter().find(|source| source.name == name);
    found.unwrap_or_else(|| panic!("{name} is missing"))
}

#[track_caller]
fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}\n", broken.join("\n  "));
}

/// A member of the workspace: its package name and its dependencies by section.
struct Member {
    name: String,
    dependencies: BTreeSet<String>,
    dev_dependencies: BTreeSet<String>,
}

/// The members in `crates/`. Of TOML this reads what our manifests use: sections, and one
/// dependency a line (`name.workspace = true`, `name = …`) or a section (`[dependencies.name]`).
fn members(sources: &[Source]) -> Vec<Member> {
    let manifests = sources.iter().filter(|source| {
        let parts: Vec<&str> = source.name.split('/').collect();
        matches!(parts.as_slice(), ["crates", _, "Cargo.toml"])
    });
    let members: Vec<Member> = manifests
        .map(|manifest| {
            let mut member = Member {
                name: String::new(),
                dependencies: BTreeSet::new(),
                dev_dependencies: BTreeSet::new(),
            };
            let mut section = String::new();
            for line in manifest.text.lines().map(str::trim) {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                    section = header.to_owned();
                    for kind in ["dependencies", "build-dependencies"] {
                        if let Some((_, name)) = header.split_once(&format!("{kind}.")) {
                            member.dependencies.insert(name.to_owned());
                        }
                    }
                    continue;
                }
                let key = line.split(['=', '.']).next().unwrap_or("").trim().trim_matches('"');
                match section.as_str() {
                    "package" if key == "name" => {
                        line.split('"').nth(1).unwrap_or("").clone_into(&mut member.name);
                    }
                    "dev-dependencies" => drop(member.dev_dependencies.insert(key.to_owned())),
                    // Those of one platform count like all others.
                    other if other.ends_with("dependencies") => drop(member.dependencies.insert(key.to_owned())),
                    _ => {}
                }
            }
            member
        })
        .collect();
    assert!(members.len() >= 7, "only {} members were read", members.len());
    members
}

/// The levels of the crates, from the table in ARCHITECTURE.md.
fn levels(sources: &[Source]) -> BTreeMap<String, u32> {
    let mut levels = BTreeMap::new();
    for line in source(sources, "ARCHITECTURE.md").text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", level, name, ..] = cells.as_slice() else {
            continue;
        };
        let level = match *level {
            "dev" => 0,
            level => match level.parse() {
                Ok(level) => level,
                Err(_) => continue,
            },
        };
        let name = name.trim_matches('`');
        let package = if name == "firn" {
            name.to_owned()
        } else {
            format!("firn-{name}")
        };
        levels.insert(package, level);
    }
    levels
}

#[test]
fn crates_import_downwards_only() {
    let sources = sources();
    let levels = levels(&sources);
    let members = members(&sources);
    let mut broken = Vec::new();
    for member in &members {
        let Some(level) = levels.get(&member.name) else {
            broken.push(format!("{} has no level in ARCHITECTURE.md", member.name));
            continue;
        };
        if member.dependencies.contains(TESTKIT) {
            broken.push(format!("{} ships {TESTKIT}, which is for tests", member.name));
        }
        for dependency in member.dependencies.iter().chain(&member.dev_dependencies) {
            let Some(below) = levels.get(dependency).filter(|_| dependency != TESTKIT) else {
                continue;
            };
            if below >= level {
                broken.push(format!(
                    "{} (level {level}) imports {dependency} (level {below})",
                    member.name
                ));
            }
        }
    }
    for name in levels.keys() {
        if !members.iter().any(|member| member.name == *name) {
            broken.push(format!("ARCHITECTURE.md has {name}, crates/ has not"));
        }
    }
    report("imports go down only (the table in ARCHITECTURE.md)", &broken);
}

#[test]
fn heavy_dependencies_stay_where_they_belong() {
    let mut broken = Vec::new();
    for member in members(&sources()) {
        for (dependency, owners, reason) in RESERVED {
            if member.dependencies.contains(*dependency) && !owners.contains(&member.name.as_str()) {
                broken.push(format!("{} imports {dependency}: {reason}", member.name));
            }
        }
    }
    report("a dependency is where it does not belong", &broken);
}

/// Whether a Rust file may read clocks and the like: the binary, the testkit, and tests.
fn is_outside(name: &str) -> bool {
    ["crates/firn/", "crates/testkit/", "fuzz/", "tests/"]
        .iter()
        .any(|start| name.starts_with(start))
        || name.contains("/tests/")
        || name.contains("/benches/")
        || name.ends_with("/tests.rs")
}

#[test]
fn time_chance_and_environment_come_in_as_values() {
    let sources = sources();
    let mut broken = Vec::new();
    for ambient in AMBIENT {
        let mut used = BTreeSet::new();
        for source in sources
            .iter()
            .filter(|source| source.is_rust() && !is_outside(&source.name))
        {
            let lines = source.lines_with(ambient.calls);
            if lines.is_empty() {
                continue;
            }
            if ambient.allowed.iter().any(|(name, _)| *name == source.name) {
                used.insert(source.name.as_str());
            } else {
                broken.extend(lines.into_iter().map(|line| format!("{line} reads {}", ambient.what)));
            }
        }
        for (name, reason) in ambient.allowed {
            if !used.contains(name) {
                broken.push(format!(
                    "{name} needs no exception any more ({reason}): remove it from tidy.rs"
                ));
            }
        }
    }
    report(
        "clocks, chance and environment belong to crates/firn (an exception needs a reason in tidy.rs)",
        &broken,
    );
}

#[test]
fn nothing_is_left_over() {
    let sources = sources();
    let rust = sources.iter().filter(|source| source.is_rust());
    let broken: Vec<String> = rust.flat_map(|source| source.lines_with(LEFT_OVERS)).collect();
    report("left-overs of writing", &broken);
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let sources = sources();
    let broken: Vec<String> = sources
        .iter()
        .flat_map(|source| source.lines_with(MACHINE_PATHS))
        .collect();
    report("paths that only one machine has", &broken);
}

#[test]
fn files_stay_short() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust()) {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            broken.push(format!("{} has {lines} lines", source.name));
        }
    }
    report(&format!("a Rust file has at most {LINES_MAX} lines"), &broken);
}

/// Targets of a page's links into the repository, as paths from its root.
fn links(page: &Source) -> BTreeSet<String> {
    let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
    let mut targets = BTreeSet::new();
    for part in page.text.split("](").skip(1) {
        let Some((target, _)) = part.split_once(')') else {
            continue;
        };
        let target = target.split('#').next().unwrap_or("");
        if target.is_empty() || target.contains("://") {
            continue;
        }
        let mut parts: Vec<String> = Vec::new();
        for part in folder.join(target).components() {
            match part {
                Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                Component::ParentDir => drop(parts.pop()),
                _ => {}
            }
        }
        targets.insert(parts.join("/"));
    }
    targets
}

/// The formats are among them, so that every byte on disk has a page that a reader can find.
#[test]
fn every_page_is_linked() {
    let sources = sources();
    let is_page = |source: &&Source| source.name.starts_with("docs/");
    let mut reachable = BTreeSet::new();
    for page in sources.iter().filter(|source| {
        matches!(source.name.as_str(), "README.md" | "ARCHITECTURE.md")
            || is_page(source) && source.name.ends_with(".md")
    }) {
        // A page does not lead to itself.
        reachable.extend(links(page).into_iter().filter(|target| *target != page.name));
    }
    let broken: Vec<String> = sources
        .iter()
        .filter(is_page)
        .filter(|page| !reachable.contains(&page.name))
        .map(|page| page.name.clone())
        .collect();
    report("no link in README.md, ARCHITECTURE.md or docs/ leads to", &broken);
}
