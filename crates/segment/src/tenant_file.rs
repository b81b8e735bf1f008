//! File with the tenant statistics of a segment. Format: `docs/formats/shard.md`.
//!
//! A separate file and not a part of the commit point, because a shard may have tens of segments with
//! thousands of tenants each, and every flush rewrites the commit point.

use std::sync::Arc;

use crate::tenants::{SegmentTenants, TenantRows};
use crate::varint::{self, Reader};

/// File name in a segment's folder.
pub const TENANTS_FILE: &str = "tenants.bin";

/// First byte of the file.
const VERSION: u8 = 1;
const CLUSTERED: u8 = 1;

/// Encodes the rows of the tenants of a segment; see `docs/formats/shard.md`.
pub fn encode(tenants: &SegmentTenants) -> Vec<u8> {
    let mut bytes = vec![VERSION, if tenants.clustered { CLUSTERED } else { 0 }];
    varint::put(&mut bytes, tenants.without_tenant.into());
    varint::put(&mut bytes, tenants.rows.len() as u64);
    for rows in &tenants.rows {
        varint::put_text(&mut bytes, &rows.tenant);
        varint::put(&mut bytes, rows.docs.into());
        varint::put(&mut bytes, rows.rows.start.into());
        varint::put(&mut bytes, (rows.rows.end - rows.rows.start).into());
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

/// Decodes the file. `None`: the bytes are invalid, or not of a segment of `docs` documents.
pub fn decode(bytes: &[u8], docs: u32) -> Option<SegmentTenants> {
    let mut reader = Reader { rest: bytes };
    if reader.byte()? != VERSION {
        return None;
    }
    let clustered = reader.byte()? & CLUSTERED != 0;
    let without_tenant = reader.small()?;
    let count = reader.small()?;
    let mut rows: Vec<TenantRows> = Vec::new();
    for _ in 0..count {
        let tenant: Arc<str> = reader.text()?.into();
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
    fn refuses_truncated_files_and_those_of_other_segments() {
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
