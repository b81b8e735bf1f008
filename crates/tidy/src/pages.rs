//! Links between the pages of the documentation.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use crate::sources::Source;

/// Every page is reachable, so that every format on disk has a page that a reader finds.
pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let is_page = |source: &&Source| source.name.starts_with("docs/");
    let names: BTreeSet<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let (mut reachable, mut violations) = (BTreeSet::new(), Vec::new());
    for page in sources.iter().filter(|source| {
        matches!(source.name.as_str(), "README.md" | "ARCHITECTURE.md" | "CHANGELOG.md")
            || is_page(source) && source.name.ends_with(".md")
    }) {
        for target in links(page) {
            let is_folder = names.iter().any(|name| name.starts_with(&format!("{target}/")));
            let is_image = [".png", ".svg"].iter().any(|end| target.ends_with(end));
            if !names.contains(target.as_str()) && !is_folder && !is_image {
                violations.push(format!("{} links to {target}, which does not exist", page.name));
            }
            // A link of a page to itself does not count.
            if target != page.name {
                reachable.insert(target);
            }
        }
    }
    let unlinked = sources.iter().filter(is_page);
    violations.extend(
        unlinked
            .filter(|page| !reachable.contains(&page.name))
            .map(|page| format!("no page links to {}", page.name)),
    );
    violations
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
        if target.is_empty() || target.contains("://") || target.contains(' ') {
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
