//! Packing of tenants on shards.

use std::collections::BTreeMap;

use firn_model::placement::{Placement, TENANTS_MAX};
use firn_model::routing::shard_for;

use super::balance::{SEARCH_COST_MIN, Shares, measure, shares};
use super::{Move, Proposal, TenantVolume};

/// Load of a tenant, in shards of mean load, from which it is spread over several shards: on one shard, that shard
/// would always be the fullest.
const SPLIT_FROM: f64 = 1.1;
/// A spread tenant does not change while each of its parts is at least this heavy.
const PART_MIN: f64 = 0.4;
/// Minimum bytes of a tenant on each of its shards, in shards of mean bytes, independent of its searches: with little
/// data to read, several shards are slower than one.
const PART_BYTES_MIN: f64 = 0.4;
/// Shards with this balance or better do not change.
const EVEN_ENOUGH: f64 = 1.05;
/// Minimum gain of a move for the fullest shard, in shards of mean load: the cost of moving a tenant.
const GAIN_MIN: f64 = 0.01;
/// Maximum moves of one proposal: this number, or one in [`MOVES_DIVISOR`] of the tenants if that is more.
const MOVES_MIN: usize = 16;
/// See [`MOVES_MIN`].
const MOVES_DIVISOR: usize = 10;

/// Proposes a placement for indices of `number_of_shards` shards, 2 or more. `present` is used only if it is for the
/// same number. The order of the volumes does not change the result.
pub fn propose(volumes: &[TenantVolume], number_of_shards: u32, present: Option<&Placement>) -> Proposal {
    let mut volumes = volumes.to_vec();
    volumes.sort_by(|left, right| left.tenant.cmp(&right.tenant));
    volumes.dedup_by(|left, right| left.tenant == right.tenant);
    let present = present.filter(|table| table.number_of_shards == number_of_shards);
    let shares = shares(&volumes);
    let before: Vec<Vec<u32>> = volumes
        .iter()
        .map(
            |volume| match present.and_then(|table| table.shards_of(&volume.tenant)) {
                Some(shards) => shards.to_vec(),
                None => vec![shard_for(&volume.tenant, number_of_shards)],
            },
        )
        .collect();
    let mut packing = Packing::new(&volumes, &shares, before.clone(), number_of_shards, present);
    packing.resize_large_tenants();
    packing.even_out();

    let mut moves = Vec::new();
    for (tenant, from) in before.iter().enumerate() {
        let to = &packing.places[tenant];
        if to != from {
            moves.push(Move {
                volume: volumes[tenant].clone(),
                share: shares.load[tenant],
                from: from.clone(),
                to: to.clone(),
                reason: packing.reasons.remove(&tenant).unwrap_or_default(),
            });
        }
    }
    moves.sort_by(|left, right| {
        let by_share = right.share.total_cmp(&left.share);
        by_share.then_with(|| left.volume.tenant.cmp(&right.volume.tenant))
    });
    Proposal {
        before: measure(&volumes, &shares.load, &before, number_of_shards),
        after: measure(&volumes, &shares.load, &packing.places, number_of_shards),
        weighed_by: weighed_by(&volumes, &shares),
        placement: packing.table(),
        moves,
    }
}

fn weighed_by(volumes: &[TenantVolume], shares: &Shares) -> String {
    let sum: f64 = volumes.iter().map(|volume| volume.search_cost as f64).sum();
    let seconds = |cost: f64| cost / 1e6;
    match sum < SEARCH_COST_MIN as f64 {
        true => format!(
            "{}: searches took {:.1} s since the start, and count from {:.0} s on",
            shares.by,
            seconds(sum),
            seconds(SEARCH_COST_MIN as f64)
        ),
        false => shares.by.to_owned(),
    }
}

/// State of the packing: tenants on shards.
struct Packing<'a> {
    volumes: &'a [TenantVolume],
    shares: &'a Shares,
    /// Shards of each tenant, ascending.
    places: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// Load of each shard, in shards of mean load.
    loads: Vec<f64>,
    /// Reasons of the moves, by tenant.
    reasons: BTreeMap<usize, String>,
    present: Option<&'a Placement>,
    moves_max: usize,
}

impl<'a> Packing<'a> {
    fn new(
        volumes: &'a [TenantVolume],
        shares: &'a Shares,
        places: Vec<Vec<u32>>,
        number_of_shards: u32,
        present: Option<&'a Placement>,
    ) -> Self {
        let mut packing = Self {
            volumes,
            shares,
            before: places.clone(),
            places,
            loads: vec![0.0; number_of_shards as usize],
            reasons: BTreeMap::new(),
            present,
            moves_max: MOVES_MIN.max(volumes.len() / MOVES_DIVISOR),
        };
        packing.weigh();
        packing
    }

    fn shard_count(&self) -> usize {
        self.loads.len()
    }

    /// Returns a tenant's load, in shards of mean load.
    fn load(&self, tenant: usize) -> f64 {
        self.shares.load[tenant] * self.shard_count() as f64
    }

    /// Returns a tenant's bytes, in shards of mean bytes.
    fn bytes(&self, tenant: usize) -> f64 {
        self.shares.bytes[tenant] * self.shard_count() as f64
    }

    /// Recomputes the loads: sums that are only updated would drift.
    fn weigh(&mut self) {
        self.loads.fill(0.0);
        for tenant in 0..self.places.len() {
            let part = self.load(tenant) / self.places[tenant].len() as f64;
            for number in &self.places[tenant] {
                self.loads[*number as usize] += part;
            }
        }
    }

    fn fullest_load(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// Gives several shards to tenants that are too heavy for one, and takes shards from those that need fewer. The
    /// heaviest are placed first, as long as no shard becomes fuller than the fullest shard was.
    fn resize_large_tenants(&mut self) {
        let mut large: Vec<usize> = (0..self.places.len())
            .filter(|tenant| self.load(*tenant) > SPLIT_FROM || self.places[*tenant].len() > 1)
            .collect();
        large.sort_by(|left, right| self.load(*right).total_cmp(&self.load(*left)));
        for tenant in large {
            let load = self.load(tenant);
            let have = self.places[tenant].len();
            let part = load / have as f64;
            if part <= SPLIT_FROM && (have == 1 || part >= PART_MIN) {
                continue;
            }
            let by_bytes = (self.bytes(tenant) / PART_BYTES_MIN).floor();
            let wanted = (load.ceil().min(by_bytes) as usize).clamp(1, self.shard_count());
            if wanted == have || !self.may_move(tenant) {
                continue;
            }
            let fullest = self.fullest_load();
            let old = self.places[tenant].clone();
            self.places[tenant] = self.choose(tenant, wanted);
            self.weigh();
            // The tolerance allows for rounding.
            if self.fullest_load() > fullest + 1e-9 {
                self.places[tenant] = old;
                self.weigh();
                continue;
            }
            let reason = format!(
                "it is {load:.2} times what one of {} shards carries on average {}, so it gets {wanted} of them instead of \
                 {have}",
                self.shard_count(),
                self.shares.by
            );
            self.reasons.insert(tenant, reason);
        }
    }

    /// Chooses shards for a tenant: its present ones first, then the emptiest.
    fn choose(&self, tenant: usize, wanted: usize) -> Vec<u32> {
        let own = &self.places[tenant];
        let part = self.load(tenant) / own.len() as f64;
        let mut order: Vec<(bool, f64, u32)> = (0..self.shard_count() as u32)
            .map(|number| {
                let is_own = own.contains(&number);
                let others = self.loads[number as usize] - if is_own { part } else { 0.0 };
                (!is_own, others, number)
            })
            .collect();
        order.sort_by(|left, right| {
            let by_load = left.1.total_cmp(&right.1);
            left.0.cmp(&right.0).then(by_load).then(left.2.cmp(&right.2))
        });
        let mut chosen: Vec<u32> = order.into_iter().take(wanted).map(|(_, _, number)| number).collect();
        chosen.sort_unstable();
        chosen
    }

    /// Moves tenants from the fullest shard to the emptiest, one at a time, while the gain is large enough.
    fn even_out(&mut self) {
        while self.fullest_load() > EVEN_ENOUGH {
            let Some((tenant, from, to)) = self.best_move() else {
                return;
            };
            let reason = format!(
                "shard {from} carried {:.2} times the average {} and shard {to} {:.2} times: it takes {:.2} from one to the \
                 other",
                self.loads[from as usize],
                self.shares.by,
                self.loads[to as usize],
                self.load(tenant)
            );
            self.reasons.entry(tenant).or_insert(reason);
            self.places[tenant] = vec![to];
            self.weigh();
        }
    }

    /// Returns the tenant whose move minimizes the fuller of the two shards; of equals the heaviest, then the first by
    /// name. `None`: no move gains enough.
    fn best_move(&self) -> Option<(usize, u32, u32)> {
        let by_load = |left: &usize, right: &usize| self.loads[*left].total_cmp(&self.loads[*right]);
        // Of equally full shards the first, and of equally empty ones too.
        let from = (0..self.shard_count()).rev().max_by(by_load)?;
        let to = (0..self.shard_count()).min_by(by_load)?;
        let (from_load, to_load) = (self.loads[from], self.loads[to]);
        let mut best: Option<(f64, f64, usize)> = None;
        for tenant in 0..self.places.len() {
            if self.places[tenant] != [from as u32] || !self.may_move(tenant) {
                continue;
            }
            let load = self.load(tenant);
            let fuller = (from_load - load).max(to_load + load);
            if from_load - fuller < GAIN_MIN {
                continue;
            }
            let better = best.is_none_or(|(least, heaviest, _)| {
                fuller < least - 1e-12 || (fuller <= least + 1e-12 && load > heaviest)
            });
            if better {
                best = Some((fuller, load, tenant));
            }
        }
        best.map(|(_, _, tenant)| (tenant, from as u32, to as u32))
    }

    /// Whether a tenant may move: the moves and the size of the table are limited.
    fn may_move(&self, tenant: usize) -> bool {
        let differs = |tenant: &usize| self.places[*tenant] != self.before[*tenant];
        if differs(&tenant) {
            return true;
        }
        let moved = (0..self.places.len()).filter(differs).count();
        let listed = self
            .present
            .is_some_and(|table| table.tenants.contains_key(&self.volumes[tenant].tenant));
        let table_size = self.present.map_or(0, |table| table.tenants.len()) + moved;
        moved < self.moves_max && (listed || table_size < TENANTS_MAX)
    }

    /// Returns the tenants that are not on the shard of their hash. Tenants of the present table without measurements
    /// stay where they are.
    fn table(&self) -> Placement {
        let number_of_shards = self.shard_count() as u32;
        let mut tenants = self.present.map(|table| table.tenants.clone()).unwrap_or_default();
        for (volume, place) in self.volumes.iter().zip(&self.places) {
            if *place == [shard_for(&volume.tenant, number_of_shards)] {
                tenants.remove(&volume.tenant);
            } else {
                tenants.insert(volume.tenant.clone(), place.clone());
            }
        }
        Placement {
            number_of_shards,
            tenants,
        }
    }
}
