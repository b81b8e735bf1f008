//! `terms` aggregation: a bucket per value.

mod collector;
mod partition;
mod stored;

use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::aggs::{KeyBytes, Terms, TermsFilter, TermsOrder, ValueFormat};
use firn_query::query::RegexpFlags;
use serde_json::Value;
use tantivy::BitSet;
use tantivy::columnar::Column;

pub(super) use self::collector::TermsCollector;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, Place, ValueBlock};
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema;
use firn_segment::segment::Segment;

use self::collector::{Nothing, Zeros, own_values};
use self::partition::Partition;
use self::stored::Origin;
use super::super::TenantRestriction;
use super::super::compile::Compiler;
use super::collector::{Collector, Level, Scope};
use super::known_values::{KnownValues, ReadColumn};
use super::source::{self, Source};
use super::table::{Entry, Table};
use crate::compile::field::{Numeric, Parsed};
use crate::compile::query::matcher::Matcher;
use crate::compile::query::term_pattern::Pattern;

/// Numbers in a range up to this width are counted in a vector.
const NUMBER_WIDTH_MAX: u64 = 1 << 16;

/// `terms`, compiled.
pub(super) struct TermsPlan {
    source: Source,
    format: ValueFormat,
    missing: Option<Missing>,
    include: Option<Filter>,
    exclude: Option<Filter>,
    /// Buckets without documents are shown, too.
    zeros: bool,
    /// The tenant whose values may be shown without documents.
    tenant: Option<TenantRestriction>,
    /// A bucket with one document is shown.
    counts_all: bool,
    /// The number of buckets that a shard retains, and their order; `None`: the order depends on sub-aggregations.
    cut: Option<Cut>,
}

#[derive(Clone)]
enum Missing {
    Number(Number),
    Text(String),
}

enum Filter {
    Pattern(Arc<Matcher>),
    Texts(Vec<String>),
    Numbers(Vec<Number>),
    Partition { partition: Partition, is_ip: bool },
}

#[derive(Clone)]
struct Cut {
    keep: usize,
    /// (by count, ascending)
    order: Vec<(bool, bool)>,
    /// The counts of cut buckets are bounded by those of retained ones.
    by_count_descending: bool,
    by_key: bool,
    /// `show_term_doc_count_error`.
    shows_errors: bool,
}

impl TermsPlan {
    pub(super) fn compile(compiler: &Compiler, name: &str, terms: &Terms) -> Result<Self> {
        let source = Source::compile(compiler, &terms.field)?;
        let numeric = source.numeric();
        let missing = match (&terms.missing, &source) {
            (None, _) => None,
            (Some(value), Source::Numbers { .. } | Source::MetaNumbers(_)) => Some(Missing::Number(
                source::missing_number(&numeric, value, compiler.now_ms)?,
            )),
            (Some(value), Source::Strings { is_ip, .. }) => Some(Missing::Text(source::stored_string(*is_ip, value)?)),
            (Some(value), _) => Some(Missing::Text(source::stored_string(false, value)?)),
        };
        let filter = |filter: &Option<TermsFilter>| {
            filter
                .as_ref()
                .map(|filter| Filter::compile(compiler, name, &source, filter))
                .transpose()
        };
        Ok(Self {
            format: source.value_format(terms.format.as_deref())?,
            missing,
            include: filter(&terms.include)?,
            exclude: filter(&terms.exclude)?,
            zeros: terms.min_doc_count == 0,
            tenant: compiler.tenant.cloned(),
            counts_all: terms.min_doc_count == 1,
            cut: Cut::of(terms),
            source,
        })
    }

    /// Returns whether buckets without documents are shown: then segments without matches matter as well.
    pub(super) fn wants_zeros(&self) -> bool {
        self.zeros
    }

    /// Returns whether collectors of different documents of a segment add up: what `include` and `exclude` allow, and
    /// the buckets without documents, would have to be found for each of them.
    pub(super) fn is_divisible(&self) -> bool {
        !self.zeros && self.include.is_none() && self.exclude.is_none()
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let keys = match &self.source {
            Source::Nothing => match &self.missing {
                Some(missing) => Keys::Constant(missing_key(missing, false, &Numeric::Integer)),
                None => return Ok(Box::new(Nothing(self.format.clone()))),
            },
            Source::Constant(text) => Keys::Constant(KeyBytes::Str(text.as_str().into())),
            Source::Strings { class, path, is_ip } => match column::open_strings(reader, *class, path)? {
                Some(strings) => Keys::Strings { strings, is_ip: *is_ip },
                None => match &self.missing {
                    Some(missing) => Keys::Constant(missing_key(missing, *is_ip, &Numeric::Integer)),
                    None => return Ok(Box::new(Nothing(self.format.clone()))),
                },
            },
            Source::Numbers { path, numeric } => self.numbers(NumColumn::open(reader, path)?, numeric)?,
            Source::MetaNumbers(name) => self.numbers(NumColumn::open_named(reader, name)?, &Numeric::Integer)?,
        };
        let Some(keys) = keys.something() else {
            return Ok(Box::new(Nothing(self.format.clone())));
        };
        let slotted = !sub.is_empty();
        Ok(Box::new(self.collector(scope, keys, sub, slotted)?))
    }

    /// Returns whether documents without a value have a bucket.
    pub(super) fn has_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Returns the column of a whole segment, if its statistics are enough; reads nothing.
    pub(super) fn known_of_whole(&self, segment: &Segment) -> Result<Option<KnownValues>> {
        match self.zeros {
            true => Ok(None),
            false => KnownValues::find(&self.source, segment),
        }
    }

    /// Returns the keys of a column without its documents.
    pub(super) fn keys_of(&self, column: ReadColumn) -> Keys {
        match column {
            ReadColumn::Strings(strings) => Keys::Strings {
                strings,
                is_ip: matches!(self.source, Source::Strings { is_ip: true, .. }),
            },
            ReadColumn::Numbers(column) => Keys::Numbers {
                column,
                numeric: self.source.numeric(),
            },
        }
    }

    /// Creates a collector for these keys. `slotted`: there are sub-aggregations.
    pub(super) fn collector(&self, scope: Scope, keys: Keys, sub: Level, slotted: bool) -> Result<TermsCollector> {
        let (base, width, missing_key) = self.key_space(&keys)?;
        let allowed = self.allowed(&keys, base, width)?;
        let zeros = match (self.zeros, &self.tenant) {
            (false, _) => Zeros::None,
            (true, None) => Zeros::OfSegment,
            (true, Some(tenant)) => Zeros::Of(own_values(scope.segment, tenant, &keys)?),
        };
        Ok(TermsCollector {
            table: Table::new(width, slotted, scope.memory),
            multivalued: keys
                .column()
                .is_some_and(|column| column.get_cardinality().is_multivalue()),
            keys,
            base,
            missing_key,
            missing: self.missing.clone(),
            allowed,
            format: self.format.clone(),
            zeros,
            origin: self.origin(scope),
            cut: self.cut.clone().filter(|_| scope.manner.whole_shard),
            sub,
            values: ValueBlock::default(),
            parents: Vec::new(),
            block: Vec::new(),
            docs: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// Returns the column from which counted values can be resolved later; `None`: they must be resolved at once.
    fn origin(&self, scope: Scope) -> Option<Origin> {
        let by_count = self.cut.as_ref().is_some_and(Cut::is_by_count_then_key);
        match &self.source {
            Source::Strings { class, path, is_ip }
                if by_count && !scope.manner.whole_shard && self.counts_all && self.missing.is_none() =>
            {
                Some(Origin {
                    reader: scope.segment.reader.clone(),
                    class: *class,
                    path: path.clone(),
                    is_ip: *is_ip,
                })
            }
            _ => None,
        }
    }

    fn numbers(&self, column: Option<NumColumn>, numeric: &Numeric) -> Result<Keys> {
        Ok(match (column, &self.missing) {
            (Some(column), _) => Keys::Numbers {
                column,
                numeric: numeric.clone(),
            },
            (None, Some(missing)) => Keys::Constant(missing_key(missing, false, numeric)),
            (None, None) => Keys::Nothing,
        })
    }

    /// Returns the raw value of key 0, the number of keys (if few enough to count in a vector) and the key of
    /// documents without a value.
    fn key_space(&self, keys: &Keys) -> Result<(u64, Option<u64>, Option<u64>)> {
        Ok(match keys {
            Keys::Nothing => (0, Some(0), None),
            Keys::Constant(_) => (0, Some(1), Some(0)),
            Keys::Strings { strings, .. } => {
                let terms = strings.num_terms() as u64;
                let missing = match &self.missing {
                    Some(Missing::Text(text)) => Some(strings.dictionary().term_ord(text.as_bytes())?.unwrap_or(terms)),
                    _ => None,
                };
                (0, Some(terms + 1), missing)
            }
            Keys::Numbers { column, .. } => {
                let values = &column.column.values;
                let (min, max) = (values.min_value(), values.max_value());
                let few = max.checked_sub(min).filter(|width| *width < NUMBER_WIDTH_MAX);
                // The place after the last number is for documents without one.
                match few {
                    Some(span) => (min, Some(span + 2), self.missing.as_ref().map(|_| span + 1)),
                    None => (
                        0,
                        None,
                        self.missing
                            .as_ref()
                            .map(|missing| free_key(column, missing, (min, max))),
                    ),
                }
            }
        })
    }

    /// Returns the keys that `include` and `exclude` allow; `None`: all.
    fn allowed(&self, keys: &Keys, base: u64, width: Option<u64>) -> Result<Option<Allowed>> {
        if self.include.is_none() && self.exclude.is_none() {
            return Ok(None);
        }
        match keys {
            Keys::Nothing => Ok(None),
            Keys::Constant(key) => {
                let KeyBytes::Str(text) = key else {
                    return Ok(None);
                };
                let mut set = BitSet::with_max_value(1);
                if self.include.as_ref().is_none_or(|filter| filter.matches(text))
                    && !self.exclude.as_ref().is_some_and(|filter| filter.matches(text))
                {
                    set.insert(0);
                }
                Ok(Some(Allowed::Set(set)))
            }
            Keys::Strings { strings, .. } => {
                let count = u32::try_from(strings.num_terms() + 1)
                    .map_err(|_| Error::internal("a segment has more than 2^32 terms"))?;
                let mut set = match &self.include {
                    Some(include) => include.ordinals(strings, count)?,
                    None => BitSet::with_max_value_and_full(count),
                };
                if let Some(exclude) = &self.exclude {
                    let excluded = exclude.ordinals(strings, count)?;
                    for ordinal in 0..count {
                        if excluded.contains(ordinal) {
                            set.remove(ordinal);
                        }
                    }
                }
                // A missing value that is no term of the segment has the last place.
                if let Some(Missing::Text(text)) = &self.missing {
                    let passes = self.include.as_ref().is_none_or(|filter| filter.matches(text))
                        && !self.exclude.as_ref().is_some_and(|filter| filter.matches(text));
                    if passes {
                        set.insert(count - 1);
                    } else {
                        set.remove(count - 1);
                    }
                }
                Ok(Some(Allowed::Set(set)))
            }
            Keys::Numbers { column, .. } => {
                if let Some(Filter::Partition { partition, .. }) = &self.include {
                    return Ok(Some(Allowed::Partition {
                        column: column.clone(),
                        base,
                        partition: *partition,
                    }));
                }
                let raws = |filter: &Option<Filter>| -> Option<Vec<u64>> {
                    let Some(Filter::Numbers(numbers)) = filter else {
                        return None;
                    };
                    let mut keys: Vec<u64> = numbers
                        .iter()
                        .filter_map(|&number| match column.place(number) {
                            Place::At(raw) => raw
                                .checked_sub(base)
                                .filter(|key| width.is_none_or(|width| *key < width)),
                            Place::Before(_) | Place::Past => None,
                        })
                        .collect();
                    keys.sort_unstable();
                    Some(keys)
                };
                Ok(Some(Allowed::Numbers {
                    include: raws(&self.include),
                    exclude: raws(&self.exclude),
                }))
            }
        }
    }
}

impl Filter {
    fn compile(compiler: &Compiler, name: &str, source: &Source, filter: &TermsFilter) -> Result<Self> {
        let is_number = matches!(source, Source::Numbers { .. } | Source::MetaNumbers(_));
        match filter {
            TermsFilter::Partition { partition, count } => Ok(Self::Partition {
                partition: Partition {
                    partition: *partition,
                    count: *count,
                },
                is_ip: matches!(source, Source::Strings { is_ip: true, .. }),
            }),
            TermsFilter::Pattern(_) if is_number => Err(Error::illegal_argument(format!(
                "Aggregation [{name}] cannot support regular expression style include/exclude settings as they can only \
                 be applied to string fields. Use an array of numeric values for include/exclude clauses used to filter \
                 numeric fields"
            ))),
            TermsFilter::Pattern(text) => {
                let pattern = Pattern::regexp(text, RegexpFlags::default(), false)?;
                Ok(Self::Pattern(pattern.compile(&compiler.guard.stop)?))
            }
            TermsFilter::Values(values) if is_number => {
                let numeric = source.numeric();
                let mut numbers = Vec::with_capacity(values.len());
                for value in values {
                    numbers.extend(number_of(&numeric, value, compiler.now_ms)?);
                }
                Ok(Self::Numbers(numbers))
            }
            TermsFilter::Values(values) => {
                let is_ip = matches!(source, Source::Strings { is_ip: true, .. });
                let texts: Result<Vec<_>> = values.iter().map(|value| source::stored_string(is_ip, value)).collect();
                Ok(Self::Texts(texts?))
            }
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Pattern(regex) => regex.is_match(text.as_bytes()),
            Self::Texts(texts) => texts.iter().any(|own| own == text),
            Self::Numbers(_) => false,
            Self::Partition { partition, is_ip } => partition.holds_text(text, *is_ip),
        }
    }

    fn ordinals(&self, strings: &StrColumn, count: u32) -> Result<BitSet> {
        let mut set = BitSet::with_max_value(count);
        match self {
            Self::Pattern(regex) => {
                let mut stream = strings.dictionary().stream()?;
                while stream.advance() {
                    if regex.is_match(stream.key()) {
                        set.insert(stream.term_ord() as u32);
                    }
                }
            }
            Self::Texts(texts) => {
                for text in texts {
                    if let Some(ordinal) = strings.dictionary().term_ord(text.as_bytes())? {
                        set.insert(ordinal as u32);
                    }
                }
            }
            Self::Numbers(_) => {}
            Self::Partition { partition, is_ip } => {
                let mut stream = strings.dictionary().stream()?;
                while stream.advance() {
                    if partition.holds_text(&String::from_utf8_lossy(stream.key()), *is_ip) {
                        set.insert(stream.term_ord() as u32);
                    }
                }
            }
        }
        Ok(set)
    }
}

fn number_of(numeric: &Numeric, value: &Value, now_ms: i64) -> Result<Option<Number>> {
    if numeric.date_format().is_some() {
        let Number::Int(ms) = source::missing_number(numeric, value, now_ms)? else {
            return Ok(None);
        };
        return Ok(Some(Number::Int(ms * i128::from(numeric.units_per_ms()))));
    }
    match numeric.parse_exact(value) {
        Parsed::Number(number) => Ok(Some(number)),
        Parsed::Never => Ok(None),
        Parsed::NotANumber => Err(crate::compile::field::bad_number(value)),
    }
}

impl Cut {
    fn of(terms: &Terms) -> Option<Self> {
        let mut order = Vec::with_capacity(terms.order.len());
        for (key, ascending) in &terms.order {
            match key {
                TermsOrder::Count => order.push((true, *ascending)),
                TermsOrder::Key => order.push((false, *ascending)),
                TermsOrder::Sub(_) => return None,
            }
        }
        if order.is_empty() {
            order.push((true, false));
        }
        Some(Self {
            keep: terms.shard_size(),
            by_count_descending: order[0] == (true, false),
            by_key: !order[0].0,
            shows_errors: terms.show_term_doc_count_error,
            order,
        })
        // With `shard_min_doc_count`, a shard needs all candidates to leave out the rare ones.
        .filter(|_| terms.shard_min_doc_count == 0)
    }

    /// Selects the `keep` most frequent values.
    fn most_frequent(keep: usize) -> Self {
        Self {
            keep,
            order: vec![(true, false)],
            by_count_descending: true,
            by_key: false,
            shows_errors: false,
        }
    }

    /// Returns whether it is the default order: most documents first, then by key.
    fn is_by_count_then_key(&self) -> bool {
        self.by_count_descending
            && self
                .order
                .get(1)
                .is_none_or(|(by_count, ascending)| !by_count && *ascending)
    }

    /// Compares two buckets of one parent by (count, key).
    fn compare(&self, a: &Entry, b: &Entry) -> std::cmp::Ordering {
        for (by_count, ascending) in &self.order {
            let order = if *by_count {
                a.count.cmp(&b.count)
            } else {
                a.key.cmp(&b.key)
            };
            let order = if *ascending { order } else { order.reverse() };
            if order.is_ne() {
                return order;
            }
        }
        a.key.cmp(&b.key)
    }
}

/// Returns a raw value for documents without one: that of `missing` if the column can hold it, else one that no
/// document has.
fn free_key(column: &NumColumn, missing: &Missing, (min, max): (u64, u64)) -> u64 {
    if let Missing::Number(number) = missing
        && let Place::At(raw) = column.place(*number)
    {
        return raw;
    }
    if max < u64::MAX {
        u64::MAX
    } else {
        min.saturating_sub(1)
    }
}

fn missing_key(missing: &Missing, is_ip: bool, numeric: &Numeric) -> KeyBytes {
    match missing {
        Missing::Text(text) => string_key(text, is_ip),
        Missing::Number(number) => number_key(*number, numeric),
    }
}

/// Returns the key of a stored string.
pub(super) fn string_key(text: &str, is_ip: bool) -> KeyBytes {
    match is_ip.then(|| schema::decode_ip(text)).flatten() {
        Some(address) => KeyBytes::from_ip(address),
        None => KeyBytes::Str(text.into()),
    }
}

/// Returns the key of a stored number.
pub(super) fn stored_key(column: &NumColumn, numeric: &Numeric, raw: u64) -> KeyBytes {
    let number = match numeric {
        Numeric::Scaled(_) => Number::Float(numeric.value(column.as_f64(raw))),
        Numeric::DateNanos(_) => Number::Int(source::stored_to_ms(column.as_i64(raw), numeric.units_per_ms()).into()),
        _ => column.number(raw),
    };
    number_key(number, numeric)
}

/// Returns the key of a number in the units that aggregations compute with.
fn number_key(number: Number, numeric: &Numeric) -> KeyBytes {
    match numeric {
        Numeric::Float { .. } | Numeric::Scaled(_) => KeyBytes::from_f64(number.as_f64()),
        _ => match number {
            Number::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => KeyBytes::I64(value),
                (_, Ok(value)) => KeyBytes::U64(value),
                _ => KeyBytes::from_f64(value as f64),
            },
            Number::Float(value) => KeyBytes::from_f64(value),
        },
    }
}

/// The source of keys on a segment.
pub(super) enum Keys {
    Strings {
        strings: StrColumn,
        is_ip: bool,
    },
    Numbers {
        column: NumColumn,
        numeric: Numeric,
    },
    /// Every document has this key.
    Constant(KeyBytes),
    Nothing,
}

impl Keys {
    fn something(self) -> Option<Self> {
        (!matches!(self, Self::Nothing)).then_some(self)
    }

    fn column(&self) -> Option<&Column<u64>> {
        match self {
            Self::Strings { strings, .. } => Some(strings.ords()),
            Self::Numbers { column, .. } => Some(&column.column),
            Self::Constant(_) | Self::Nothing => None,
        }
    }
}

/// Keys that `include` and `exclude` allow.
enum Allowed {
    Set(BitSet),
    /// Sorted.
    Numbers {
        include: Option<Vec<u64>>,
        exclude: Option<Vec<u64>>,
    },
    /// Numbers by their hash; key 0 is the raw value `base`.
    Partition {
        column: NumColumn,
        base: u64,
        partition: Partition,
    },
}

impl Allowed {
    fn passes(&self, key: u64) -> bool {
        match self {
            Self::Set(set) => set.contains(key as u32),
            Self::Numbers { include, exclude } => {
                include.as_ref().is_none_or(|keys| keys.binary_search(&key).is_ok())
                    && exclude.as_ref().is_none_or(|keys| keys.binary_search(&key).is_err())
            }
            Self::Partition {
                column,
                base,
                partition,
            } => partition.holds_raw(column, key.saturating_add(*base)),
        }
    }
}
