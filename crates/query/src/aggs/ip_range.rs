//! `ip_range` aggregation: a bucket per address range.

use std::net::{IpAddr, Ipv6Addr};

use firn_model::{Error, Result};
use serde_json::Value;

use super::finish::Finisher;
use super::finished::Buckets;
use super::parse::Request;
use super::ranges::{RangeSpec, Ranges, Row, answer_rows};
use super::{AggregationKind, Aggregations, ListedPartial};

pub(super) const NAME: &str = "ip_range";

/// Addresses from the first (included) to the second (excluded), as IPv6 with IPv4 addresses mapped; `None`: open.
pub type IpBounds = (Option<u128>, Option<u128>);

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let ranges = Ranges::parse(request, NAME, &[])?;
    ranges.ip_bounds()?;
    Ok(AggregationKind::IpRange(ranges))
}

impl Ranges {
    /// Returns the bounds of the ranges.
    pub fn ip_bounds(&self) -> Result<Vec<IpBounds>> {
        self.ranges.iter().map(bounds).collect()
    }
}

fn bounds(spec: &RangeSpec) -> Result<IpBounds> {
    let Some(mask) = &spec.mask else {
        return Ok((address(&spec.from)?, address(&spec.to)?));
    };
    if !spec.from.is_null() || !spec.to.is_null() {
        return Err(Error::illegal_argument(
            "an [ip_range] has either [from] and [to] or a [mask]",
        ));
    }
    let (address, length) = mask
        .split_once('/')
        .ok_or_else(|| Error::illegal_argument(format!("Expected [ip/prefix] but was [{mask}]")))?;
    let wrong = || Error::illegal_argument(format!("'{mask}' is not an IP block"));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u32 = length.parse().map_err(|_| wrong())?;
    // The bits of an IPv4 block are at the end of the mapped address.
    let (length, bits) = match address {
        IpAddr::V4(v4) if length <= 32 => (length + 96, v4.to_ipv6_mapped().to_bits()),
        IpAddr::V6(v6) if length <= 128 => (length, v6.to_bits()),
        _ => return Err(wrong()),
    };
    let host_bits = u128::MAX.checked_shr(length).unwrap_or(0);
    Ok((Some(bits & !host_bits), (bits | host_bits).checked_add(1)))
}

fn address(value: &Value) -> Result<Option<u128>> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.as_str(),
        _ => "",
    };
    match text.parse() {
        Ok(IpAddr::V4(v4)) => Ok(Some(v4.to_ipv6_mapped().to_bits())),
        Ok(IpAddr::V6(v6)) => Ok(Some(v6.to_bits())),
        Err(_) => Err(Error::illegal_argument(format!(
            "'{}' is not an IP string literal.",
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        ))),
    }
}

/// Returns the address of a bound, as IPv4 if it is mapped.
pub fn address_of(bits: u128) -> IpAddr {
    Ipv6Addr::from_bits(bits).to_canonical()
}

pub(super) fn print_address(bits: u128) -> String {
    match address_of(bits) {
        // Java never prints the mixed notation that Rust uses for some addresses.
        IpAddr::V6(v6) => print_groups(v6),
        v4 => v4.to_string(),
    }
}

/// Prints groups of four digits and shortens the longest run of two or more zero groups.
fn print_groups(address: Ipv6Addr) -> String {
    let groups = address.segments();
    let (mut start, mut length) = (0, 1);
    for first in 0..groups.len() {
        let zeros = groups[first..].iter().take_while(|group| **group == 0).count();
        if zeros > length {
            (start, length) = (first, zeros);
        }
    }
    let text = |groups: &[u16]| {
        let texts: Vec<String> = groups.iter().map(|group| format!("{group:x}")).collect();
        texts.join(":")
    };
    if length < 2 {
        return text(&groups);
    }
    format!("{}::{}", text(&groups[..start]), text(&groups[start + length..]))
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    ranges: &Ranges,
    sub: &Aggregations,
    mut partial: ListedPartial,
) -> Result<Buckets> {
    let bounds = ranges.ip_bounds()?;
    let buckets = partial.take_buckets(bounds.len());
    let mut ordered: Vec<_> = bounds.iter().zip(&ranges.ranges).zip(buckets).collect();
    // An open end sorts after every address, an open start before.
    let rank = |bounds: &IpBounds| (bounds.0, bounds.1.is_none(), bounds.1);
    ordered.sort_by_key(|((bounds, _), _)| rank(bounds));
    let mut rows = Vec::with_capacity(ordered.len());
    for (((from, to), spec), bucket) in ordered {
        let mut printed = Vec::new();
        for (name, bound) in [("from", from), ("to", to)] {
            if let Some(bits) = bound {
                printed.push((name, print_address(*bits).into()));
            }
        }
        let side = |bound: &Option<u128>| bound.map_or_else(|| "*".to_owned(), print_address);
        let key = spec.key.clone().or_else(|| spec.mask.clone());
        rows.push(Row {
            key: key.unwrap_or_else(|| format!("{}-{}", side(from), side(to))),
            bounds: printed,
            bucket,
        });
    }
    answer_rows(finisher, NAME, ranges, sub, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggs::Partials;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"ip_range": {
            "field": "ip", "keyed": true,
            "ranges": [{"mask": "10.0.0.0/25"}, {"from": "::1", "to": "10.0.0.5", "key": "k"}, {"mask": "2001:db8::/32"}]
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |range: Value, error: &str| {
            check_refused(json!({"x": {"ip_range": {"field": "ip", "ranges": [range]}}}), error);
        };
        check(json!({"mask": "zz"}), "Expected [ip/prefix] but was [zz]");
        check(json!({"mask": "10.0.0.0/33"}), "'10.0.0.0/33' is not an IP block");
        check(json!({"from": "zz"}), "'zz' is not an IP string literal.");
        check(json!({"to": 7}), "'7' is not an IP string literal.");
        check(
            json!({"to": "::1", "mask": "::/8"}),
            "an [ip_range] has either [from] and [to] or a [mask]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"ip_range": {"field": "ip", "ranges": [{}]}}}), &["ip"]);
    }

    #[test]
    fn answers_in_the_order_of_addresses() {
        let aggregations = parsed(json!({"x": {"ip_range": {"field": "ip", "ranges": [
            {"mask": "10.0.0.77/30"}, {"from": "10.0.0.2"}, {"to": "10.0.0.3"}, {"from": "10.0.0.2", "to": "10.0.0.5"},
            {"mask": "0.0.0.0/0"}, {"mask": "::/0", "key": "everything"}
        ]}}}));
        assert_eq!(
            aggregations.finish(Partials::default(), 10).unwrap()["x"]["buckets"],
            json!([
                {"key": "*-10.0.0.3", "to": "10.0.0.3", "doc_count": 0},
                {"key": "everything", "from": "::", "doc_count": 0},
                {"key": "0.0.0.0/0", "from": "0.0.0.0", "to": "::1:0:0:0", "doc_count": 0},
                {"key": "10.0.0.2-10.0.0.5", "from": "10.0.0.2", "to": "10.0.0.5", "doc_count": 0},
                {"key": "10.0.0.2-*", "from": "10.0.0.2", "doc_count": 0},
                {"key": "10.0.0.77/30", "from": "10.0.0.76", "to": "10.0.0.80", "doc_count": 0}
            ])
        );
    }
}
