//! Collector of `terms` on one segment.

use std::collections::{BTreeSet, HashMap, hash_map};

use firn_model::Result;
use firn_query::aggs::{Bucket, KeyBytes, Partial, StoredCounts, TermsPartial, ValueFormat};
use firn_scheduler::yield_now;
use firn_segment::columns::column::ValueBlock;
use firn_segment::segment::Segment;
use tantivy::DocId;

use super::super::super::TenantRestriction;
use super::super::collector::{Collector, Level, PACE};
use super::super::counts::CountRow;
use super::super::table::{Entry, Table};
use super::stored::{Origin, SegmentCounts};
use super::{Allowed, Cut, Keys, Missing, missing_key, stored_key, string_key};
use crate::compile::field::Numeric;
use crate::tenancy::tenant_docs;

/// Approximate bytes of a bucket in a result: key, count and hash table slot.
const BUCKET_BYTES: usize = 120;

/// Counts documents by key.
pub(in crate::aggs) struct TermsCollector {
    pub(super) keys: Keys,
    /// The raw value of key 0.
    pub(super) base: u64,
    /// The key of documents without a value; `None`: they have no bucket.
    pub(super) missing_key: Option<u64>,
    pub(super) missing: Option<Missing>,
    pub(super) allowed: Option<Allowed>,
    pub(super) multivalued: bool,
    pub(super) table: Table,
    pub(super) format: ValueFormat,
    pub(super) zeros: Zeros,
    /// The column from which values can be resolved later.
    pub(super) origin: Option<Origin>,
    pub(super) cut: Option<Cut>,
    pub(in crate::aggs) sub: Level,
    pub(super) values: ValueBlock,
    pub(super) parents: Vec<u32>,
    pub(super) block: Vec<u64>,
    pub(super) docs: Vec<DocId>,
    pub(super) slots: Vec<u32>,
}

impl Collector for TermsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.block.clear();
        let simple = match self.keys.column() {
            Some(column) => {
                self.values.read(column, docs);
                if self.multivalued {
                    self.values.sort_distinct();
                }
                self.missing_key.is_none()
                    && self.allowed.is_none()
                    && self.values.raws.len() == docs.len()
                    && !self.multivalued
            }
            None => {
                self.block.resize(docs.len(), 0);
                self.allowed.is_none()
            }
        };
        if simple {
            // One value each: documents and parents are those of the block.
            let is_column = self.keys.column().is_some();
            let keys = match self.base {
                0 if is_column => &self.values.raws,
                base => {
                    if is_column {
                        self.block.extend(self.values.raws.iter().map(|raw| raw - base));
                    }
                    &self.block
                }
            };
            self.table.add(buckets, keys, &mut self.slots)?;
            return match self.sub.is_empty() {
                true => Ok(()),
                false => self.sub.collect(docs, &self.slots),
            };
        }
        self.parents.clear();
        self.docs.clear();
        let mut next = 0;
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            let start = next;
            if self.keys.column().is_some() {
                while self.values.positions.get(next) == Some(&(position as u32)) {
                    let key = self.values.raws[next] - self.base;
                    next += 1;
                    if self.allowed.as_ref().is_none_or(|allowed| allowed.passes(key)) {
                        self.docs.push(doc);
                        self.parents.push(parent);
                        self.block.push(key);
                    }
                }
                if next > start {
                    continue;
                }
            } else if position == 0 {
                // Constants were filled in above, and are passed on only if allowed.
                self.block.clear();
            }
            let Some(key) = self.missing_key else {
                continue;
            };
            if self.allowed.as_ref().is_none_or(|allowed| allowed.passes(key)) {
                self.docs.push(doc);
                self.parents.push(parent);
                self.block.push(key);
            }
        }
        self.table.add(&self.parents, &self.block, &mut self.slots)?;
        match self.sub.is_empty() {
            true => Ok(()),
            false => self.sub.collect(&self.docs, &self.slots),
        }
    }

    fn into_counts(self: Box<Self>) -> Option<Table> {
        Some(self.table)
    }

    fn absorb(&mut self, counts: Table) -> Result<()> {
        self.table.absorb(counts)
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let sub_count = if self.sub.is_empty() {
            0
        } else {
            self.table.slot_count()
        };
        let sub = std::mem::replace(&mut self.sub, Level::none());
        let has_sub = !sub.is_empty();
        let mut below = if has_sub { sub.finish(sub_count)? } else { Vec::new() };
        if let Some(cut) = self
            .cut
            .as_ref()
            .filter(|_| !has_sub && matches!(self.zeros, Zeros::None))
            && self.table.row(0).is_some()
        {
            let rows: Vec<CutRow> = (0..bucket_count as u32)
                .filter_map(|parent| Some(cut_row(parent, self.table.row(parent)?, cut)))
                .collect();
            return self.finish_rows(rows);
        }
        if let (Keys::Strings { strings, .. }, Some(origin), false, 1) =
            (&self.keys, &self.origin, has_sub, bucket_count)
            && let Some(counts) = SegmentCounts::take(&mut self.table, strings, origin)
        {
            return Ok(vec![Partial::Terms(TermsPartial {
                stored: StoredCounts(vec![counts]),
                format: self.format.clone(),
                ..TermsPartial::default()
            })]);
        }
        let mut entries: Vec<(Entry, usize)> = self
            .table
            .entries()
            .into_iter()
            .enumerate()
            .map(|(slot, entry)| (entry, slot))
            .collect();
        let mut partials: Vec<TermsPartial> = (0..bucket_count)
            .map(|_| TermsPartial {
                format: self.format.clone(),
                ..TermsPartial::default()
            })
            .collect();
        if !matches!(self.zeros, Zeros::None) {
            self.add_zeros(&mut entries, bucket_count)?;
        }
        let mut errors = Vec::new();
        if let Some(cut) = &self.cut {
            (entries, errors) = cut_entries(entries, cut, &mut partials);
        }
        self.table.memory().take(entries.len() * BUCKET_BYTES)?;
        entries.sort_unstable_by_key(|(entry, _)| entry.key);
        let names = self.resolve(&entries)?;
        let mut watch = self.table.memory().watch();
        for ((entry, slot), name) in entries.into_iter().zip(names) {
            watch.tick()?;
            let Some(partial) = partials.get_mut(entry.parent as usize) else {
                continue;
            };
            let bucket = Bucket {
                doc_count: entry.count,
                sub: below.get_mut(slot).map(std::mem::take).unwrap_or_default(),
            };
            insert(&mut partial.buckets, name, bucket)?;
        }
        self.was_cut(&mut partials, errors);
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }
}

fn insert(buckets: &mut HashMap<KeyBytes, Bucket>, key: KeyBytes, bucket: Bucket) -> Result<()> {
    match buckets.entry(key) {
        hash_map::Entry::Vacant(vacant) => {
            vacant.insert(bucket);
        }
        // Some documents really have the value for missing ones.
        hash_map::Entry::Occupied(mut own) => {
            let own = own.get_mut();
            own.doc_count += bucket.doc_count;
            own.sub.merge(bucket.sub)?;
        }
    }
    Ok(())
}

/// The buckets that a shard reports for one parent.
pub(super) struct CutRow {
    pub(super) top: Vec<Entry>,
    other_doc_count: u64,
    /// Some candidates were left out.
    is_cut: bool,
}

/// Selects buckets from the counts of one parent by key, without building a list of all of them.
pub(super) fn cut_row(parent: u32, counts: CountRow<'_>, cut: &Cut) -> CutRow {
    // Keys ascend, so among equal counts a later key loses, unless the order prefers later keys.
    let by_count_alone = cut.is_by_count_then_key();
    let keep = if cut.keep == 0 { usize::MAX } else { cut.keep };
    let (mut top, mut floor) = (Vec::<Entry>::new(), 0u32);
    let totals = counts.scan(|key, count| {
        top.push(Entry {
            parent,
            key,
            count: count.into(),
        });
        if top.len() >= keep.saturating_mul(2) {
            top.select_nth_unstable_by(keep - 1, |a, b| cut.compare(a, b));
            top.truncate(keep);
            if by_count_alone {
                floor = top.iter().map(|entry| entry.count as u32).min().unwrap_or_default();
            }
        }
        floor
    });
    top.sort_unstable_by(|a, b| cut.compare(a, b));
    top.truncate(keep);
    CutRow {
        other_doc_count: totals.total - top.iter().map(|entry| entry.count).sum::<u64>(),
        is_cut: totals.value_count > top.len(),
        top,
    }
}

/// Retains the buckets that a shard reports for each parent; also returns the highest count that a cut bucket can
/// have.
fn cut_entries(
    entries: Vec<(Entry, usize)>,
    cut: &Cut,
    partials: &mut [TermsPartial],
) -> (Vec<(Entry, usize)>, Vec<u64>) {
    let mut by_parent: Vec<Vec<(Entry, usize)>> = (0..partials.len()).map(|_| Vec::new()).collect();
    for entry in entries {
        if let Some(list) = by_parent.get_mut(entry.0.parent as usize) {
            list.push(entry);
        }
    }
    let (mut top, mut errors) = (Vec::new(), Vec::new());
    for (mut list, partial) in by_parent.into_iter().zip(partials) {
        partial.shards = 1;
        let mut error = 0;
        if list.len() > cut.keep && cut.keep > 0 {
            list.select_nth_unstable_by(cut.keep - 1, |a, b| cut.compare(&a.0, &b.0));
            let last = list[cut.keep - 1].0.count;
            partial.other_doc_count = list[cut.keep..].iter().map(|(entry, _)| entry.count).sum();
            if cut.by_count_descending {
                error = last;
            } else if !cut.by_key {
                partial.error_unbounded = true;
            }
            list.truncate(cut.keep);
        }
        errors.push(error);
        top.extend(list);
    }
    (top, errors)
}

impl TermsCollector {
    /// Counts all documents of a segment from the number of documents per raw value; `without` documents have no
    /// value. Returns the slot of each value by its index in `counts`; empty if slots are not needed.
    pub(in crate::aggs) fn take_counts(&mut self, counts: &[(u64, u64)], without: u64) -> Result<Vec<(usize, u32)>> {
        let mut slots = Vec::new();
        for (number, &(raw, docs)) in counts.iter().enumerate() {
            let key = raw - self.base;
            if docs > 0 && self.allowed.as_ref().is_none_or(|allowed| allowed.passes(key)) {
                self.table.add_many(0, key, docs, &mut self.slots)?;
                slots.extend(self.slots.first().map(|slot| (number, *slot)));
            }
        }
        if let Some(key) = self.missing_key.filter(|_| without > 0)
            && self.allowed.as_ref().is_none_or(|allowed| allowed.passes(key))
        {
            self.table.add_many(0, key, without, &mut self.slots)?;
        }
        Ok(slots)
    }

    /// Resolves the keys of the buckets that a shard reports.
    fn finish_rows(&self, rows: Vec<CutRow>) -> Result<Vec<Partial>> {
        let by_count_descending = self.cut.as_ref().is_some_and(|cut| cut.by_count_descending);
        let by_key = self.cut.as_ref().is_some_and(|cut| cut.by_key);
        let mut partials = Vec::with_capacity(rows.len());
        let (mut entries, mut errors) = (Vec::new(), Vec::new());
        for row in rows {
            let mut partial = TermsPartial {
                format: self.format.clone(),
                shards: 1,
                other_doc_count: row.other_doc_count,
                ..TermsPartial::default()
            };
            let mut error = 0;
            if row.is_cut && by_count_descending {
                error = row.top.last().map_or(0, |last| last.count);
            } else if row.is_cut && !by_key {
                partial.error_unbounded = true;
            }
            errors.push(error);
            entries.extend(row.top.into_iter().map(|entry| (entry, 0)));
            partials.push(partial);
        }
        self.table.memory().take(entries.len() * BUCKET_BYTES)?;
        entries.sort_unstable_by_key(|(entry, _)| entry.key);
        let names = self.resolve(&entries)?;
        for ((entry, _), name) in entries.into_iter().zip(names) {
            if let Some(partial) = partials.get_mut(entry.parent as usize) {
                let bucket = Bucket {
                    doc_count: entry.count,
                    ..Bucket::default()
                };
                insert(&mut partial.buckets, name, bucket)?;
            }
        }
        self.was_cut(&mut partials, errors);
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }

    /// Records the error bounds of each parent after a cut, once its buckets exist.
    fn was_cut(&self, partials: &mut [TermsPartial], errors: Vec<u64>) {
        let shows_errors = self.cut.as_ref().is_some_and(|cut| cut.shows_errors);
        for (partial, error) in partials.iter_mut().zip(errors) {
            partial.was_cut(error, shows_errors);
        }
    }

    /// Returns the keys of entries that are sorted by key.
    fn resolve(&self, entries: &[(Entry, usize)]) -> Result<Vec<KeyBytes>> {
        let missing = |is_ip, numeric: &Numeric| match &self.missing {
            Some(missing) => missing_key(missing, is_ip, numeric),
            None => KeyBytes::I64(0),
        };
        match &self.keys {
            Keys::Nothing => Ok(Vec::new()),
            Keys::Constant(key) => Ok(entries.iter().map(|_| key.clone()).collect()),
            Keys::Numbers { column, numeric } => Ok(entries
                .iter()
                .map(|(entry, _)| {
                    if Some(entry.key) == self.missing_key {
                        return missing(false, numeric);
                    }
                    stored_key(column, numeric, entry.key + self.base)
                })
                .collect()),
            Keys::Strings { strings, is_ip } => {
                let terms = strings.num_terms() as u64;
                let ordinals: Vec<u64> = entries
                    .iter()
                    .map(|(entry, _)| entry.key)
                    .filter(|key| *key < terms)
                    .collect();
                let mut names = Vec::with_capacity(entries.len());
                strings.dictionary().sorted_ords_to_term_cb(&ordinals, |bytes| {
                    if names.len().is_multiple_of(PACE) {
                        yield_now();
                    }
                    names.push(string_key(&String::from_utf8_lossy(bytes), *is_ip));
                })?;
                // Ordinals past the last term stand for the missing value.
                names.resize_with(entries.len(), || missing(*is_ip, &Numeric::Integer));
                Ok(names)
            }
        }
    }

    /// Adds the values of the segment that no document of the query has, for `min_doc_count: 0`.
    fn add_zeros(&self, entries: &mut Vec<(Entry, usize)>, bucket_count: usize) -> Result<()> {
        let keys: Vec<u64> = match (&self.zeros, &self.keys) {
            (Zeros::Of(values), _) => values.iter().map(|value| value - self.base).collect(),
            (_, Keys::Strings { strings, .. }) => (0..strings.num_terms() as u64).collect(),
            (_, Keys::Numbers { column, .. }) => {
                let values = &column.column.values;
                let rows = (0..values.num_vals()).map(|row| values.get_val(row) - self.base);
                rows.collect::<BTreeSet<u64>>().into_iter().collect()
            }
            (_, Keys::Constant(_) | Keys::Nothing) => Vec::new(),
        };
        let bytes = keys.len().saturating_mul(bucket_count).saturating_mul(BUCKET_BYTES);
        self.table.memory().take(bytes)?;
        let known: std::collections::HashSet<(u32, u64)> =
            entries.iter().map(|(entry, _)| (entry.parent, entry.key)).collect();
        for parent in 0..bucket_count as u32 {
            for &key in &keys {
                let passes = self.allowed.as_ref().is_none_or(|allowed| allowed.passes(key));
                if passes && !known.contains(&(parent, key)) {
                    entries.push((Entry { parent, key, count: 0 }, usize::MAX));
                }
            }
        }
        Ok(())
    }
}

/// Values that are shown although no document of the query has them.
pub(super) enum Zeros {
    None,
    /// All values of the segment.
    OfSegment,
    /// These raw values: those of the tenant.
    Of(BTreeSet<u64>),
}

/// Returns the values of a tenant's documents.
pub(super) fn own_values(segment: &Segment, tenant: &TenantRestriction, keys: &Keys) -> Result<BTreeSet<u64>> {
    let mut values = BTreeSet::new();
    if let Some(column) = keys.column() {
        tenant_docs::for_each(segment, tenant, |doc| {
            values.extend(column.values_for_doc(doc));
            Ok(true)
        })?;
    }
    Ok(values)
}

/// Collector for a segment without values.
pub(super) struct Nothing(pub(super) ValueFormat);

impl Collector for Nothing {
    fn collect(&mut self, _docs: &[DocId], _buckets: &[u32]) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        Ok((0..bucket_count)
            .map(|_| {
                Partial::Terms(TermsPartial {
                    format: self.0.clone(),
                    ..TermsPartial::default()
                })
            })
            .collect())
    }
}
