//! `include` by partition: the partition of a key. It uses the hashes of Elasticsearch, so that a client that
//! iterates over the partitions finds the same keys in the same partition.

use firn_model::routing::murmur3;
use firn_segment::columns::column::{NumColumn, Number};
use firn_segment::schema;

/// Elasticsearch's seed for the hash of terms.
const SEED: u32 = 31;

/// One of `count` partitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    pub(super) partition: u32,
    pub(super) count: u32,
}

impl Partition {
    /// Returns whether a stored string is in it; addresses are hashed as their 16 bytes.
    pub(super) fn holds_text(self, text: &str, is_ip: bool) -> bool {
        let hash = match is_ip.then(|| schema::decode_ip(text)).flatten() {
            Some(std::net::IpAddr::V4(v4)) => murmur3(&v4.to_ipv6_mapped().octets(), SEED),
            Some(std::net::IpAddr::V6(v6)) => murmur3(&v6.octets(), SEED),
            None => murmur3(text.as_bytes(), SEED),
        };
        i64::from(hash as i32).rem_euclid(self.count.into()) == i64::from(self.partition)
    }

    /// Returns whether a raw value of a column is in it; floats are hashed by their sortable bits.
    pub(super) fn holds_raw(self, column: &NumColumn, raw: u64) -> bool {
        let value = match column.number(raw) {
            Number::Int(value) => value as i64,
            Number::Float(value) => {
                let bits = value.to_bits() as i64;
                bits ^ ((bits >> 63) & i64::MAX)
            }
        };
        self.holds_number(value)
    }

    fn holds_number(self, value: i64) -> bool {
        (mix(value as u64) as i64).rem_euclid(self.count.into()) == i64::from(self.partition)
    }
}

/// Mixes 64 bits like Elasticsearch's hash of numbers (`BitMixer.mix64`).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0x4cd6_944c_5cc2_0b6d);
    let value = (value ^ (value >> 29)).wrapping_mul(0xfc12_c5b1_9d32_59e9);
    value ^ (value >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of OpenSearch 3.6.0 for these keys.
    #[test]
    fn keys_fall_into_the_parts_of_elasticsearch() {
        let part = |partition, count| Partition { partition, count };
        let numbers: Vec<i64> = (1..8)
            .map(|number| number * 10)
            .filter(|number| part(0, 3).holds_number(*number))
            .collect();
        assert_eq!(numbers, [40, 50, 60]);
        let texts: Vec<&str> = ["k0", "k1", "k2"]
            .into_iter()
            .filter(|text| part(1, 2).holds_text(text, false))
            .collect();
        assert_eq!(texts, ["k2"]);
    }
}
