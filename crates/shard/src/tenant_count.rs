//! Tenant statistics of a segment, computed from its columns when it is written.

use std::cmp::Reverse;
use std::sync::Arc;

use firn_model::Result;
use firn_segment::columns::paths::column_name;
use firn_segment::commit_point::SegmentMeta;
use firn_segment::tenants::{SegmentTenants, TenantRows};
use tantivy::columnar::{Cardinality, Column, StrColumn};
use tantivy::{DocId, SegmentReader};

use super::buffer::tantivy_error;

/// A segment with more tenants has no statistics: they are in memory for every open segment,
/// about 100 bytes a tenant.
const TENANTS_MAX: usize = 100_000;
/// Documents read at once: their values stay in the L1 cache.
const BLOCK_DOCS: u32 = 1024;
const NANOS_PER_MS: i64 = 1_000_000;

/// Columns with the tenant and the time of a document.
pub(super) struct TenantColumns {
    /// Names of tenants by ordinal. `None`: no document names one.
    pub(super) names: Option<StrColumn>,
    /// `None`: no document has a time.
    pub(super) times: Option<Column<i64>>,
    /// Units of [`TenantColumns::times`] per millisecond.
    unit: i64,
}

impl TenantColumns {
    /// Opens the columns of a segment; `None`: their types are not supported. `time_range_ms` are the bounds of
    /// `@timestamp` that the mapper found, `is_nanos` whether it has nanosecond resolution.
    pub(super) fn open(
        reader: &SegmentReader,
        tenant_field: &str,
        time_range_ms: Option<(i64, i64)>,
        is_nanos: bool,
    ) -> Result<Option<Self>> {
        let columns = reader.fast_fields();
        let name = column_name("kw", tenant_field);
        let names = columns.str(&name).map_err(tantivy_error)?;
        let mut times = None;
        if time_range_ms.is_some() {
            times = columns.column_opt::<i64>("num.@timestamp").map_err(tantivy_error)?;
            // Times are whole numbers; a column of another type is not supported. There is no column
            // if a merge dropped all documents with a time.
            let others = columns
                .dynamic_column_handles("num.@timestamp")
                .map_err(tantivy_error)?;
            if times.is_none() && !others.is_empty() {
                return Ok(None);
            }
        }
        let unit = if is_nanos { NANOS_PER_MS } else { 1 };
        Ok(Some(Self { names, times, unit }))
    }

    /// Whether some document has several values, so that it has no single place in the order of
    /// tenants and time.
    fn is_ambiguous(&self) -> bool {
        let several = |cardinality| cardinality == Cardinality::Multivalued;
        let names = self.names.as_ref().map(|names| names.ords().get_cardinality());
        let times = self.times.as_ref().map(Column::get_cardinality);
        names.is_some_and(several) || times.is_some_and(several)
    }

    /// Returns the milliseconds of a value, rounded down.
    pub(super) fn to_ms(&self, time: i64) -> i64 {
        time.div_euclid(self.unit)
    }
}

/// Whether `@timestamp` has nanosecond resolution: then its column exceeds the bounds in milliseconds.
pub(super) fn is_nanos(reader: &SegmentReader, time_range_ms: Option<(i64, i64)>) -> Result<bool> {
    let Some((low, high)) = time_range_ms else {
        return Ok(false);
    };
    let times = reader
        .fast_fields()
        .column_opt::<i64>("num.@timestamp")
        .map_err(tantivy_error)?;
    Ok(times.is_some_and(|times| times.min_value() < low || times.max_value() > high))
}

/// Returns the bounds of `@timestamp` of a segment with only some of the documents that `meta` describes.
pub(super) fn time_range_ms(reader: &SegmentReader, meta: &SegmentMeta) -> Result<Option<(i64, i64)>> {
    if meta.time_range_ms.is_none() {
        return Ok(None);
    }
    let times = reader
        .fast_fields()
        .column_opt::<i64>("num.@timestamp")
        .map_err(tantivy_error)?;
    let unit = if meta.is_nanos { NANOS_PER_MS } else { 1 };
    let bounds = |times: Column<i64>| (times.min_value().div_euclid(unit), times.max_value().div_euclid(unit));
    Ok(times.filter(|times| times.values.num_vals() > 0).map(bounds))
}

/// Counts the documents of each tenant. `max_doc` is the number of documents. `None`: the columns name no tenant,
/// or too many.
pub(super) fn count(columns: &TenantColumns, max_doc: DocId) -> Result<Option<SegmentTenants>> {
    let Some(names) = columns.names.as_ref().filter(|names| names.num_terms() <= TENANTS_MAX) else {
        return Ok(None);
    };
    let mut counter = Counter {
        counts: vec![Count::default(); names.num_terms()],
        without_tenant: 0,
        clustered: !columns.is_ambiguous(),
        last: None,
    };
    if counter.clustered {
        count_single(columns, names, max_doc, &mut counter);
    } else {
        count_several(columns, names, max_doc, &mut counter);
    }
    let mut rows = Vec::new();
    for (ord, count) in counter.counts.iter().enumerate() {
        // Merging keeps a term without documents in some cases.
        if count.docs == 0 {
            continue;
        }
        let mut name = String::new();
        names.ord_to_str(ord as u64, &mut name)?;
        rows.push(TenantRows {
            tenant: Arc::from(name),
            docs: count.docs,
            time_range_ms: count.times.map(|(low, high)| (columns.to_ms(low), columns.to_ms(high))),
            rows: count.first..count.end,
        });
    }
    Ok(Some(SegmentTenants {
        rows,
        without_tenant: counter.without_tenant,
        clustered: counter.clustered,
    }))
}

/// Count of one tenant's documents.
#[derive(Clone, Default)]
struct Count {
    docs: u32,
    times: Option<(i64, i64)>,
    first: DocId,
    end: DocId,
}

impl Count {
    fn add(&mut self, doc: DocId, times: Option<(i64, i64)>) {
        if self.docs == 0 {
            self.first = doc;
        }
        self.docs += 1;
        self.end = doc + 1;
        if let Some((low, high)) = times {
            let (lowest, highest) = self.times.unwrap_or((low, high));
            self.times = Some((lowest.min(low), highest.max(high)));
        }
    }
}

/// Place of a document without several values in the order of a clustered segment.
type Place = (Option<Reverse<u64>>, Option<i64>);

struct Counter {
    counts: Vec<Count>,
    without_tenant: u32,
    clustered: bool,
    /// Place of the previous document.
    last: Option<Place>,
}

impl Counter {
    fn add(&mut self, doc: DocId, ord: Option<u64>, time: Option<i64>) {
        match ord {
            Some(ord) => self.counts[ord as usize].add(doc, time.map(|time| (time, time))),
            None => self.without_tenant += 1,
        }
        // Both descend: no value is less than any tenant or time, and tenants are reversed.
        let place = (ord.map(Reverse), time);
        self.clustered &= self.last.is_none_or(|last| last >= place);
        self.last = Some(place);
    }
}

fn count_single(columns: &TenantColumns, names: &StrColumn, max_doc: DocId, counter: &mut Counter) {
    let mut docs = Vec::with_capacity(BLOCK_DOCS as usize);
    let mut ords = Vec::new();
    let mut times = Vec::new();
    for start in (0..max_doc).step_by(BLOCK_DOCS as usize) {
        let end = start.saturating_add(BLOCK_DOCS).min(max_doc);
        docs.clear();
        docs.extend(start..end);
        read(Some(names.ords()), &docs, &mut ords);
        read(columns.times.as_ref(), &docs, &mut times);
        for (doc, (ord, time)) in (start..end).zip(ords.iter().zip(&times)) {
            counter.add(doc, *ord, *time);
        }
    }
}

/// Reads the values of documents that have at most one each.
fn read<T: Copy + PartialOrd + std::fmt::Debug + Send + Sync + 'static>(
    column: Option<&Column<T>>,
    docs: &[DocId],
    values: &mut Vec<Option<T>>,
) {
    values.clear();
    values.resize(docs.len(), None);
    if let Some(column) = column {
        column.first_vals(docs, values);
    }
}

fn count_several(columns: &TenantColumns, names: &StrColumn, max_doc: DocId, counter: &mut Counter) {
    let mut ords = Vec::new();
    for doc in 0..max_doc {
        let times = columns.times.iter().flat_map(|times| times.values_for_doc(doc));
        let times = times.fold(None, |range: Option<(i64, i64)>, time| {
            let (low, high) = range.unwrap_or((time, time));
            Some((low.min(time), high.max(time)))
        });
        ords.clear();
        ords.extend(names.ords().values_for_doc(doc));
        ords.sort_unstable();
        ords.dedup();
        for ord in &ords {
            counter.counts[*ord as usize].add(doc, times);
        }
        counter.without_tenant += u32::from(ords.is_empty());
    }
}
