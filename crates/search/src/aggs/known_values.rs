//! Column of a split with stored counts of its values.

use firn_model::Result;
use firn_segment::columns::column::{self, NumColumn};
use firn_segment::columns::paths;
use firn_segment::columns::strings::StrColumn;
use firn_segment::segment::Segment;
use firn_segment::splits::{Counted, StoredRuns};

use super::source::Source;

/// A column with stored counts of its values.
pub(super) enum KnownValues {
    Strings(StoredRuns),
    Numbers(NumColumn, StoredRuns),
}

/// The same column after reading the names of its values.
pub(super) struct ReadValues {
    pub(super) column: ReadColumn,
    /// Raw values or ordinals, ascending, each with the number of documents that have it.
    pub(super) counts: Vec<(u64, u64)>,
}

pub(super) enum ReadColumn {
    Strings(StrColumn),
    Numbers(NumColumn),
}

impl KnownValues {
    /// Finds the counts; `None`: they are not stored. Reads nothing.
    pub(super) fn find(source: &Source, segment: &Segment) -> Result<Option<Self>> {
        let reader = &segment.reader;
        let found = match source {
            Source::Strings { class, path, .. } => column::known_strings(reader, *class, path)?.map(Self::Strings),
            Source::Numbers { path, .. } => {
                let known = NumColumn::known(reader, &paths::column_name("num", path))?;
                known.map(|(column, runs)| Self::Numbers(column, runs))
            }
            Source::MetaNumbers(_) | Source::Constant(_) | Source::Nothing => None,
        };
        Ok(found.filter(|known| known.counted().is_some()))
    }

    pub(super) fn runs(&self) -> &StoredRuns {
        match self {
            Self::Strings(runs) | Self::Numbers(_, runs) => runs,
        }
    }

    fn counted(&self) -> Option<&Counted> {
        self.runs().totals()?.counted.as_ref()
    }

    /// Returns how many documents of a segment have no value.
    pub(super) fn without(&self, segment: &Segment) -> u64 {
        let docs = self.runs().totals().map_or(0, |totals| totals.docs);
        u64::from(segment.max_doc) - docs
    }

    pub(super) fn read(self, segment: &Segment) -> Result<ReadValues> {
        let counts = self.counted().map(|counted| counted.values.clone()).unwrap_or_default();
        let column = match self {
            Self::Strings(runs) => ReadColumn::Strings(column::strings_without_documents(&segment.reader, &runs)?),
            Self::Numbers(column, _) => ReadColumn::Numbers(column),
        };
        Ok(ReadValues { column, counts })
    }
}
