//! `ip_prefix` aggregation: a bucket per network of a given size.

use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::finish::Finisher;
use super::finished::{Buckets, FinishedBucket, Keys};
use super::ip_range::print_address;
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, Aggregations, Bucket, KeyBytes, TermsPartial};

pub(super) const NAME: &str = "ip_prefix";

/// `ip_prefix`.
#[derive(Debug, Clone, PartialEq)]
pub struct IpPrefix {
    /// Full path.
    pub field: String,
    /// Network bits.
    pub prefix_length: u32,
    /// Address family; addresses of the other family are in no bucket.
    pub is_ipv6: bool,
    /// Print the key as `10.0.0.0/8` instead of `10.0.0.0`.
    pub append_prefix_length: bool,
    /// Return buckets as an object by key.
    pub keyed: bool,
    /// Minimum documents of a bucket (default 1).
    pub min_doc_count: u64,
    /// Value of documents without the field.
    pub missing: Option<Value>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut length = None;
    let mut prefix = IpPrefix {
        field: String::new(),
        prefix_length: 0,
        is_ipv6: false,
        append_prefix_length: false,
        keyed: false,
        min_doc_count: 1,
        missing: None,
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "prefix_length" => length = Some(parse::number(request, NAME, key, value, i64::MIN)? as i64),
            "is_ipv6" => prefix.is_ipv6 = parse::flag(NAME, key, value)?,
            "append_prefix_length" => prefix.append_prefix_length = parse::flag(NAME, key, value)?,
            "keyed" => prefix.keyed = parse::flag(NAME, key, value)?,
            "min_doc_count" => prefix.min_doc_count = parse::number(request, NAME, key, value, 1)?,
            "missing" => prefix.missing = Some(parse::scalar(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    prefix.field = parse::required_field(field)?;
    let length =
        length.ok_or_else(|| Error::illegal_argument(format!("Required [prefix_length] in [{}]", request.name)))?;
    let most = if prefix.is_ipv6 { 128 } else { 32 };
    prefix.prefix_length = u32::try_from(length)
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| {
            Error::illegal_argument(format!(
                "[prefix_length] must be in range [0, {most}] while value is [{length}]"
            ))
        })?;
    Ok(AggregationKind::IpPrefix(prefix))
}

impl IpPrefix {
    /// Returns the network of an address, given as IPv6 with IPv4 addresses mapped; `None`: the address is of the other
    /// family.
    pub fn network(&self, bits: u128) -> Option<u128> {
        let is_ipv4 = bits >> 32 == 0xffff;
        if is_ipv4 == self.is_ipv6 {
            return None;
        }
        let length = if self.is_ipv6 {
            self.prefix_length
        } else {
            96 + self.prefix_length
        };
        Some(bits & !u128::MAX.checked_shr(length).unwrap_or(0))
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("prefix_length".into(), json!(self.prefix_length));
        for (name, flag) in [
            ("is_ipv6", self.is_ipv6),
            ("append_prefix_length", self.append_prefix_length),
            ("keyed", self.keyed),
        ] {
            parse::put_flag(&mut body, name, flag);
        }
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        parse::put(&mut body, "missing", self.missing.as_ref());
        Value::Object(body)
    }
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    prefix: &IpPrefix,
    sub: &Aggregations,
    partial: TermsPartial,
) -> Result<Buckets> {
    let found = partial.buckets.into_iter();
    let mut found: Vec<(KeyBytes, Bucket)> = found
        .filter(|(_, bucket)| bucket.doc_count >= prefix.min_doc_count)
        .collect();
    finisher.count(found.len())?;
    found.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    let mut buckets = Vec::with_capacity(found.len());
    for (key, bucket) in found {
        let KeyBytes::Ip(bits) = key else {
            return Err(Error::internal("a network is not an address"));
        };
        let mut text = print_address(bits);
        if prefix.append_prefix_length {
            text.push_str(&format!("/{}", prefix.prefix_length));
        }
        let mut after = vec![("prefix_length", prefix.prefix_length.into())];
        if !prefix.is_ipv6 {
            let mask = u32::MAX.checked_shl(32 - prefix.prefix_length).unwrap_or(0);
            after.push(("netmask", std::net::Ipv4Addr::from_bits(mask).to_string().into()));
        }
        buckets.push(FinishedBucket {
            key: text.into(),
            before: vec![("is_ipv6", prefix.is_ipv6.into())],
            doc_count: bucket.doc_count,
            after,
            sub: finisher.level(sub, bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    Ok(Buckets {
        type_name: NAME,
        head: Vec::new(),
        tail: Vec::new(),
        keyed: prefix.keyed,
        keys: if prefix.keyed { Keys::Hidden } else { Keys::KeyFirst },
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"ip_prefix": {"field": "ip", "prefix_length": 24}}}));
        check_round_trip(json!({"x": {"ip_prefix": {
            "field": "ip", "prefix_length": 64, "is_ipv6": true, "append_prefix_length": true, "keyed": true,
            "min_doc_count": 2, "missing": "::1"
        }, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"ip_prefix": body}}), error);
        check(json!({"field": "ip"}), "Required [prefix_length] in [x]");
        check(
            json!({"field": "ip", "prefix_length": 33}),
            "[prefix_length] must be in range [0, 32] while value is [33]",
        );
        check(
            json!({"field": "ip", "prefix_length": -1, "is_ipv6": true}),
            "[prefix_length] must be in range [0, 128] while value is [-1]",
        );
        check(
            json!({"prefix_length": 3}),
            "Required one of fields [field, script], but none were specified. ",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"ip_prefix": {"field": "ip", "prefix_length": 24}}}),
            &["ip"],
        );
    }
}
