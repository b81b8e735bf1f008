//! Sigma rules in YAML.

use firn_model::Result;

use super::collector::{Collector, Origin};
use super::{Import, ImportOptions};
use crate::sigma;

/// Reads the Sigma rules of a YAML text, which may hold several documents. The id of a rule is its own, or its title.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: the text has too many rules.
pub fn sigma_yaml(yaml: &str, options: &ImportOptions) -> Result<Import> {
    let mut collector = Collector::new(options);
    for document in sigma::documents(yaml) {
        let line = document.line;
        let loaded = sigma::load(document.text);
        for error in loaded.errors {
            let origin = Origin {
                line,
                id: error.id,
                name: error.title,
            };
            collector.refuse(origin, error.reason);
        }
        for rule in loaded.rules {
            let origin = Origin {
                line,
                id: rule.id,
                name: rule.title,
            };
            let definition = [("type", "sigma"), ("sigma", document.text)];
            let definition = definition.map(|(name, value)| (name.to_owned(), value.into()));
            collector.add(origin, definition.into_iter().collect(), Vec::new())?;
        }
    }
    Ok(collector.import)
}
