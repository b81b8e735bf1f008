//! `string_stats` aggregation: counts ordinals, and reads every distinct string once at the end.

use std::collections::HashMap;

use firn_model::Result;
use firn_query::aggs::{Partial, StringStats, StringStatsPartial};
use firn_segment::columns::column;
use firn_segment::columns::column::ValueBlock;
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema;
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope};
use super::source::{self, Source};
use super::table::Mixer;
use crate::run::memory::Memory;

const NAME: &str = "string_stats";

/// Approximate bytes of a counted ordinal.
const ENTRY_BYTES: usize = 40;

/// `string_stats`, compiled.
pub(super) struct StringStatsPlan {
    source: Source,
    /// In printed form.
    missing: Option<String>,
}

impl StringStatsPlan {
    pub(super) fn compile(compiler: &Compiler, part: &StringStats) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        if matches!(source, Source::Numbers { .. } | Source::MetaNumbers(_)) {
            return Err(source::unsupported(compiler, &part.field, NAME));
        }
        let missing = part.missing.as_ref().map(|value| source::stored_string(false, value));
        Ok(Self {
            source,
            missing: missing.transpose()?,
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let (values, is_ip) = match &self.source {
            Source::Strings { class, path, is_ip } => {
                let strings = column::open_strings(reader, *class, path)?;
                (strings.map_or(Values::Nothing, Values::Strings), *is_ip)
            }
            Source::Constant(text) => (Values::One(text.clone()), false),
            Source::Numbers { .. } | Source::MetaNumbers(_) | Source::Nothing => (Values::Nothing, false),
        };
        Ok(Box::new(StringStatsCollector {
            values,
            is_ip,
            missing: self.missing.clone(),
            counts: HashMap::default(),
            constants: Vec::new(),
            block: ValueBlock::default(),
            memory: scope.memory.clone(),
        }))
    }
}

enum Values {
    Strings(StrColumn),
    /// The same value for every document.
    One(String),
    Nothing,
}

struct StringStatsCollector {
    values: Values,
    is_ip: bool,
    missing: Option<String>,
    /// By parent bucket and ordinal.
    counts: HashMap<(u32, u64), u64, Mixer>,
    /// By parent bucket: documents with the constant value, or without any value.
    constants: Vec<u64>,
    block: ValueBlock,
    memory: Memory,
}

impl Collector for StringStatsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.constants.len() {
            self.memory.take((needed - self.constants.len()) * size_of::<u64>())?;
            self.constants.resize(needed, 0);
        }
        let Values::Strings(strings) = &self.values else {
            for &bucket in buckets {
                self.constants[bucket as usize] += 1;
            }
            return Ok(());
        };
        self.block.read(strings.ords(), docs);
        self.block.sort_distinct();
        let before = self.counts.len();
        for (&position, &ordinal) in self.block.positions.iter().zip(&self.block.raws) {
            *self.counts.entry((buckets[position as usize], ordinal)).or_default() += 1;
        }
        self.memory.take((self.counts.len() - before) * ENTRY_BYTES)?;
        if self.missing.is_some() {
            let mut next = 0;
            for (position, &bucket) in buckets.iter().enumerate() {
                let start = next;
                while self.block.positions.get(next) == Some(&(position as u32)) {
                    next += 1;
                }
                self.constants[bucket as usize] += u64::from(next == start);
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut partials = vec![StringStatsPartial::default(); bucket_count];
        let constant = match &self.values {
            Values::One(text) => Some(text.as_str()),
            Values::Strings(_) | Values::Nothing => self.missing.as_deref(),
        };
        let mut grown = 0;
        if let Some(text) = constant {
            for (partial, count) in partials.iter_mut().zip(&self.constants) {
                if *count > 0 {
                    grown += partial.add(text, *count);
                }
            }
        }
        if let Values::Strings(strings) = &self.values {
            let counts = self.counts.drain();
            let mut counts: Vec<(u64, u32, u64)> = counts
                .map(|((bucket, ordinal), count)| (ordinal, bucket, count))
                .collect();
            counts.sort_unstable();
            let ordinals: Vec<u64> = counts.iter().map(|(ordinal, ..)| *ordinal).collect();
            let mut counts = counts.into_iter();
            strings.dictionary().sorted_ords_to_term_cb(&ordinals, |term| {
                let Some((_, bucket, count)) = counts.next() else {
                    return;
                };
                let text = String::from_utf8_lossy(term);
                let address = self.is_ip.then(|| schema::decode_ip(&text)).flatten();
                if let Some(partial) = partials.get_mut(bucket as usize) {
                    grown += match address {
                        Some(address) => partial.add(&address.to_string(), count),
                        None => partial.add(&text, count),
                    };
                }
            })?;
        }
        self.memory.take(grown)?;
        Ok(partials.into_iter().map(Partial::StringStats).collect())
    }
}
