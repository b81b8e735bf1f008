//! Detection rules in files and folders.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use firn_detect::{Rule, sigma};

/// Rules of files, and what could not be read.
#[derive(Debug, Default)]
pub struct RuleFiles {
    /// Rules, in the order of the sorted files.
    pub rules: Vec<Rule>,
    /// What is no rule that firn can use, and why: lines for readers, with the file.
    pub refused: Vec<String>,
}

/// Reads Sigma files, and folders of them with all folders inside (`*.yml`, `*.yaml`).
///
/// # Errors
/// A file cannot be read, or a folder has no rules. What a file holds is no error.
pub fn read_rules(paths: &[PathBuf]) -> Result<RuleFiles> {
    let mut read = RuleFiles::default();
    let mut texts = Vec::new();
    for path in paths {
        let files = match path.is_dir() {
            true => rule_files(path)?,
            false => vec![path.clone()],
        };
        if files.is_empty() {
            bail!(
                "there are no rules in [{}]: the names of their files end in .yml or .yaml",
                path.display()
            );
        }
        for file in files {
            let yaml = std::fs::read_to_string(&file).with_context(|| format!("cannot read [{}]", file.display()))?;
            let loaded = sigma::load_parts(&yaml);
            read.refused
                .extend(loaded.errors.iter().map(|error| format!("{}: {error}", file.display())));
            read.refused.extend(loaded.correlations.iter().map(|correlation| {
                let (file, id, title) = (file.display(), &correlation.id, &correlation.title);
                format!("{file}: [{id}] {title}: correlations are evaluated in event pipelines alone")
            }));
            texts.push(loaded);
        }
    }
    // A filter may be in another file than its rules.
    let unused = sigma::apply_filters(&mut texts);
    read.refused.extend(unused.iter().map(ToString::to_string));
    read.rules.extend(texts.into_iter().flat_map(|text| text.rules));
    Ok(read)
}

/// Returns the rule files of a folder and the folders inside, sorted. Links to folders are not followed, as they may lead back.
fn rule_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read [{}]", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yml" || extension == "yaml")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
