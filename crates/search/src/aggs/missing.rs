//! `missing` aggregation: one bucket of the documents without a value.

use firn_model::Result;
use firn_query::aggs::{MissingField, Partial};
use firn_segment::columns::column::NumColumn;
use firn_segment::columns::{column, paths};
use firn_segment::segment::Segment;
use firn_segment::splits::StoredRuns;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::collector::{Collector, Level, Scope};
use super::single::Single;
use super::source::Source;

/// `missing`, compiled.
pub(super) struct MissingPlan {
    /// `None`: every document has a value.
    source: Option<Source>,
}

impl MissingPlan {
    pub(super) fn compile(compiler: &Compiler, part: &MissingField) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        let everywhere = part.missing.is_some() || matches!(source, Source::Constant(_));
        Ok(Self {
            source: (!everywhere).then_some(source),
        })
    }

    /// Returns the number of documents of a whole segment in the bucket, if the statistics of the column are
    /// enough; reads nothing.
    pub(super) fn of_whole(&self, segment: &Segment) -> Result<Option<u64>> {
        let reader = &segment.reader;
        let runs = match &self.source {
            None => return Ok(Some(0)),
            Some(Source::Numbers { path, .. }) => {
                let known = NumColumn::known(reader, &paths::column_name("num", path))?;
                known.map(|(_, runs)| runs)
            }
            Some(Source::Strings { class, path, .. }) => column::known_strings(reader, *class, path)?,
            Some(Source::MetaNumbers(_) | Source::Constant(_) | Source::Nothing) => None,
        };
        let totals = runs.as_ref().and_then(StoredRuns::totals);
        Ok(totals.map(|totals| u64::from(segment.max_doc) - totals.docs))
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let column = match &self.source {
            Some(Source::Numbers { path, .. }) => NumColumn::open(reader, path)?.map(|numbers| numbers.column),
            Some(Source::MetaNumbers(name)) => NumColumn::open_named(reader, name)?.map(|numbers| numbers.column),
            Some(Source::Strings { class, path, .. }) => {
                column::open_strings(reader, *class, path)?.map(|strings| strings.ords().clone())
            }
            Some(Source::Constant(_) | Source::Nothing) | None => None,
        };
        Ok(Box::new(MissingCollector {
            everywhere: self.source.is_none(),
            column,
            single: Single::new(sub, scope.memory),
        }))
    }
}

struct MissingCollector {
    everywhere: bool,
    column: Option<Column<u64>>,
    single: Single,
}

impl Collector for MissingCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        if self.everywhere {
            return Ok(());
        }
        let column = self.column.as_ref();
        let has_value = |doc| column.is_some_and(|column| column.index.has_value(doc));
        self.single.collect(docs, buckets, |doc| !has_value(doc))
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.single.finish(bucket_count)
    }
}
