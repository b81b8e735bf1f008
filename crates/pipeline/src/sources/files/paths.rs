//! Files that match patterns.
//!
//! A pattern is matched folder by folder with the crate `glob`, whose own walk leaves out names that are not UTF-8. Here such a name
//! is matched with U+FFFD in place of the bytes that are none, so that `*` and `?` match it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use firn_model::{Error, Result};

use super::tail::{FileId, Stamp};

/// Files that the patterns may match.
const FILES_MAX: usize = 100_000;
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// What the patterns match.
#[derive(Default)]
pub(super) struct Found {
    pub(super) files: HashMap<FileId, (Stamp, PathBuf)>,
    /// Folders and files whose state cannot be read.
    pub(super) errors: Vec<(PathBuf, io::Error)>,
    /// Devices of the folders that the patterns start in.
    pub(super) devices: HashSet<u64>,
}

/// Pattern of the paths of files.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// Folder that all files are in: the components before the first wildcard.
    base: PathBuf,
    components: Vec<Component>,
}

/// Part of a pattern between two slashes.
#[derive(Debug, Clone)]
enum Component {
    Literal(String),
    Wildcards(glob::Pattern),
    /// `**`: any number of folders.
    Folders,
}

impl Component {
    fn is_name(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Wildcards(pattern) => pattern.matches(name),
            Self::Folders => true,
        }
    }
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: it is invalid.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut base = PathBuf::from(if text.starts_with('/') { "/" } else { "." });
        let mut components = Vec::new();
        let mut names = text.split('/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            if name == "**" {
                components.push(Component::Folders);
            } else if name.contains(WILDCARDS) {
                let pattern = glob::Pattern::new(name).map_err(|error| {
                    Error::illegal_argument(format!("path [{text}] is no valid pattern: {}", error.msg))
                })?;
                components.push(Component::Wildcards(pattern));
            } else if components.is_empty() && names.peek().is_some() {
                base.push(name);
            } else {
                components.push(Component::Literal(name.to_owned()));
            }
        }
        // With a slash at its end it matches folders.
        if text.ends_with('/') {
            components.push(Component::Folders);
        }
        Ok(Self { base, components })
    }
}

/// Returns the regular files that match, each once.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: they are too many.
pub(super) fn find(patterns: &[PathPattern]) -> Result<Found> {
    let mut search = Search::default();
    for pattern in patterns {
        match fs::metadata(&pattern.base) {
            Ok(metadata) => drop(search.found.devices.insert(metadata.dev())),
            Err(error) => {
                search.found.errors.push((pattern.base.clone(), error));
                continue;
            }
        }
        search.walk(&pattern.base, &pattern.components);
    }
    match search.is_full {
        true => Err(Error::illegal_argument(format!(
            "the paths match more than [{FILES_MAX}] files"
        ))),
        false => Ok(search.found),
    }
}

#[derive(Default)]
struct Search {
    found: Found,
    /// There are more files than may be followed.
    is_full: bool,
    /// Folders that the links on the way lead to: a link to one of them leads in a circle.
    linked: Vec<(u64, u64)>,
}

impl Search {
    fn walk(&mut self, folder: &Path, components: &[Component]) {
        let names = components.iter().position(|part| !matches!(part, Component::Folders));
        // What ends with `**` matches folders.
        let Some(place) = names else { return };
        let (is_deep, next, rest) = (place > 0, &components[place], &components[place + 1..]);
        if let Component::Literal(name) = next
            && !is_deep
        {
            return self.enter(folder.join(name), rest);
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.fail(folder, error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.fail(folder, error),
            };
            if self.is_full {
                return;
            }
            if next.is_name(&entry.file_name().to_string_lossy()) {
                self.enter(entry.path(), rest);
            }
            if is_deep {
                self.walk_below(&entry, components);
            }
        }
    }

    fn enter(&mut self, path: PathBuf, rest: &[Component]) {
        match rest {
            [] => self.add(path),
            rest => self.walk(&path, rest),
        }
    }

    /// Walks an entry if it is a folder, or a link to one.
    fn walk_below(&mut self, entry: &DirEntry, components: &[Component]) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => self.walk(&entry.path(), components),
            Ok(kind) if kind.is_symlink() => {
                let path = entry.path();
                let target = fs::metadata(&path).ok().filter(fs::Metadata::is_dir);
                let Some(id) = target.map(|target| (target.dev(), target.ino())) else {
                    return;
                };
                if !self.linked.contains(&id) {
                    self.linked.push(id);
                    self.walk(&path, components);
                    self.linked.pop();
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, path: PathBuf) {
        let (id, stamp) = match FileId::of(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return,
            Err(error) => return self.fail(&path, error),
        };
        let files = &mut self.found.files;
        let has_room = files.len() < FILES_MAX;
        match files.get_mut(&id) {
            // Of several names of a file, always the same one.
            Some((_, known)) if *known <= path => {}
            Some((_, known)) => *known = path,
            None if has_room => drop(files.insert(id, (stamp, path))),
            None => self.is_full = true,
        }
    }

    fn fail(&mut self, path: &Path, error: io::Error) {
        let is_gone = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        if !is_gone {
            self.found.errors.push((path.to_owned(), error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Checks which files of a folder a pattern matches; `{}` stands for a byte that is not UTF-8.
    fn check(folder: &Path, pattern: &str, expect: &[&str]) {
        let pattern = PathPattern::parse(&format!("{}/{pattern}", folder.display())).unwrap();
        let found = find(std::slice::from_ref(&pattern)).unwrap();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let names = found.files.into_values().map(|(_, path)| {
            let path = path.strip_prefix(folder).unwrap();
            path.to_string_lossy().replace('\u{fffd}', "{}")
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        assert_eq!(names, expect, "{pattern:?}");
    }

    #[test]
    fn patterns_match_as_in_a_shell_with_all_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("sub/deep")).unwrap();
        fs::create_dir(path.join(OsStr::from_bytes(b"dir-\xff"))).unwrap();
        for name in [
            "a.log",
            ".hidden.log",
            "b[1].log",
            "sub/c.log",
            "sub/deep/d.log",
            "z.txt",
        ] {
            fs::write(path.join(name), name).unwrap();
        }
        for name in [&b"caf\xe9.log"[..], b"dir-\xff/e.log"] {
            fs::write(path.join(OsStr::from_bytes(name)), name).unwrap();
        }
        check(path, "*.log", &[".hidden.log", "a.log", "b[1].log", "caf{}.log"]);
        check(path, "caf?.log", &["caf{}.log"]);
        check(path, "[ab]*.log", &["a.log", "b[1].log"]);
        check(path, "b[[]1].log", &["b[1].log"]);
        check(path, "dir-*/*", &["dir-{}/e.log"]);
        check(path, "a.log", &["a.log"]);
        check(path, "no.log", &[]);
        check(path, "a.log/*", &[]);
        check(path, "*/c.log", &["sub/c.log"]);
        check(path, "sub/../sub//c.log", &["sub/../sub/c.log"]);
        check(path, "**/c.log", &["sub/c.log"]);
        check(path, "sub/**/*.log", &["sub/c.log", "sub/deep/d.log"]);
        let all = [
            ".hidden.log",
            "a.log",
            "b[1].log",
            "caf{}.log",
            "dir-{}/e.log",
            "sub/c.log",
            "sub/deep/d.log",
        ];
        check(path, "**/*.log", &all);
        check(path, "**/**/*.log", &all);
        // As before: these match folders.
        for folders in ["**", "sub/", "*/"] {
            check(path, folders, &[]);
        }
    }

    #[test]
    fn links_are_followed_and_not_in_circles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a")).unwrap();
        fs::create_dir_all(path.join("other")).unwrap();
        fs::write(path.join("a/x.log"), "x").unwrap();
        fs::write(path.join("other/y.log"), "y").unwrap();
        for (target, link) in [
            ("../other", "a/to"),
            ("..", "a/up"),
            ("..", "a/up-too"),
            ("x.log", "a/0.log"),
        ] {
            symlink(target, path.join(link)).unwrap();
        }
        // A file is there once, by its first name.
        check(path, "a/*.log", &["a/0.log"]);
        check(path, "a/**/*.log", &["a/0.log", "a/to/y.log"]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_what_is_gone_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        symlink("cycle.log", path.join("cycle.log")).unwrap();
        let find = |pattern: &str| {
            let pattern = PathPattern::parse(&format!("{}/{pattern}", path.display())).unwrap();
            find(&[pattern]).unwrap()
        };
        let errors = find("*.log").errors;
        assert_eq!(errors.len(), 1);
        assert!(errors[0].0.ends_with("cycle.log"));
        // The folder that the pattern starts in is missing.
        let missing = find("no/such/*.log");
        assert_eq!((missing.errors.len(), missing.devices.len()), (1, 0));
        assert!(missing.errors[0].0.ends_with("no/such"));
        assert!(PathPattern::parse("/a/[b").is_err() && PathPattern::parse("/a/[b/c]").is_err());
    }
}
