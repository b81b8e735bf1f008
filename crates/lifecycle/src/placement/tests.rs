use std::collections::BTreeMap;

use firn_model::routing::shard_for;
use proptest::prelude::*;

use super::*;

fn volume(tenant: &str, bytes: u64, search_cost: u64) -> TenantVolume {
    TenantVolume {
        tenant: tenant.to_owned(),
        documents: bytes / 500,
        bytes,
        search_cost,
    }
}

/// Tenants like the customers of a company: few large ones, many small ones.
fn zipf(count: u64) -> Vec<TenantVolume> {
    (1..=count)
        .map(|rank| volume(&format!("tenant-{rank:03}"), 1_000_000_000 / rank, 0))
        .collect()
}

#[test]
fn a_skewed_company_becomes_even_with_few_moves() {
    let proposal = propose(&zipf(200), 7, None);
    assert!(proposal.before.max_over_mean > 1.3, "{}", proposal.before.max_over_mean);
    assert!(proposal.after.max_over_mean <= 1.06, "{}", proposal.after.max_over_mean);
    assert!(proposal.moves.len() <= 20, "{}", proposal.moves.len());
    for step in &proposal.moves {
        assert!(!step.reason.is_empty());
        assert_eq!(
            proposal.placement.shards_of(&step.volume.tenant).unwrap_or(&step.to),
            step.to
        );
    }
    // Only moved tenants are in the table, and a second proposal changes nothing.
    assert_eq!(proposal.placement.tenants.len(), proposal.moves.len());
    let again = propose(&zipf(200), 7, Some(&proposal.placement));
    assert_eq!(again.moves, []);
    assert_eq!(again.placement, proposal.placement);
    assert_eq!(again.before, proposal.after);
}

#[test]
fn a_tenant_too_large_for_a_shard_gets_several() {
    let mut volumes = zipf(50);
    volumes.push(volume("giant", 5_000_000_000, 0));
    let proposal = propose(&volumes, 4, None);
    let step = &proposal.moves[0];
    assert_eq!(step.volume.tenant, "giant");
    assert_eq!(step.to.len(), 3);
    assert!(
        step.reason.contains("times what one of 4 shards carries"),
        "{}",
        step.reason
    );
    assert!(proposal.after.max_over_mean < proposal.before.max_over_mean / 1.9);

    // It loses them when it has shrunk.
    let mut volumes = zipf(50);
    volumes.push(volume("giant", 50_000_000, 0));
    let again = propose(&volumes, 4, Some(&proposal.placement));
    let place = again.placement.shards_of("giant");
    assert!(place.is_none_or(|shards| shards.len() == 1), "{place:?}");
}

#[test]
fn searches_count_as_much_as_bytes() {
    // Equal sizes, but all searches are of two tenants that share a shard.
    let mut names = (0..).map(|number| format!("t{number}"));
    let mut on = |shard: u32| names.find(|name| shard_for(name, 2) == shard).unwrap();
    let (a, b, c, d) = (on(0), on(0), on(1), on(1));
    let volumes = [
        volume(&a, 1000, 50_000_000),
        volume(&b, 1000, 50_000_000),
        volume(&c, 1000, 0),
        volume(&d, 1000, 0),
    ];
    let proposal = propose(&volumes, 2, None);
    assert_eq!(proposal.before.max_over_mean, 1.5);
    assert_eq!(proposal.before.bytes_max_over_mean, 1.0);
    assert_eq!(proposal.before.search_max_over_mean, 2.0);
    assert_eq!(proposal.after.search_max_over_mean, 1.0);
    assert_eq!(proposal.weighed_by, "by bytes and search time");
    assert!(proposal.moves[0].reason.contains("by bytes and search time"));
}

#[test]
fn a_few_searches_after_a_start_move_no_tenant() {
    let mut volumes = zipf(20);
    let without_searches = propose(&volumes, 4, None);
    volumes[19].search_cost = 9_999_999;
    let with_few_searches = propose(&volumes, 4, None);
    assert_eq!(with_few_searches.placement, without_searches.placement);
    assert_eq!(with_few_searches.before.shards.len(), 4);
    assert_eq!(
        with_few_searches.weighed_by,
        "by bytes: searches took 10.0 s since the start, and count from 10 s on"
    );
    volumes[19].search_cost = 10_000_000;
    assert_ne!(propose(&volumes, 4, None).placement, without_searches.placement);
}

#[test]
fn a_small_tenant_is_not_spread_by_many_searches() {
    let mut volumes: Vec<TenantVolume> = (0..20)
        .map(|number| volume(&format!("t{number}"), 1_000_000, 0))
        .collect();
    volumes.push(volume("searched", 1000, 60_000_000));
    let proposal = propose(&volumes, 4, None);
    let place = proposal.placement.shards_of("searched");
    assert!(place.is_none_or(|shards| shards.len() == 1), "{place:?}");

    // A tenant with a third of all bytes gets as many shards as its bytes fill.
    volumes[20] = volume("searched", 10_000_000, 600_000_000);
    let proposal = propose(&volumes, 4, None);
    let step = &proposal.moves[0];
    assert_eq!((step.volume.tenant.as_str(), step.to.len()), ("searched", 3));
    assert!(step.reason.contains("by bytes and search time"), "{}", step.reason);
}

#[test]
fn nothing_measured_moves_nothing() {
    assert_eq!(propose(&[], 4, None).moves, []);
    let present = Placement {
        number_of_shards: 4,
        tenants: BTreeMap::from([("placed".to_owned(), vec![2])]),
    };
    let proposal = propose(&[], 4, Some(&present));
    assert_eq!(proposal.placement, present);
    // A table for another number of shards is ignored.
    assert_eq!(propose(&[], 5, Some(&present)).placement.tenants, BTreeMap::new());
}

fn volumes() -> impl Strategy<Value = Vec<TenantVolume>> {
    let one = (0u64..1_000_000_000, 0u64..4, 0u64..2_000_000).prop_map(|(bytes, scale, searches)| {
        // Some are orders of magnitude larger than others.
        (bytes >> (scale * 7), searches >> (scale * 4))
    });
    prop::collection::vec(one, 0..80).prop_map(|list| {
        list.into_iter()
            .enumerate()
            .map(|(number, (bytes, searches))| volume(&format!("t{number}"), bytes, searches))
            .collect()
    })
}

fn table(number_of_shards: u32) -> impl Strategy<Value = Option<Placement>> {
    let place = prop::collection::btree_set(0..number_of_shards, 1..=number_of_shards as usize);
    prop::option::of(prop::collection::btree_map(0u32..80, place, 0..20)).prop_map(move |table| {
        table.map(|tenants| Placement {
            number_of_shards,
            tenants: tenants
                .into_iter()
                .map(|(tenant, shards)| (format!("t{tenant}"), shards.into_iter().collect()))
                .collect(),
        })
    })
}

fn question() -> impl Strategy<Value = (u32, Vec<TenantVolume>, Option<Placement>)> {
    (2u32..12).prop_flat_map(|shards| (Just(shards), volumes(), table(shards)))
}

proptest! {
    /// For all inputs: the fullest shard becomes no fuller, moves are few, the table is valid, and the order of the
    /// volumes does not matter.
    #[test]
    fn proposals_never_harm((shards, volumes, present) in question()) {
        let proposal = propose(&volumes, shards, present.as_ref());
        prop_assert!(proposal.after.max_over_mean <= proposal.before.max_over_mean + 1e-6);
        prop_assert!(proposal.moves.len() <= 16.max(volumes.len() / 10));
        let printed = proposal.placement.print();
        prop_assert_eq!(&Placement::parse(&printed).unwrap(), &proposal.placement);
        for step in &proposal.moves {
            prop_assert_ne!(&step.from, &step.to);
            prop_assert!(!step.reason.is_empty());
        }
        let reversed: Vec<TenantVolume> = volumes.iter().rev().cloned().collect();
        prop_assert_eq!(propose(&reversed, shards, present.as_ref()), proposal.clone());

        // The proposed balance is that of the resulting table.
        let again = propose(&volumes, shards, Some(&proposal.placement));
        prop_assert!((again.before.max_over_mean - proposal.after.max_over_mean).abs() < 1e-6);
    }
}
