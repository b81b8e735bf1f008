//! Look-up tables of `geoip` and `enrich`, as the processors see them.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::failure::Failure;

/// Record of a MaxMind database. The names of the properties are Elasticsearch's (`country_iso_code`, `location`, …).
#[derive(Debug, Clone, PartialEq)]
pub struct GeoRecord {
    /// All properties that the record has, in Elasticsearch's names and shapes; without `ip`.
    pub properties: Map<String, Value>,
}

/// Enrich policy.
#[derive(Debug, Clone, PartialEq)]
pub struct EnrichPolicy {
    /// `match`, `range` or `geo_match`.
    pub kind: String,
    /// Field of the table that is compared; part of each record.
    pub match_field: String,
}

/// Look-up tables by name.
pub trait Tables: Sync {
    /// Returns whether a MaxMind database is loaded, and its type (`GeoLite2-City`).
    fn geo_database(&self, file: &str) -> Option<String>;

    /// Returns the record of an address, if the database has one.
    fn geo(&self, file: &str, address: IpAddr) -> Option<GeoRecord>;

    /// Returns a policy.
    fn enrich_policy(&self, name: &str) -> Option<EnrichPolicy>;

    /// Returns at most `max_matches` records whose match field fits `value`; `shape_relation` is for `geo_match` only.
    fn enrich(
        &self,
        policy: &str,
        value: &Value,
        shape_relation: &str,
        max_matches: usize,
    ) -> Result<Vec<Map<String, Value>>, Failure>;
}

/// No tables.
#[derive(Debug, Clone, Copy)]
pub struct NoTables;

impl Tables for NoTables {
    fn geo_database(&self, _file: &str) -> Option<String> {
        None
    }

    fn geo(&self, _file: &str, _address: IpAddr) -> Option<GeoRecord> {
        None
    }

    fn enrich_policy(&self, _name: &str) -> Option<EnrichPolicy> {
        None
    }

    fn enrich(&self, _: &str, _: &Value, _: &str, _: usize) -> Result<Vec<Map<String, Value>>, Failure> {
        Ok(Vec::new())
    }
}
