//! `preference`: which shard copies a search reads. Each shard has one copy on one node, so only shard numbers make a
//! difference.

use firn_engine::{Error, Result};

/// Returns the shards that a preference selects; empty: all.
pub(crate) fn shards(preference: &str) -> Result<Vec<u32>> {
    let refused = || Error::illegal_argument(format!("no Preference for [{preference}]"));
    // A preference without `_` in front is a custom string of the client, such as a session id.
    if !preference.starts_with('_') {
        return Ok(Vec::new());
    }
    let (shards, copies) = match preference.strip_prefix("_shards:") {
        Some(rest) => match rest.split_once('|') {
            Some((shards, copies)) => (shards, copies),
            None => (rest, ""),
        },
        None => ("", preference),
    };
    let (kind, nodes) = copies.split_once(':').unwrap_or((copies, ""));
    match (kind, nodes) {
        ("" | "_local" | "_only_local" | "_primary" | "_primary_first", "") => {}
        ("_prefer_nodes" | "_only_nodes", nodes) if !nodes.is_empty() => {}
        (text, "") if !text.starts_with('_') => {}
        _ => return Err(refused()),
    }
    shards
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let number = part.trim().parse();
            number.map_err(|_| Error::illegal_argument(format!("For input string: \"{part}\"")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::shards;

    #[test]
    fn forms() {
        for (preference, expected) in [
            ("session-1", vec![]),
            ("_local", vec![]),
            ("_only_local", vec![]),
            ("_prefer_nodes:a,b", vec![]),
            ("_shards:2,0", vec![2, 0]),
            ("_shards:1|_local", vec![1]),
            ("_shards:1|session", vec![1]),
        ] {
            assert_eq!(shards(preference).unwrap(), expected, "{preference}");
        }
        assert_eq!(shards("_nope").unwrap_err().reason(), "no Preference for [_nope]");
        assert!(shards("_shards:x").is_err());
        assert!(shards("_only_nodes").is_err());
    }
}
