//! The list of processors.

use firn_model::Result;

use super::kinds;
use super::options::Options;
use super::step::Processor;

/// Parses the options of a processor.
pub(crate) type Parse = fn(&mut Options) -> Result<Box<dyn Processor>>;

/// Result of a look-up.
pub(crate) enum Lookup {
    /// The name of the processor, and its parser.
    Found(&'static str, Parse),
    /// Elasticsearch has it, firn has not.
    Refused,
    /// No such processor.
    Unknown,
}

const PARSERS: &[(&str, Parse)] = &[("set", kinds::set::parse)];

/// Names of the processors that firn has, sorted.
pub const PROCESSORS: &[&str] = &["set"];

/// Names of processors of Elasticsearch that firn refuses by name.
pub const REFUSED: &[&str] = &["attachment", "circle", "inference", "ip_location"];

/// Looks a processor up.
pub(crate) fn lookup(name: &str) -> Lookup {
    match PARSERS.iter().find(|(known, _)| *known == name) {
        Some((name, parse)) => Lookup::Found(name, *parse),
        None if REFUSED.contains(&name) => Lookup::Refused,
        None => Lookup::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_parsers() {
        let mut names: Vec<&str> = PARSERS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, PROCESSORS);
        assert!(REFUSED.iter().all(|name| !PROCESSORS.contains(name)));
    }
}
