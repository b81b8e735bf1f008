//! Fuzz target: no event makes the mapper panic; an accepted event keeps its bytes, and its new fields fit the mapping.
#![no_main]

use std::sync::{Arc, LazyLock};

use firn_shard::mapper::{CompiledMapping, Unmapped, map_document};
use firn_model::mapping::Mapping;
use firn_model::settings::IndexSettings;

static SETTINGS: LazyLock<IndexSettings> =
    LazyLock::new(|| IndexSettings::parse(&serde_json::json!({})).expect("no settings are fine"));
static MAPPING: LazyLock<(Arc<Mapping>, Arc<CompiledMapping>)> = LazyLock::new(|| {
    let mapping = Mapping::parse(&serde_json::json!({"properties": {
        "a": {"type": "long"}, "d": {"type": "date"}, "n": {"type": "date_nanos"}, "ip": {"type": "ip"},
        "t": {"type": "text", "fields": {"raw": {"type": "keyword", "ignore_above": 8}}}, "b": {"type": "boolean"},
        "f": {"type": "half_float"}, "s": {"type": "scaled_float", "scaling_factor": 100},
        "u": {"type": "unsigned_long"}, "g": {"type": "geo_point"}, "x": {"type": "flattened"},
        "c": {"type": "constant_keyword"}, "w": {"type": "wildcard", "copy_to": "t"},
        "strict": {"dynamic": "strict", "properties": {"k": {"type": "keyword"}}},
        "off": {"type": "object", "enabled": false}, "o": {"properties": {"x": {"type": "byte"}}}
    }}))
    .expect("a mapping");
    let mapping = Arc::new(mapping);
    let compiled = CompiledMapping::new(Arc::clone(&mapping), &SETTINGS).expect("compiles");
    (mapping, Arc::new(compiled))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let source = bytes::Bytes::copy_from_slice(data);
    let (mapping, compiled) = &*MAPPING;
    for unmapped in [Unmapped::Report, Unmapped::Flatten] {
        let Ok(mapped) = map_document(compiled, &source, Some("1"), unmapped) else { continue };
        assert_eq!(mapped.document.source(), &source);
        if let Some(new) = mapped.new_fields {
            // Past the field limit the only addition is the value of a `constant_keyword`.
            let is_known = |path: &str| mapping.leaves().iter().any(|(known, _)| known == path);
            assert!(unmapped == Unmapped::Report || new.leaves().iter().all(|(path, _)| is_known(path)));
            let _ = mapping.merge(&new);
        }
    }
});
