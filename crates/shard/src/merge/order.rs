//! Document order of a clustering merge: by tenant, then newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use firn_model::Result;
use tantivy::columnar::{Column, RowAddr};

use super::Source;
use crate::buffer::tantivy_error;
use crate::tenant_count::TenantColumns;

/// Maximum number of tenants with separate segments in one merge: each output has open files and buffers, and
/// the columns of each are written in a pass over all sources.
const OWN_PARTS_MAX: usize = 8;

/// Place of a document that the merge drops.
pub(super) const GONE: u32 = u32::MAX;

/// New order of the documents of a merge. Memory: 12 bytes a document; while it is built 4
/// more, and 32 for each document of the largest tenant.
pub(super) struct Order {
    /// By new place; `segment_ord` is the index of the source.
    pub(super) docs: Vec<RowAddr>,
    /// By source and old document: the new place, or [`GONE`].
    pub(super) places: Vec<Vec<u32>>,
    /// Segments to write; their ranges of places are adjacent.
    pub(super) parts: Vec<Part>,
}

/// Segment to write.
pub(super) struct Part {
    /// Range of its places.
    pub(super) places: Range<u32>,
    /// Its tenant, if it has only one.
    pub(super) own_tenant: Option<Arc<str>>,
}

impl Order {
    /// Orders the surviving documents of the sources. `own_docs_min`: tenants with at least this many documents get
    /// separate parts; `None`: there is one part. Returns `None` if the types of the sources' columns
    /// are not supported.
    pub(super) fn new(sources: &[&Source], tenant_field: &str, own_docs_min: Option<u32>) -> Result<Option<Self>> {
        let mut inputs = Vec::with_capacity(sources.len());
        for source in sources {
            match Input::open(source, tenant_field)? {
                Some(input) => inputs.push(input),
                None => return Ok(None),
            }
        }
        let mut names = BTreeMap::new();
        for input in &inputs {
            input.add_names(&mut names)?;
        }
        let no_tenant = names.len() as u32;
        for (rank, known) in names.values_mut().enumerate() {
            *known = rank as u32;
        }
        let mut ranks = Vec::with_capacity(inputs.len());
        let mut counts = vec![0u32; names.len() + 1];
        for (input, source) in inputs.iter().zip(sources) {
            let own = input.ranks(source, &names, no_tenant)?;
            own.iter()
                .filter(|rank| **rank != GONE)
                .for_each(|rank| counts[*rank as usize] += 1);
            ranks.push(own);
        }
        let large = large(&counts[..names.len()], own_docs_min);
        let mut starts = vec![0; counts.len()];
        let mut next = 0;
        for rank in (0..=no_tenant).filter(|rank| !large.contains(rank)) {
            starts[rank as usize] = next;
            next += counts[rank as usize];
        }
        let mut parts = Vec::new();
        if next > 0 {
            parts.push(Part {
                places: 0..next,
                own_tenant: common_tenant(sources),
            });
        }
        let names: Vec<Arc<str>> = names.into_keys().map(Arc::from).collect();
        for rank in &large {
            let start = next;
            starts[*rank as usize] = start;
            next += counts[*rank as usize];
            parts.push(Part {
                places: start..next,
                own_tenant: Some(Arc::clone(&names[*rank as usize])),
            });
        }
        let mut docs = by_tenant(&ranks, &mut starts.clone(), next);
        drop(ranks);
        let mut keys = Vec::new();
        for (start, count) in starts.iter().zip(&counts) {
            sort_by_time(&mut docs[*start as usize..(start + count) as usize], &inputs, &mut keys);
        }
        let mut places: Vec<Vec<u32>> = sources
            .iter()
            .map(|source| vec![GONE; source.open.meta.docs as usize])
            .collect();
        for (place, address) in docs.iter().enumerate() {
            places[address.segment_ord as usize][address.row_id as usize] = place as u32;
        }
        Ok(Some(Self { docs, places, parts }))
    }
}

/// Returns the ranks of tenants with separate segments.
fn large(counts: &[u32], own_docs_min: Option<u32>) -> Vec<u32> {
    let Some(own_docs_min) = own_docs_min else {
        return Vec::new();
    };
    let mut large: Vec<u32> = (0..counts.len() as u32)
        .filter(|rank| counts[*rank as usize] >= own_docs_min.max(1))
        .collect();
    large.sort_by_key(|rank| Reverse(counts[*rank as usize]));
    large.truncate(OWN_PARTS_MAX);
    large
}

/// Returns the tenant that all sources have in common.
fn common_tenant(sources: &[&Source]) -> Option<Arc<str>> {
    let mut own = sources.iter().map(|source| source.open.meta.own_tenant.as_deref());
    let first = own.next()??;
    own.all(|tenant| tenant == Some(first)).then(|| first.into())
}

/// Returns the surviving documents grouped by rank, at the start positions in `next`.
fn by_tenant(ranks: &[Vec<u32>], next: &mut [u32], total: u32) -> Vec<RowAddr> {
    let none = RowAddr {
        segment_ord: 0,
        row_id: 0,
    };
    let mut docs = vec![none; total as usize];
    for (segment_ord, ranks) in ranks.iter().enumerate() {
        for (row_id, rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank != GONE) {
            let next = &mut next[*rank as usize];
            docs[*next as usize] = RowAddr {
                segment_ord: segment_ord as u32,
                row_id: row_id as u32,
            };
            *next += 1;
        }
    }
    docs
}

/// Sort key: newest first, documents without a time last, equal times by sequence number. A document with
/// several times is sorted by the newest.
type Key = (Reverse<Option<i64>>, u64, RowAddr);

fn sort_by_time(docs: &mut [RowAddr], inputs: &[Input], keys: &mut Vec<Key>) {
    keys.clear();
    keys.extend(docs.iter().map(|address| {
        let input = &inputs[address.segment_ord as usize];
        let times = input.columns.times.as_ref();
        let newest = times.and_then(|times| times.values_for_doc(address.row_id).max());
        (
            Reverse(newest),
            input.seq_nos.first(address.row_id).unwrap_or(0),
            *address,
        )
    }));
    // A stable sort benefits from the existing order of the sources.
    keys.sort_by_key(|(newest, seq_no, _)| (*newest, *seq_no));
    for (doc, (_, _, address)) in docs.iter_mut().zip(keys) {
        *doc = *address;
    }
}

/// Data of a source for the order.
struct Input {
    columns: TenantColumns,
    seq_nos: Column<u64>,
}

impl Input {
    fn open(source: &Source, tenant_field: &str) -> Result<Option<Self>> {
        let open = &source.open;
        let meta = &open.meta;
        let columns = TenantColumns::open(&open.reader, tenant_field, meta.time_range_ms, meta.is_nanos)?;
        let seq_nos = open.reader.fast_fields().u64("_seq_no").map_err(tantivy_error)?;
        Ok(columns.map(|columns| Self { columns, seq_nos }))
    }

    fn add_names(&self, names: &mut BTreeMap<String, u32>) -> Result<()> {
        for ord in 0..self.columns.names.as_ref().map_or(0, |names| names.num_terms()) {
            names.insert(self.name(ord as u64)?, 0);
        }
        Ok(())
    }

    fn name(&self, ord: u64) -> Result<String> {
        let mut name = String::new();
        if let Some(names) = &self.columns.names {
            names.ord_to_str(ord, &mut name)?;
        }
        Ok(name)
    }

    /// Returns for each document the rank of its tenant, or [`GONE`]. Of several tenants the first counts.
    fn ranks(&self, source: &Source, names: &BTreeMap<String, u32>, no_tenant: u32) -> Result<Vec<u32>> {
        let docs = source.open.meta.docs;
        let mut ranks = vec![no_tenant; docs as usize];
        if let Some(column) = &self.columns.names {
            let mut by_ord = Vec::with_capacity(column.num_terms());
            for ord in 0..column.num_terms() {
                by_ord.push(names.get(&self.name(ord as u64)?).copied().unwrap_or(no_tenant));
            }
            for doc in 0..docs {
                if let Some(ord) = column.ords().values_for_doc(doc).min() {
                    ranks[doc as usize] = by_ord[ord as usize];
                }
            }
        }
        for doc in 0..docs {
            if source.deletes.contains(doc) {
                ranks[doc as usize] = GONE;
            }
        }
        Ok(ranks)
    }
}
