//! Lookup of the documents that have a value in a column.
//!
//! Most columns of events are sparse: an event has twenty of the two hundred fields that occur in all events. If
//! few documents of a block have a value, the code walks those; if none or all have one, it looks nothing up.

use std::ops::Range;

use tantivy::DocId;
use tantivy::columnar::column_index::{MultiValueIndex, OptionalIndex, Set as _};
use tantivy::columnar::{Cardinality, Column, ColumnIndex};

/// One document in this many counts as few: finding the document of a row costs about as much as finding the rows
/// of this many documents.
const FEW: usize = 8;

/// Finds which documents of a block have values, and in which rows: `rows[i]` is a row of the document at
/// `positions[i]`. `docs` ascend and may repeat. `found` is a scratch buffer.
pub fn find_rows(
    index: &ColumnIndex,
    docs: &[DocId],
    positions: &mut Vec<u32>,
    rows: &mut Vec<u32>,
    found: &mut Vec<DocId>,
) {
    positions.clear();
    rows.clear();
    match index {
        ColumnIndex::Empty { .. } => {}
        ColumnIndex::Full => {
            positions.extend(0..docs.len() as u32);
            rows.extend_from_slice(docs);
        }
        ColumnIndex::Optional(optional) => find_ranks(optional, docs, positions, rows, found),
        ColumnIndex::Multivalued(MultiValueIndex::MultiValueIndexV2(multi)) => {
            find_ranks(&multi.optional_index, docs, positions, rows, found);
            let starts = &multi.start_index_column;
            let (at, ranks) = (std::mem::take(positions), std::mem::take(rows));
            for (position, rank) in at.into_iter().zip(ranks) {
                for row in starts.get_val(rank)..starts.get_val(rank + 1) {
                    positions.push(position);
                    rows.push(row);
                }
            }
        }
        ColumnIndex::Multivalued(MultiValueIndex::MultiValueIndexV1(_)) => {
            for (position, &doc) in docs.iter().enumerate() {
                for row in index.value_row_ids(doc) {
                    positions.push(position as u32);
                    rows.push(row);
                }
            }
        }
    }
}

/// Does the same for an index in which a document has one rank or none.
fn find_ranks(
    index: &OptionalIndex,
    docs: &[DocId],
    positions: &mut Vec<u32>,
    ranks: &mut Vec<u32>,
    found: &mut Vec<DocId>,
) {
    found.clear();
    let (Some(&first), Some(&last)) = (docs.first(), docs.last()) else {
        return;
    };
    let (from, to) = (index.rank(first), index.rank(last + 1));
    if from == to {
        return;
    }
    if to - from == last + 1 - first {
        positions.extend(0..docs.len() as u32);
        ranks.extend(docs.iter().map(|doc| from + (doc - first)));
        return;
    }
    let mut position = 0;
    if (to - from) as usize <= docs.len() / FEW {
        found.extend(from..to);
        index.select_batch(found);
        for (rank, doc) in (from..to).zip(found) {
            position += docs[position..].partition_point(|at| at < doc);
            while docs.get(position) == Some(doc) {
                positions.push(position as u32);
                ranks.push(rank);
                position += 1;
            }
        }
        return;
    }
    index.rank_if_exists_batch(docs, found, ranks);
    for doc in found {
        while docs[position] < *doc {
            position += 1;
        }
        positions.push(position as u32);
        position += 1;
    }
}

/// Returns how many documents of a run have a value; `None`: the index cannot tell without reading the documents.
pub fn count_in_run(index: &ColumnIndex, docs: Range<DocId>) -> Option<u32> {
    let ranks = |index: &OptionalIndex| index.rank(docs.end) - index.rank(docs.start);
    match index {
        ColumnIndex::Empty { .. } => Some(0),
        ColumnIndex::Full => Some(docs.end - docs.start),
        ColumnIndex::Optional(optional) => Some(ranks(optional)),
        ColumnIndex::Multivalued(MultiValueIndex::MultiValueIndexV2(multi)) => Some(ranks(&multi.optional_index)),
        ColumnIndex::Multivalued(MultiValueIndex::MultiValueIndexV1(_)) => None,
    }
}

/// Appends the documents of a run that have a value.
pub fn extend_with_present(index: &ColumnIndex, docs: Range<DocId>, found: &mut Vec<DocId>) {
    let optional = match index {
        ColumnIndex::Optional(optional) => Some(optional),
        ColumnIndex::Multivalued(MultiValueIndex::MultiValueIndexV2(multi)) => Some(&multi.optional_index),
        _ => None,
    };
    let Some(optional) = optional else {
        found.extend(docs.filter(|doc| index.has_value(*doc)));
        return;
    };
    let (from, to) = (optional.rank(docs.start), optional.rank(docs.end));
    if (to - from) as usize <= docs.len() / FEW {
        let start = found.len();
        found.extend(from..to);
        optional.select_batch(&mut found[start..]);
    } else if to - from == docs.end - docs.start {
        found.extend(docs);
    } else {
        found.extend(docs.filter(|doc| optional.contains(*doc)));
    }
}

/// Whether each document has exactly one value.
pub fn is_full(column: &Column<u64>) -> bool {
    column.index.get_cardinality() == Cardinality::Full && !matches!(column.index, ColumnIndex::Empty { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns documents with a value: stretches with all, every second and few documents, and stretches without,
    /// over several blocks of the index.
    fn present() -> Vec<DocId> {
        let thick = (100..3_000).chain((3_000..9_000).step_by(2));
        let thin = (70_000..140_000).step_by(997);
        thick.chain(thin).collect()
    }

    const MAX_DOC: DocId = 200_000;

    fn blocks() -> Vec<Vec<DocId>> {
        vec![
            Vec::new(),
            (0..100).collect(),
            (0..1024).collect(),
            (500..1500).collect(),
            (2_900..3_900).collect(),
            (8_000..9_024).collect(),
            (69_500..70_524).collect(),
            (0..MAX_DOC).step_by(173).collect(),
            (0..MAX_DOC).collect(),
            vec![7, 100, 100, 100, 101, 70_000, 70_000, 70_997, MAX_DOC - 1],
        ]
    }

    #[test]
    fn documents_with_a_value_are_found_in_any_density() {
        let present = present();
        let index = ColumnIndex::Optional(OptionalIndex::for_test(MAX_DOC, &present));
        let (mut positions, mut rows, mut found) = (vec![9], vec![9], vec![9]);
        for docs in blocks() {
            find_rows(&index, &docs, &mut positions, &mut rows, &mut found);
            let expect: Vec<(u32, u32)> = docs
                .iter()
                .enumerate()
                .filter_map(|(at, doc)| Some((at as u32, present.binary_search(doc).ok()? as u32)))
                .collect();
            let got: Vec<(u32, u32)> = positions.iter().copied().zip(rows.iter().copied()).collect();
            assert_eq!((got.len(), positions.len()), (expect.len(), rows.len()));
            assert!(got == expect, "{:?}..{:?}", docs.first(), docs.last());
        }
    }

    #[test]
    fn documents_with_several_values_are_found() {
        // Every third document has three values.
        let starts: Vec<u32> = (0..=3_000).map(|doc: u32| doc.div_ceil(3) * 3).collect();
        let index = ColumnIndex::Multivalued(tantivy::columnar::column_index::MultiValueIndex::for_test(&starts));
        let (mut positions, mut rows, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for docs in [(0..1000).collect::<Vec<DocId>>(), vec![1, 2], vec![3, 3, 2_997]] {
            find_rows(&index, &docs, &mut positions, &mut rows, &mut found);
            let expect: Vec<(u32, u32)> = docs
                .iter()
                .enumerate()
                .flat_map(|(at, doc)| index.value_row_ids(*doc).map(move |row| (at as u32, row)))
                .collect();
            let got: Vec<(u32, u32)> = positions.iter().copied().zip(rows.iter().copied()).collect();
            assert_eq!(got, expect);
        }
        assert!(count_in_run(&index, 0..7).is_none_or(|count| count == 3));
    }

    #[test]
    fn runs_are_counted_and_listed() {
        let present = present();
        let index = ColumnIndex::Optional(OptionalIndex::for_test(MAX_DOC, &present));
        for run in [
            0..100,
            0..1024,
            200..1200,
            2_990..5_000,
            69_000..73_000,
            9_000..69_000,
            0..MAX_DOC,
            5..5,
        ] {
            let expect: Vec<DocId> = present.iter().copied().filter(|doc| run.contains(doc)).collect();
            assert_eq!(count_in_run(&index, run.clone()), Some(expect.len() as u32));
            let mut found = vec![1];
            extend_with_present(&index, run.clone(), &mut found);
            assert!(found[1..] == expect, "{run:?}");
        }
        assert_eq!(count_in_run(&ColumnIndex::Full, 3..10), Some(7));
        assert_eq!(count_in_run(&ColumnIndex::Empty { num_docs: 10 }, 3..10), Some(0));
    }
}
