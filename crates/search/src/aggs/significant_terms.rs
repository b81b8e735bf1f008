//! `significant_terms` aggregation: counts the foreground during the search, and the background after its
//! candidates are known.

use std::collections::HashMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::aggs::{Key, KeyBytes, Partial, SignificantTerms, SignificantTermsPartial, Terms};
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, Place, ValueBlock, failed};
use firn_segment::schema;
use firn_segment::segment::Segment;
use tantivy::DocId;
use tantivy::query::{Scorer, Weight};

use super::super::compile::Compiler;
use super::collector::{Collector, DocumentOrder, Level, Scope};
use super::filters::matches;
use super::source::{self, Source};
use super::table::Mixer;
use super::terms::TermsPlan;
use crate::compile::field::Numeric;
use crate::run::memory::Memory;

/// A request to count a background: the candidates of one aggregation, in order.
#[derive(Clone)]
pub(crate) struct BackgroundCount {
    pub(crate) candidates: Vec<KeyBytes>,
}

/// The result of a [`BackgroundCount`].
#[derive(Clone, Default)]
pub(crate) struct Counted {
    /// By candidate.
    pub(crate) counts: Vec<u64>,
    /// Documents of the background.
    pub(crate) size: u64,
}

/// `significant_terms`, compiled.
pub(super) struct SignificantTermsPlan {
    terms: TermsPlan,
    source: Source,
    is_mapped: bool,
    background: Option<Arc<dyn Weight>>,
}

impl SignificantTermsPlan {
    pub(super) fn compile(compiler: &Compiler, name: &str, part: &SignificantTerms) -> Result<Self> {
        let terms = Terms {
            include: part.include.clone(),
            exclude: part.exclude.clone(),
            format: part.format.clone(),
            ..Terms::all_of(&part.field)
        };
        let background = match &part.background_filter {
            Some(query) => Some(Arc::from(compiler.filter().compile(query)?.into_weight())),
            None => None,
        };
        let source = Source::compile(compiler, &part.field)?;
        let is_mapped = !matches!(source, Source::Nothing) && !source::is_unmapped(compiler, &part.field);
        Ok(Self {
            terms: TermsPlan::compile(compiler, name, &terms)?,
            source,
            is_mapped,
            background,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let memory = scope.memory.clone();
        // Scores need the background, so nothing may be cut yet.
        let scope = Scope {
            manner: DocumentOrder {
                whole_shard: false,
                ..scope.manner
            },
            ..scope
        };
        Ok(Box::new(SignificantTermsCollector {
            terms: self.terms.open(scope, sub)?,
            is_mapped: self.is_mapped,
            sizes: Vec::new(),
            memory,
        }))
    }

    /// Opens the background of some candidates on a segment.
    pub(super) fn open_background(&self, segment: &Segment, candidates: &[KeyBytes]) -> Result<Background> {
        let reader = &segment.reader;
        let mut places: HashMap<u64, u32, Mixer> = HashMap::default();
        let values = match &self.source {
            Source::Strings { class, path, is_ip } => match column::open_strings(reader, *class, path)? {
                Some(strings) => {
                    for (number, key) in (0u32..).zip(candidates) {
                        let stored = match key {
                            KeyBytes::Str(text) => text.to_string(),
                            KeyBytes::Ip(bits) if *is_ip => schema::encode_ip(firn_query::aggs::address_of(*bits)),
                            _ => continue,
                        };
                        if let Some(ordinal) = strings.dictionary().term_ord(stored.as_bytes())? {
                            places.insert(ordinal, number);
                        }
                    }
                    Values::Column(strings.ords().clone())
                }
                None => Values::Nothing,
            },
            Source::Numbers { path, numeric } => {
                numbers(NumColumn::open(reader, path)?, numeric, candidates, &mut places)
            }
            Source::MetaNumbers(name) => numbers(
                NumColumn::open_named(reader, name)?,
                &Numeric::Integer,
                candidates,
                &mut places,
            ),
            Source::Constant(text) => {
                let own = KeyBytes::Str(text.as_str().into());
                let number = candidates.iter().position(|key| *key == own);
                number.map_or(Values::Nothing, |number| Values::Constant(number as u32))
            }
            Source::Nothing => Values::Nothing,
        };
        let filter = match &self.background {
            Some(weight) => Some(weight.scorer(reader, 1.0).map_err(failed)?),
            None => None,
        };
        Ok(Background {
            values,
            places,
            filter,
            counts: vec![0; candidates.len()],
            size: 0,
            block: ValueBlock::default(),
            docs: Vec::new(),
        })
    }
}

fn numbers(
    column: Option<NumColumn>,
    numeric: &Numeric,
    candidates: &[KeyBytes],
    places: &mut HashMap<u64, u32, Mixer>,
) -> Values {
    let Some(column) = column else {
        return Values::Nothing;
    };
    for (number, key) in (0u32..).zip(candidates) {
        let stored = match (Key::from(key.clone()), numeric) {
            (Key::F64(value), Numeric::Scaled(factor)) => Number::Float((value * factor).round()),
            (Key::F64(value), _) => Number::Float(value),
            (Key::I64(value), _) => Number::Int(i128::from(value) * i128::from(numeric.units_per_ms())),
            (Key::U64(value), _) => Number::Int(value.into()),
            _ => continue,
        };
        if let Place::At(raw) = column.place(stored) {
            places.insert(raw, number);
        }
    }
    Values::Column(column.column)
}

struct SignificantTermsCollector {
    terms: Box<dyn Collector>,
    is_mapped: bool,
    /// Documents by parent.
    sizes: Vec<u64>,
    memory: Memory,
}

impl Collector for SignificantTermsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.sizes.len() {
            self.memory.take((needed - self.sizes.len()) * size_of::<u64>())?;
            self.sizes.resize(needed, 0);
        }
        for &bucket in buckets {
            self.sizes[bucket as usize] += 1;
        }
        self.terms.collect(docs, buckets)
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.sizes.resize(bucket_count, 0);
        let mut partials = Vec::with_capacity(bucket_count);
        for (partial, subset_size) in self.terms.finish(bucket_count)?.into_iter().zip(self.sizes) {
            let Partial::Terms(terms) = partial else {
                return Err(Error::internal("[significant_terms] got no [terms] result"));
            };
            partials.push(Partial::SignificantTerms(SignificantTermsPartial {
                buckets: terms.buckets,
                subset_size,
                format: terms.format,
                is_mapped: self.is_mapped,
                ..SignificantTermsPartial::default()
            }));
        }
        Ok(partials)
    }
}

enum Values {
    Column(tantivy::columnar::Column<u64>),
    /// Every document has this candidate.
    Constant(u32),
    Nothing,
}

/// Counter of the documents of candidates, independent of the query.
pub(crate) struct Background {
    values: Values,
    /// Candidates by raw value.
    places: HashMap<u64, u32, Mixer>,
    filter: Option<Box<dyn Scorer>>,
    /// By candidate.
    counts: Vec<u64>,
    /// Documents of the background.
    size: u64,
    block: ValueBlock,
    docs: Vec<DocId>,
}

impl Background {
    /// Returns the counts.
    pub(crate) fn counted(self) -> Counted {
        Counted {
            counts: self.counts,
            size: self.size,
        }
    }

    /// Counts a block of all documents.
    pub(crate) fn collect(&mut self, docs: &[DocId]) {
        self.docs.clear();
        match &mut self.filter {
            Some(filter) => {
                let passing = docs.iter().copied().filter(|doc| matches(filter.as_mut(), *doc));
                self.docs.extend(passing);
            }
            None => self.docs.extend_from_slice(docs),
        }
        self.size += self.docs.len() as u64;
        match &self.values {
            Values::Nothing => {}
            Values::Constant(number) => self.counts[*number as usize] += self.docs.len() as u64,
            Values::Column(column) => {
                self.block.read(column, &self.docs);
                // A document counts once, even if it has the value several times.
                self.block.sort_distinct();
                for raw in &self.block.raws {
                    if let Some(number) = self.places.get(raw) {
                        self.counts[*number as usize] += 1;
                    }
                }
            }
        }
    }
}
