//! Placement table: shards of the tenants whose hash would place them badly.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// Maximum number of tenants in a table. Every tenant index stores a copy, so the table holds only the few tenants that
/// matter.
pub const TENANTS_MAX: usize = 1000;
/// Same limit as `index.number_of_shards`.
const SHARDS_MAX: u64 = 1024;

/// Placement table: tenants that lie on other shards than their hash says.
///
/// An index copies the table when it is created, if it holds events by tenant and has the number of shards that the
/// table is for. Later changes of the table do not move the documents of that index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Number of shards of the indices that the table is for, 2 or more.
    pub number_of_shards: u32,
    /// Shards of each tenant: ascending, without duplicates, at least one.
    pub tenants: BTreeMap<String, Vec<u32>>,
}

impl Placement {
    /// Returns the shards of a tenant; `None`: the shard of its hash.
    pub fn shards_of(&self, tenant: &str) -> Option<&[u32]> {
        self.tenants.get(tenant).map(Vec::as_slice)
    }

    /// Reads `{"number_of_shards": 4, "tenants": {"acme": [0], "zeta": [1, 3]}}`; a single number may replace a list of
    /// one.
    pub fn parse(body: &Value) -> Result<Self> {
        let map = body
            .as_object()
            .ok_or_else(|| Error::parsing("[placement] must be an object"))?;
        if let Some(unknown) = map
            .keys()
            .find(|key| !matches!(key.as_str(), "number_of_shards" | "tenants"))
        {
            return Err(Error::parsing(format!("[placement] unknown field [{unknown}]")));
        }
        let number_of_shards = map
            .get("number_of_shards")
            .ok_or_else(|| Error::parsing("[placement] required [number_of_shards]"))?
            .as_u64()
            .filter(|shards| (2..=SHARDS_MAX).contains(shards))
            .ok_or_else(|| {
                Error::illegal_argument(format!(
                    "[number_of_shards] of a placement must be 2 to {SHARDS_MAX}: one shard leaves nothing to place"
                ))
            })? as u32;
        let tenants = match map.get("tenants") {
            None => Map::new(),
            Some(Value::Object(tenants)) => tenants.clone(),
            Some(_) => return Err(Error::parsing("[tenants] of a placement must be an object")),
        };
        if tenants.len() > TENANTS_MAX {
            return Err(Error::illegal_argument(format!(
                "a placement takes at most {TENANTS_MAX} tenants, not {}: omit tenants that their hash places well",
                tenants.len()
            )));
        }
        let tenants = tenants
            .iter()
            .map(|(tenant, shards)| Ok((tenant.clone(), parse_shards(tenant, shards, number_of_shards)?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            number_of_shards,
            tenants,
        })
    }

    /// Prints the table; the inverse of [`Placement::parse`].
    pub fn print(&self) -> Value {
        json!({"number_of_shards": self.number_of_shards, "tenants": self.tenants})
    }
}

fn parse_shards(tenant: &str, value: &Value, number_of_shards: u32) -> Result<Vec<u32>> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let wrong = || {
        Error::illegal_argument(format!(
            "the shards of tenant [{tenant}] must be different numbers from 0 to {}, at least one",
            number_of_shards - 1
        ))
    };
    let mut shards = list
        .iter()
        .map(|shard| {
            let shard = shard.as_u64().filter(|shard| *shard < u64::from(number_of_shards));
            shard.map(|shard| shard as u32).ok_or_else(wrong)
        })
        .collect::<Result<Vec<u32>>>()?;
    shards.sort_unstable();
    let count = shards.len();
    shards.dedup();
    if shards.is_empty() || shards.len() != count {
        return Err(wrong());
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back() {
        let body = json!({"number_of_shards": 4, "tenants": {"acme": [0], "zeta": [3, 1]}});
        let placement = Placement::parse(&body).unwrap();
        assert_eq!(placement.shards_of("acme"), Some(&[0][..]));
        assert_eq!(placement.shards_of("zeta"), Some(&[1, 3][..]));
        assert_eq!(placement.shards_of("other"), None);
        assert_eq!(Placement::parse(&placement.print()).unwrap(), placement);
        let short = Placement::parse(&json!({"number_of_shards": 2, "tenants": {"a": 1}})).unwrap();
        assert_eq!(short.shards_of("a"), Some(&[1][..]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (body, reason) in [
            (json!([]), "must be an object"),
            (json!({"tenants": {}}), "required [number_of_shards]"),
            (json!({"number_of_shards": 1}), "must be 2 to 1024"),
            (json!({"number_of_shards": 2, "x": 1}), "unknown field [x]"),
            (json!({"number_of_shards": 2, "tenants": {"a": [2]}}), "from 0 to 1"),
            (json!({"number_of_shards": 2, "tenants": {"a": []}}), "at least one"),
            (
                json!({"number_of_shards": 2, "tenants": {"a": [1, 1]}}),
                "different numbers",
            ),
            (json!({"number_of_shards": 2, "tenants": {"a": "x"}}), "from 0 to 1"),
        ] {
            let error = Placement::parse(&body).unwrap_err();
            assert!(error.reason().contains(reason), "{body}: {error}");
        }
    }
}
