//! Tiers of the shards of an index.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::IndexMetadata;
use super::change::Change;
use crate::tier::Tier;
use crate::{Error, Result};

impl IndexMetadata {
    /// Returns the tier of a shard.
    pub fn tier_of(&self, shard: u32) -> Tier {
        self.tiers.get(&shard).copied().unwrap_or_default()
    }

    /// Returns the tiers of all its shards.
    pub fn tiers_in_use(&self) -> BTreeSet<Tier> {
        (0..self.settings.number_of_shards)
            .map(|shard| self.tier_of(shard))
            .collect()
    }

    /// Prints `{"0": "warm"}`: the shards that are not on the hot tier.
    pub(super) fn print_tiers(&self) -> Value {
        let tiers = self.tiers.iter();
        Value::Object(
            tiers
                .map(|(shard, tier)| (shard.to_string(), tier.name().into()))
                .collect::<Map<_, _>>(),
        )
    }
}

/// Reads the output of [`IndexMetadata::print_tiers`].
pub(super) fn parse_tiers(json: &Value) -> Option<BTreeMap<u32, Tier>> {
    let tiers = json.as_object()?.iter();
    tiers
        .map(|(shard, tier)| Some((shard.parse().ok()?, Tier::find(tier.as_str()?)?)))
        .collect()
}

impl Change<'_> {
    pub(super) fn move_shard(&mut self, name: &str, uuid: &str, shard: u32, tier: Tier) -> Result<()> {
        if self.index(name)?.uuid != uuid {
            return Err(Error::index_not_found(name));
        }
        self.change_index(name, |index| {
            match tier {
                Tier::Hot => index.tiers.remove(&shard),
                tier => index.tiers.insert(shard, tier),
            };
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::{Command, EmbeddedCommand, Metadata};

    #[test]
    fn a_move_is_stored_with_its_index() {
        let create = Command::CreateIndex {
            name: "logs".to_owned(),
            settings: json!({"number_of_shards": 2}),
            mappings: None,
            aliases: None,
        };
        let (made, _) = Metadata::default().apply(&create, 0, &mut || "u1".to_owned()).unwrap();
        let to = |tier, uuid: &str| EmbeddedCommand::MoveShard {
            index: "logs".to_owned(),
            uuid: uuid.to_owned(),
            shard: 1,
            tier,
        };
        let (moved, _) = made.apply_embedded(&to(Tier::Warm, "u1"), 0, &mut String::new).unwrap();
        let index = moved.indices.get("logs").unwrap();
        assert_eq!((index.tier_of(0), index.tier_of(1)), (Tier::Hot, Tier::Warm));
        let json = index.to_json();
        assert_eq!(json["format"], 3);
        assert_eq!(IndexMetadata::from_json(&json).unwrap(), **index);

        let (back, outcome) = moved.apply_embedded(&to(Tier::Hot, "u1"), 0, &mut String::new).unwrap();
        assert!(outcome.changed);
        assert_eq!(back.indices.get("logs").unwrap().to_json()["format"], 1);
        let (again, outcome) = back.apply_embedded(&to(Tier::Hot, "u1"), 0, &mut String::new).unwrap();
        assert!(outcome.changed && again.version > back.version, "it is stored again");
        assert!(
            made.apply_embedded(&to(Tier::Warm, "u2"), 0, &mut String::new).is_err(),
            "another index"
        );
    }
}
