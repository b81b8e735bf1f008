//! `ip_prefix` aggregation: a bucket per network.

use firn_model::Result;
use firn_query::aggs::{IpPrefix, KeyBytes, Partial, TermsPartial};
use firn_segment::columns::column;
use firn_segment::columns::column::ValueBlock;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::components::text_key;
use super::source::{self, Source};

/// `ip_prefix`, compiled.
pub(super) struct IpPrefixPlan {
    source: Source,
    part: IpPrefix,
    /// The network of documents without an address.
    missing: Option<u128>,
}

impl IpPrefixPlan {
    pub(super) fn compile(compiler: &Compiler, part: &IpPrefix) -> Result<Self> {
        let source = match Source::compile(compiler, &part.field)? {
            source @ Source::Strings { is_ip: true, .. } => source,
            _ if source::is_unmapped(compiler, &part.field) => Source::Nothing,
            _ => return Err(source::unsupported(compiler, &part.field, "ip_prefix")),
        };
        let missing = match &part.missing {
            Some(value) => match text_key(&source::stored_string(true, value)?, true) {
                KeyBytes::Ip(bits) => part.network(bits),
                _ => None,
            },
            None => None,
        };
        Ok(Self {
            source,
            part: part.clone(),
            missing,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let mut networks = Networks::default();
        let mut column = None;
        if let Source::Strings { class, path, .. } = &self.source
            && let Some(strings) = column::open_strings(&scope.segment.reader, *class, path)?
        {
            scope.memory.take(strings.num_terms() * size_of::<Option<u32>>())?;
            let mut terms = strings.dictionary().stream()?;
            while terms.advance() {
                let network = match text_key(&String::from_utf8_lossy(terms.key()), true) {
                    KeyBytes::Ip(bits) => self.part.network(bits),
                    _ => None,
                };
                let number = network.map(|network| networks.number(network));
                networks.by_ordinal.push(number);
            }
            column = Some(strings.ords().clone());
        }
        let missing = self.missing.map(|network| networks.number(network));
        let width = networks.addresses.len() as u64;
        Ok(Box::new(IpPrefixCollector {
            column,
            networks,
            missing,
            buckets: Buckets::new(Some(width), sub, scope.memory),
            values: ValueBlock::default(),
            own: Vec::new(),
        }))
    }
}

/// The networks of a segment, numbered.
#[derive(Default)]
struct Networks {
    addresses: Vec<u128>,
    by_ordinal: Vec<Option<u32>>,
}

impl Networks {
    /// Returns the number of a network. Terms are in the order of addresses, so a network is the last one or new,
    /// except for that of missing addresses.
    fn number(&mut self, network: u128) -> u32 {
        let known = match self.addresses.last() {
            Some(last) if *last <= network => (*last == network).then(|| self.addresses.len() - 1),
            _ => self.addresses.iter().position(|own| *own == network),
        };
        known.unwrap_or_else(|| {
            self.addresses.push(network);
            self.addresses.len() - 1
        }) as u32
    }
}

struct IpPrefixCollector {
    column: Option<Column<u64>>,
    networks: Networks,
    missing: Option<u32>,
    buckets: Buckets,
    values: ValueBlock,
    own: Vec<u32>,
}

impl Collector for IpPrefixCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        if let Some(column) = &self.column {
            self.values.read(column, docs);
        }
        let mut next = 0;
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            self.own.clear();
            let start = next;
            while self.column.is_some() && self.values.positions.get(next) == Some(&(position as u32)) {
                self.own
                    .extend(self.networks.by_ordinal[self.values.raws[next] as usize]);
                next += 1;
            }
            if start == next {
                self.own.extend(self.missing);
            }
            // A document counts once per network, even with several addresses in it.
            self.own.sort_unstable();
            self.own.dedup();
            for &network in &self.own {
                self.buckets.push(doc, parent, network.into());
            }
        }
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut partials = vec![TermsPartial::default(); bucket_count];
        for (entry, bucket) in self.buckets.finish()? {
            if let Some(partial) = partials.get_mut(entry.parent as usize) {
                let key = KeyBytes::Ip(self.networks.addresses[entry.key as usize]);
                partial.buckets.insert(key, bucket);
            }
        }
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }
}
