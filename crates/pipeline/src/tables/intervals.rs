//! Ranges of addresses and of numbers, and which of them hold a value.

use std::net::IpAddr;

use serde_json::Value;

use super::enrich::address;

/// Ranges of addresses and of numbers, each with the place of its record.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    addresses: Sorted<u128>,
    numbers: Sorted<u64>,
}

/// Inclusive ranges, sorted by their starts; with each, the highest end up to it.
#[derive(Debug)]
struct Sorted<K> {
    ranges: Vec<Range<K>>,
}

#[derive(Debug, Clone, Copy)]
struct Range<K> {
    start: K,
    end: K,
    highest_end: K,
    place: u32,
}

impl<K> Default for Sorted<K> {
    fn default() -> Self {
        Self { ranges: Vec::new() }
    }
}

impl<K: Ord + Copy> Sorted<K> {
    fn add(&mut self, start: K, end: K, place: u32) -> bool {
        if start > end {
            return false;
        }
        self.ranges.push(Range {
            start,
            end,
            highest_end: end,
            place,
        });
        true
    }

    fn sort(&mut self) {
        self.ranges.sort_by_key(|range| (range.start, range.end));
        let mut highest = None;
        for range in &mut self.ranges {
            range.highest_end = highest.map_or(range.end, |highest: K| highest.max(range.end));
            highest = Some(range.highest_end);
        }
    }

    fn find(&self, key: K, places: &mut Vec<u32>) {
        let starts = self.ranges.partition_point(|range| range.start <= key);
        for range in self.ranges[..starts].iter().rev() {
            if range.highest_end < key {
                return;
            }
            if range.end >= key {
                places.push(range.place);
            }
        }
    }
}

impl Intervals {
    /// Adds a range; false if the value is none.
    pub(super) fn add(&mut self, value: &Value, place: u32) -> bool {
        if let Some(text) = value.as_str() {
            return block(text).is_some_and(|(start, end)| self.addresses.add(start, end, place));
        }
        let Some(bounds) = value.as_object() else { return false };
        let (mut start, mut end) = (None, None);
        for (name, bound) in bounds {
            match name.as_str() {
                "gte" | "gt" => start = Some((bound, name == "gt")),
                "lte" | "lt" => end = Some((bound, name == "lt")),
                _ => return false,
            }
        }
        let bounds = [start, end];
        let is_of_addresses = bounds
            .iter()
            .flatten()
            .any(|(bound, _)| key_of_address(bound).is_some());
        if is_of_addresses {
            let start = edge(start, 0, key_of_address, |key| key.checked_add(1));
            let end = edge(end, u128::MAX, key_of_address, |key| key.checked_sub(1));
            return matches!((start, end), (Some(start), Some(end)) if self.addresses.add(start, end, place));
        }
        let start = edge(start, 0, key_of_number, |key| key.checked_add(1));
        let end = edge(end, u64::MAX, key_of_number, |key| key.checked_sub(1));
        matches!((start, end), (Some(start), Some(end)) if bounds.iter().flatten().count() > 0 && self.numbers.add(start, end, place))
    }

    pub(super) fn sort(&mut self) {
        self.addresses.sort();
        self.numbers.sort();
    }

    /// Adds the places of the ranges that hold a value.
    pub(super) fn find(&self, value: &Value, places: &mut Vec<u32>) {
        if let Some(key) = key_of_address(value) {
            return self.addresses.find(key, places);
        }
        if let Some(key) = key_of_number(value) {
            self.numbers.find(key, places);
        }
    }
}

/// Returns a bound as an inclusive one; a missing bound is `open`.
fn edge<K: Copy>(
    bound: Option<(&Value, bool)>,
    open: K,
    key_of: impl Fn(&Value) -> Option<K>,
    exclude: impl Fn(K) -> Option<K>,
) -> Option<K> {
    match bound {
        None => Some(open),
        Some((value, false)) => key_of(value),
        Some((value, true)) => exclude(key_of(value)?),
    }
}

/// An address as a number: IPv4 as it is mapped into IPv6, so that both are in one order.
fn key_of_ip(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn key_of_address(value: &Value) -> Option<u128> {
    value.as_str().and_then(address).map(key_of_ip)
}

/// A number as one whose order is that of the numbers.
fn key_of_number(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.parse::<f64>().ok()?,
        value => value.as_f64()?,
    };
    if number.is_nan() {
        return None;
    }
    // Both zeros are one.
    let bits = (number + 0.0).to_bits();
    Some(match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    })
}

/// Returns the first and the last address of a block (`10.0.0.0/8`), or of one address.
fn block(text: &str) -> Option<(u128, u128)> {
    let Some((network, length)) = text.split_once('/') else {
        let key = key_of_ip(address(text)?);
        return Some((key, key));
    };
    let network = address(network)?;
    let length: u32 = length.parse().ok()?;
    let (bits, shift) = match network {
        IpAddr::V4(_) => (32, length),
        IpAddr::V6(_) => (128, length),
    };
    if shift > bits {
        return None;
    }
    let host_bits = bits - shift;
    let mask = match host_bits {
        128 => u128::MAX,
        host_bits => (1_u128 << host_bits) - 1,
    };
    let start = key_of_ip(network) & !mask;
    Some((start, start | mask))
}
