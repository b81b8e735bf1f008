//! Bank of named patterns, with the names and meanings of the ECS v1 bank that Elasticsearch and Logstash publish.
//!
//! Each list holds one subject. Definitions refer to each other as `%{NAME}`; names of captures are ECS fields.

mod applications;
mod basics;
mod dates;
mod network;
mod syslog;
#[cfg(test)]
mod tests;
mod web;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

static BANK: LazyLock<HashMap<&'static str, Cow<'static, str>>> = LazyLock::new(|| {
    let lists = [
        basics::PATTERNS,
        dates::PATTERNS,
        network::PATTERNS,
        syslog::PATTERNS,
        web::PATTERNS,
        applications::PATTERNS,
    ];
    let mut bank: HashMap<_, _> = lists
        .iter()
        .flat_map(|list| list.iter())
        .map(|&(name, text)| (name, text.into()))
        .collect();
    bank.insert("IPV6", network::ipv6().into());
    bank
});

/// Definition of a pattern of the bank.
pub fn definition(name: &str) -> Option<&'static str> {
    BANK.get(name).map(|text| &**text)
}

/// All names of the bank, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = BANK.keys().copied().collect();
    names.sort_unstable();
    names
}
