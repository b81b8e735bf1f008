//! Sigma rules in YAML.

use firn_model::Result;

use super::collector::{Collector, Origin};
use super::{Import, ImportOptions};
use crate::sigma;

/// Reads the Sigma rules and correlations of a YAML text, which may hold several documents. The id of a rule is its own, or its title.
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
        collector.add(origin, definition.into_iter().collect(), Vec::new())?;
    }
    collector.import.refused.sort_by_key(|refused| refused.line);
    // What the parser complains about is also why the definition is refused.
    collector.import.refused.dedup();
    Ok(collector.import)
}
