//! What a segment holds of each tenant, as a file of its folder. Format: `docs/formats/shard.md`.
//!
//! A file and not a part of the commit point, because a shard may have tens of segments with
//! thousands of tenants each, and every flush writes the commit point anew.

use std::sync::Arc;

use crate::tenants::{SegmentTenants, TenantRows};

/// The file's name in a segment's folder.
pub(super) const TENANTS_FILE: &str = "tenants.bin";

/// First byte of the file.
const VERSION: u8 = 1;
const CLUSTERED: u8 = 1;

pub(super) fn encode(tenants: &SegmentTenants) -> Vec<u8> {
    let mut bytes = vec![VERSION, if tenants.clustered { CLUSTERED } else { 0 }];
    put_number(&mut bytes, tenants.without_tenant.into());
    put_number(&mut bytes, tenants.rows.len() as u64);
    for rows in &tenants.rows {
        put_number(&mut bytes, rows.tenant.len() as u64);
        bytes.extend_from_slice(rows.tenant.as_bytes());
        put_number(&mut bytes, rows.docs.into());
        put_number(&mut bytes, rows.rows.start.into());
        put_number(&mut bytes, (rows.rows.end - rows.rows.start).into());
        match rows.time_range_ms {
            None => bytes.push(0),
            Some((low, high)) => {
                bytes.push(1);
                bytes.extend_from_slice(&low.to_le_bytes());
                bytes.extend_from_slice(&high.to_le_bytes());
            }
        }
    }
    bytes
}

/// `None`: the bytes are no such file, or not that of a segment of `docs` documents.
pub(super) fn decode(bytes: &[u8], docs: u32) -> Option<SegmentTenants> {
    let mut reader = Reader { rest: bytes };
    if reader.byte()? != VERSION {
        return None;
    }
    let clustered = reader.byte()? & CLUSTERED != 0;
    let without_tenant = reader.small()?;
    let count = reader.small()?;
    let mut rows: Vec<TenantRows> = Vec::new();
    for _ in 0..count {
        let len = reader.small()?;
        let tenant: Arc<str> = std::str::from_utf8(reader.take(len as usize)?).ok()?.into();
        let own = reader.small()?;
        let start = reader.small()?;
        let end = start.checked_add(reader.small()?).filter(|end| *end <= docs)?;
        let time_range_ms = match reader.byte()? {
            0 => None,
            _ => Some((reader.signed()?, reader.signed()?)),
        };
        let is_next = rows.last().is_none_or(|last| *last.tenant < *tenant);
        if !is_next || own == 0 || own > end - start {
            return None;
        }
        rows.push(TenantRows {
            tenant,
            docs: own,
            time_range_ms,
            rows: start..end,
        });
    }
    (reader.rest.is_empty() && without_tenant <= docs).then_some(SegmentTenants {
        rows,
        without_tenant,
        clustered,
    })
}

/// LEB128.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn small(&mut self) -> Option<u32> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SegmentTenants {
        let rows = |tenant: &str, docs, time_range_ms, rows| TenantRows {
            tenant: tenant.into(),
            docs,
            time_range_ms,
            rows,
        };
        SegmentTenants {
            rows: vec![
                rows("a", 200, Some((-5, i64::MAX)), 0..200),
                rows("ä", 1, None, 300..70_000),
            ],
            without_tenant: 128,
            clustered: true,
        }
    }

    #[test]
    fn reads_what_it_writes() {
        for tenants in [SegmentTenants::default(), example()] {
            assert_eq!(decode(&encode(&tenants), 70_000), Some(tenants));
        }
    }

    #[test]
    fn refuses_what_is_cut_or_does_not_fit() {
        let bytes = encode(&example());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len], 70_000), None, "{len}");
        }
        assert_eq!(decode(&bytes, 69_999), None);
        let mut other = bytes.clone();
        other[0] = 2;
        assert_eq!(decode(&other, 70_000), None);
        other.clone_from(&bytes);
        other.push(0);
        assert_eq!(decode(&other, 70_000), None);
    }
}
