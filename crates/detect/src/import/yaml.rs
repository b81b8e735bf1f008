//! Sigma rules in YAML.

use firn_model::Result;

use super::collector::{Collector, Origin};
use super::{Import, ImportOptions, NotTaken};
use crate::sigma;

/// Reads the Sigma rules and correlations of a YAML text, which may hold several documents. The id of a rule is its own, or made of its
/// title.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: the text has too many rules.
pub fn sigma_yaml(yaml: &str, options: &ImportOptions) -> Result<Import> {
    let mut collector = Collector::new(options);
    let (bundles, refused) = sigma::bundles(yaml);
    for document in refused {
        let origin = Origin {
            line: document.line,
            id: document.error.id,
            name: document.error.title,
        };
        collector.refuse(origin, document.error.reason);
    }
    for bundle in bundles {
        let origin = Origin {
            line: bundle.line,
            id: bundle.id,
            name: bundle.title,
        };
        let definition = [("type", "sigma".to_owned()), ("sigma", bundle.text)];
        let definition = definition.map(|(name, value)| (name.to_owned(), value.into()));
        let one_tag = "a text, where Sigma has a list: it is taken for one tag";
        let notes = bundle.has_one_tag.then(|| NotTaken::note("tags", one_tag));
        collector.add(origin, definition.into_iter().collect(), notes.into_iter().collect())?;
    }
    collector.import.refused.sort_by_key(|refused| refused.line);
    // What the parser complains about is also why the definition is refused.
    collector.import.refused.dedup();
    Ok(collector.import)
}
