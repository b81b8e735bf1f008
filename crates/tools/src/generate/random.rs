//! Random numbers of the generator: fast, and the same bytes for the same seed in every version.

/// Wyrand, implemented here so that an update of a library cannot change the output of a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6669_726e))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// Returns 0 to `bound` - 1; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// As [`below`](Self::below), but small numbers far more often: half of them in the first quarter.
    #[inline]
    pub(crate) fn skewed(&mut self, bound: usize) -> usize {
        let part = self.next();
        let squared = (u128::from(part) * u128::from(part)) >> 64;
        ((squared * bound as u128) >> 64) as usize
    }

    /// Returns 0 to `bound` - 1 by a Zipf law: the n-th number is drawn a n-th as often as the first one. 0 if `bound`
    /// is 0.
    #[inline]
    pub(crate) fn zipf(&mut self, bound: u64) -> u64 {
        let bound = bound.max(1);
        let octaves = u64::from(64 - bound.leading_zeros());
        loop {
            // Each octave of ranks is equally frequent; inside, the rejection gives a rank its frequency.
            let first = 1_u64 << self.below(octaves);
            let rank = first + self.below(first);
            if rank <= bound && self.below(rank) < first {
                return rank - 1;
            }
        }
    }

    /// Returns true in `percent` of 100 cases.
    #[inline]
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a number from `min` to `max`; each power of two above `min` is equally frequent.
    #[inline]
    pub(crate) fn logarithmic(&mut self, min: u64, max: u64) -> u64 {
        let span = max.saturating_sub(min);
        let bits = self.below(u64::from(64 - span.leading_zeros()) + 1);
        let value = self.next() & ((1_u64 << bits.min(63)) - 1);
        min + if value > span { value % (span + 1) } else { value }
    }
}

/// A good hash of one number.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
