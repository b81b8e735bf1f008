//! `slice`: one of several disjoint parts of a scroll or point in time.
//!
//! Without a field, documents are divided by their sequence numbers. Every document has one and no merge changes
//! it, so a part stays the same while segments change.

use firn_model::{Error, Result};
use firn_query::search::Slice;
use firn_segment::columns::column::{NumColumn, Number, into_tantivy};
use firn_segment::schema::Class;
use tantivy::columnar::Column;
use tantivy::query::{ConstScorer, EmptyScorer, Explanation, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError};

use super::field::{Meta, Target};
use super::weight::Compiled;
use crate::compile::Compiler;

/// The column that divides the documents if the request names no field.
const SEQ_NO: &str = "_seq_no";

/// Compiles the query for the documents of a part.
pub(crate) fn compile(compiler: &Compiler, slice: &Slice) -> Result<Compiled> {
    let by = match slice.field.as_deref() {
        None | Some("_id" | "_shard_doc") => By::Itself,
        Some(path) => match compiler.resolve(path) {
            Target::Meta(Meta::SeqNo) => By::Itself,
            Target::Field(field) if field.mapping.is_none() => {
                return Err(Error::illegal_argument(format!("field {path} not found")));
            }
            Target::Field(field) if field.class == Class::Number => By::Field(field.path),
            _ => {
                return Err(Error::illegal_argument(format!(
                    "cannot load numeric doc values on {path}"
                )));
            }
        },
    };
    Ok(Compiled::Some(Box::new(SliceWeight {
        by,
        part: Part {
            id: u64::from(slice.id),
            max: u64::from(slice.max),
        },
    })))
}

/// The value that divides documents.
enum By {
    Itself,
    Field(String),
}

#[derive(Clone, Copy)]
struct Part {
    id: u64,
    max: u64,
}

impl Part {
    /// Returns whether a value is in this part. The finalizer of splitmix64 mixes the values first, because close
    /// values often belong together.
    fn holds(self, value: u64) -> bool {
        let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % self.max == self.id
    }
}

struct SliceWeight {
    by: By,
    part: Part,
}

impl Weight for SliceWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let column = match &self.by {
            By::Itself => NumColumn::open_named(reader, SEQ_NO),
            By::Field(path) => NumColumn::open(reader, path),
        };
        let column = column.map_err(into_tantivy)?;
        // Documents without the field are all in the first part, as in Elasticsearch.
        if column.is_none() && self.part.id != 0 {
            return Ok(Box::new(EmptyScorer));
        }
        let mut docs = SliceDocs {
            column,
            part: self.part,
            max_doc: reader.max_doc(),
            doc: 0,
        };
        docs.skip();
        Ok(Box::new(ConstScorer::new(docs, boost)))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        Err(TantivyError::InvalidArgument("explain is not implemented".to_owned()))
    }
}

struct SliceDocs {
    column: Option<NumColumn>,
    part: Part,
    max_doc: DocId,
    doc: DocId,
}

impl SliceDocs {
    /// Moves to the first document of the part, from the current one on.
    fn skip(&mut self) -> DocId {
        while self.doc < self.max_doc && !self.holds(self.doc) {
            self.doc += 1;
        }
        if self.doc >= self.max_doc {
            self.doc = TERMINATED;
        }
        self.doc
    }

    fn holds(&self, doc: DocId) -> bool {
        let Some(column) = &self.column else {
            return true;
        };
        let values: &Column<u64> = &column.column;
        match values.first(doc) {
            // It uses the number itself, because a merge may store it in another type.
            Some(raw) => self.part.holds(match column.number(raw) {
                Number::Int(value) => value as u64,
                Number::Float(value) if value.fract() == 0.0 => value as i128 as u64,
                Number::Float(value) => value.to_bits(),
            }),
            None => self.part.id == 0,
        }
    }
}

impl DocSet for SliceDocs {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.doc += 1;
        self.skip()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = target;
            self.skip();
        }
        self.doc
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.max_doc / self.part.max as u32
    }

    fn cost(&self) -> u64 {
        // More than any postings list, so that postings lead a conjunction.
        u64::from(self.max_doc) * 2
    }
}
