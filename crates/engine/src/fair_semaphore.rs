//! Shared limit that one holder cannot exhaust for all other holders.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// This part of the limit is reserved on top of it for small holders.
const BEYOND_PART: u64 = 8;

/// Amounts held under one limit, by holder.
///
/// Every holder may take until the limit is reached. Beyond it, another eighth of the limit is reserved for holders
/// that hold less than an equal part of that eighth. So a holder that fills the limit is refused, while holders of
/// small amounts are not. All holders together never hold more than nine eighths of the limit.
#[derive(Debug)]
pub struct FairSemaphore<K: Ord> {
    held: Mutex<Held<K>>,
    limit: u64,
}

#[derive(Debug)]
struct Held<K: Ord> {
    total: u64,
    /// Values are never 0.
    by_holder: BTreeMap<K, u64>,
}

/// Amount held by one holder; dropping it releases the amount.
#[derive(Debug)]
pub struct FairPermit<K: Ord + Clone> {
    shares: Arc<FairSemaphore<K>>,
    holder: K,
    amount: u64,
}

impl<K: Ord + Clone> FairSemaphore<K> {
    /// Creates shares with this limit.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::new(Held {
                total: 0,
                by_holder: BTreeMap::new(),
            }),
            limit,
        })
    }

    /// Returns an empty share of a holder.
    pub fn open(self: &Arc<Self>, holder: K) -> FairPermit<K> {
        FairPermit {
            shares: Arc::clone(self),
            holder,
            amount: 0,
        }
    }

    /// Returns a share of `amount`; if the limit refuses it, the error is the total held now.
    pub fn take(self: &Arc<Self>, holder: K, amount: u64) -> Result<FairPermit<K>, u64> {
        let mut share = self.open(holder);
        share.grow(amount).map(|()| share)
    }

    /// Returns the total held now.
    pub fn held(&self) -> u64 {
        self.held.lock().total
    }

    /// Returns the limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl<K: Ord> Held<K> {
    fn has_room(&self, holder: &K, amount: u64, limit: u64) -> bool {
        let after = self.total.saturating_add(amount);
        if after <= limit {
            return true;
        }
        let beyond = (limit / BEYOND_PART).max(1);
        let own = self.by_holder.get(holder).copied().unwrap_or(0);
        let holders = self.by_holder.len() as u64 + u64::from(own == 0);
        holders > 1 && own.saturating_add(amount) <= (beyond / holders).max(1) && after <= limit.saturating_add(beyond)
    }
}

impl<K: Ord + Clone> FairPermit<K> {
    /// Adds to the share; if the limit refuses it, the share stays unchanged and the error is the total held now.
    pub fn grow(&mut self, more: u64) -> Result<(), u64> {
        if more == 0 {
            return Ok(());
        }
        let mut held = self.shares.held.lock();
        if !held.has_room(&self.holder, more, self.shares.limit) {
            return Err(held.total);
        }
        held.total += more;
        *held.by_holder.entry(self.holder.clone()).or_default() += more;
        self.amount += more;
        Ok(())
    }

    /// Returns the held amount.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns an empty share of the same holder.
    pub fn sibling(&self) -> Self {
        self.shares.open(self.holder.clone())
    }

    /// Returns the shares that this one belongs to.
    pub fn of(&self) -> &FairSemaphore<K> {
        &self.shares
    }
}

impl<K: Ord + Clone> Drop for FairPermit<K> {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut held = self.shares.held.lock();
        held.total -= self.amount;
        if let Some(own) = held.by_holder.get_mut(&self.holder) {
            *own -= self.amount;
            if *own == 0 {
                held.by_holder.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_released_amounts_are_reusable() {
        let shares = FairSemaphore::new(100);
        let mut first = shares.take("a", 70).unwrap();
        assert_eq!(shares.take("a", 40).err(), Some(70));
        first.grow(30).unwrap();
        assert_eq!((first.grow(1), first.amount()), (Err(100), 100));
        drop(first);
        assert!(shares.take("a", 100).is_ok());
        assert_eq!(shares.held(), 0);
        assert!(shares.held.lock().by_holder.is_empty());
    }

    #[test]
    fn small_holders_get_the_reserve_beyond_the_limit() {
        let shares = FairSemaphore::new(1600);
        let _flood = shares.take(0, 1600).unwrap();
        assert!(shares.take(0, 1).is_err());
        let _light = [shares.take(1, 60).unwrap(), shares.take(1, 40).unwrap()];
        assert!(shares.take(1, 1).is_err(), "an eighth of the limit for two");
        let many: Vec<_> = (2..1000).filter_map(|holder| shares.take(holder, 5).ok()).collect();
        assert!((15..=20).contains(&many.len()), "{}", many.len());
        assert!(shares.held() <= 1800, "{}", shares.held());
    }
}
