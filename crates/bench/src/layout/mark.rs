//! Mapping of all layouts, with a mark that identifies the events of an index.

use firn_tools::generate::{Kind, index_template};
use serde_json::{Value, json};

use super::volumes::Source;

/// Key of the mark in `_meta` of a mapping.
const MARK: &str = "firn_bench_layout";

/// Returns the mark, which identifies these events.
fn mark(source: &Source) -> Value {
    json!({
        "kind": "events",
        "seed": source.seed,
        "events": source.events,
        "tenants": source.tenants,
        "weeks": source.weeks,
    })
}

/// Returns the mapping of the events with the mark.
pub(super) fn mappings(source: &Source) -> anyhow::Result<Value> {
    let (_, mut template) = index_template(Kind::Events)?;
    let mut mappings = template["template"]["mappings"].take();
    mappings["_meta"] = json!({ MARK: mark(source) });
    Ok(mappings)
}

/// Whether a mapping was created for these events.
pub(super) fn is_of(source: &Source, mappings: &Value) -> bool {
    mappings["_meta"][MARK] == mark(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_other_events_do_not_match() {
        let source = Source {
            seed: 1,
            events: 1000,
            tenants: 12,
            weeks: 3,
        };
        let mappings = mappings(&source).unwrap();
        assert_eq!(mappings["properties"]["tenant"]["type"], "keyword");
        assert!(is_of(&source, &mappings));
        assert!(!is_of(&Source { seed: 2, ..source }, &mappings));
        assert!(!is_of(&source, &json!({})));
    }
}
