//! Which shard a tenant should be in.

use std::collections::BTreeMap;

use firn_model::routing::shard_for;

/// A tenant with less than this part of a shard's fair load is left to its hash: a few hundred of
/// such tenants even out by themselves, and every entry of the table is one more to look after.
const TAIL_PART: f64 = 0.02;
/// As many tenants as a placement table takes.
const PLACED_MAX: usize = 1000;
/// A tenant with more than this part of a shard's fair load is cut into several shards.
const CUT_PART: f64 = 1.5;

/// Tenants in shards, and how even that is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placing {
    /// By tenant, only those that are not left to their hash.
    pub(crate) tenants: BTreeMap<String, Vec<u32>>,
    /// The fullest shard's load by the mean of all.
    pub(crate) crowding: f64,
    /// The same if all were left to their hash.
    pub(crate) crowding_by_hash: f64,
}

/// Spreads tenants with their loads (of any unit) over shards: the tail by hash, then the largest
/// first, each into the emptiest shard.
pub(crate) fn place(loads: &[(&str, f64)], shards: u32) -> Placing {
    let shards = shards.max(1);
    let total: f64 = loads.iter().map(|(_, load)| load).sum();
    let fair = total / f64::from(shards);
    let mut by_hash = vec![0.0; shards as usize];
    for (tenant, load) in loads {
        by_hash[shard_for(tenant, shards) as usize] += load;
    }
    let mut sorted: Vec<&(&str, f64)> = loads.iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let large = sorted.iter().take_while(|(_, load)| *load > fair * TAIL_PART);
    let (large, tail) = sorted.split_at(if shards > 1 { large.count().min(PLACED_MAX) } else { 0 });

    let mut filled = vec![0.0; shards as usize];
    for (tenant, load) in tail {
        filled[shard_for(tenant, shards) as usize] += load;
    }
    let mut tenants = BTreeMap::new();
    for (tenant, load) in large {
        let pieces = if *load > fair * CUT_PART {
            (load / fair).ceil() as usize
        } else {
            1
        };
        let mut emptiest: Vec<usize> = (0..filled.len()).collect();
        emptiest.sort_by(|a, b| filled[*a].total_cmp(&filled[*b]));
        emptiest.truncate(pieces);
        for shard in &emptiest {
            filled[*shard] += load / emptiest.len() as f64;
        }
        let mut own: Vec<u32> = emptiest.into_iter().map(|shard| shard as u32).collect();
        own.sort_unstable();
        tenants.insert((*tenant).to_owned(), own);
    }
    let crowding = |filled: &[f64]| match fair > 0.0 {
        true => filled.iter().copied().fold(0.0, f64::max) / fair,
        false => 1.0,
    };
    Placing {
        tenants,
        crowding: crowding(&filled),
        crowding_by_hash: crowding(&by_hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tenants_do_not_meet() {
        let placing = place(&[("a", 10.0), ("b", 9.0), ("c", 2.0), ("d", 2.0)], 2);
        let expected = [("a", vec![0]), ("b", vec![1]), ("c", vec![1]), ("d", vec![0])];
        let expected = expected.map(|(tenant, shards)| (tenant.to_owned(), shards));
        assert_eq!(placing.tenants, BTreeMap::from(expected));
        assert!((placing.crowding - 12.0 / 11.5).abs() < 1e-9);
        assert!(placing.crowding <= placing.crowding_by_hash);
    }

    #[test]
    fn a_giant_is_cut_and_the_tail_is_left_to_its_hash() {
        let names: Vec<String> = (0..200).map(|number| format!("small-{number}")).collect();
        let mut loads: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
        loads.push(("giant", 600.0));
        let placing = place(&loads, 4);
        assert_eq!(placing.tenants.keys().collect::<Vec<_>>(), ["giant"]);
        assert!(placing.tenants["giant"].len() > 1);
        assert!(placing.crowding < placing.crowding_by_hash);
    }

    #[test]
    fn one_shard_needs_no_table() {
        let placing = place(&[("a", 10.0), ("b", 1.0)], 1);
        assert!(placing.tenants.is_empty());
        assert_eq!((placing.crowding, placing.crowding_by_hash), (1.0, 1.0));
        assert_eq!(place(&[], 3).crowding, 1.0);
    }
}
