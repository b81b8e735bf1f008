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

const PARSERS: &[(&str, Parse)] = &[
    ("append", kinds::append::parse),
    ("bytes", kinds::bytes::parse),
    ("community_id", kinds::community_id::parse),
    ("convert", kinds::convert::parse),
    ("csv", kinds::csv::parse),
    ("date", kinds::date::parse),
    ("date_index_name", kinds::date_index_name::parse),
    ("dissect", kinds::dissect::parse),
    ("dot_expander", kinds::dot_expander::parse),
    ("drop", kinds::drop::parse),
    ("enrich", kinds::enrich::parse),
    ("fail", kinds::fail::parse),
    ("fingerprint", kinds::fingerprint::parse),
    ("foreach", kinds::foreach::parse),
    ("geoip", kinds::geoip::parse),
    ("grok", kinds::grok::parse),
    ("gsub", kinds::gsub::parse),
    ("html_strip", kinds::html_strip::parse),
    ("join", kinds::join::parse),
    ("json", kinds::json::parse),
    ("kv", kinds::kv::parse),
    ("lowercase", kinds::lowercase::parse),
    ("network_direction", kinds::network_direction::parse),
    ("pipeline", kinds::pipeline::parse),
    ("redact", kinds::redact::parse),
    ("registered_domain", kinds::registered_domain::parse),
    ("remove", kinds::remove::parse),
    ("rename", kinds::rename::parse),
    ("reroute", kinds::reroute::parse),
    ("script", kinds::script::parse),
    ("set", kinds::set::parse),
    ("set_security_user", kinds::set_security_user::parse),
    ("sort", kinds::sort::parse),
    ("split", kinds::split::parse),
    ("terminate", kinds::terminate::parse),
    ("trim", kinds::trim::parse),
    ("uppercase", kinds::uppercase::parse),
    ("uri_parts", kinds::uri_parts::parse),
    ("urldecode", kinds::urldecode::parse),
    ("user_agent", kinds::user_agent::parse),
];

/// Names of the processors that firn has, sorted.
pub const PROCESSORS: &[&str] = &[
    "append",
    "bytes",
    "community_id",
    "convert",
    "csv",
    "date",
    "date_index_name",
    "dissect",
    "dot_expander",
    "drop",
    "enrich",
    "fail",
    "fingerprint",
    "foreach",
    "geoip",
    "grok",
    "gsub",
    "html_strip",
    "join",
    "json",
    "kv",
    "lowercase",
    "network_direction",
    "pipeline",
    "redact",
    "registered_domain",
    "remove",
    "rename",
    "reroute",
    "script",
    "set",
    "set_security_user",
    "sort",
    "split",
    "terminate",
    "trim",
    "uppercase",
    "uri_parts",
    "urldecode",
    "user_agent",
];

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
