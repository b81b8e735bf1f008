//! `_terms_enum`: the values of a field with a given prefix, from the dictionaries of segments.

use std::collections::BTreeMap;
use std::time::Instant;

use firn_engine::RequestContext;
use firn_engine::terms_enum::TermsEnumRequest;
use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_segment::columns::{column, paths};
use firn_segment::schema;
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::catch;

use super::{ShardSearch, TenantRestriction};
use crate::compile::field;
use crate::compile::field::{Field, Meta, Target, parse_ip_or_block};
use crate::tenancy::tenant_docs;
use crate::tenancy::tenant_terms::OwnTerms;

/// Terms between two checks for timeout and cancellation.
const CHECK_EVERY: u64 = 4096;

/// Terms found so far in several shards.
pub struct FoundTerms<'a> {
    request: &'a TermsEnumRequest,
    ctx: &'a RequestContext,
    deadline: Option<Instant>,
    /// The sort keys of the terms with their printed forms: the first ones, at most as many as requested.
    terms: BTreeMap<Vec<u8>, String>,
    /// The request timed out.
    pub timed_out: bool,
}

impl<'a> FoundTerms<'a> {
    /// Creates an empty list.
    pub fn new(request: &'a TermsEnumRequest, ctx: &'a RequestContext) -> Self {
        Self {
            request,
            ctx,
            deadline: ctx.started.checked_add(request.timeout),
            terms: BTreeMap::new(),
            timed_out: false,
        }
    }

    /// Returns the terms, in order.
    pub fn into_terms(self) -> Vec<String> {
        self.terms.into_values().collect()
    }

    /// Adds the terms of a shard. Fields without listable terms (numbers, texts) add none.
    pub fn add(&mut self, shard: &ShardSearch) -> Result<()> {
        catch(|| self.add_all(shard))
    }

    fn add_all(&mut self, shard: &ShardSearch) -> Result<()> {
        if !shard.filters.is_empty() {
            // A dictionary does not know which documents an alias shows.
            return Err(Error::not_implemented("[_terms_enum] on an alias with a filter"));
        }
        let field = match field::resolve(&shard.mapping, &self.request.field) {
            Target::Meta(Meta::Index) => {
                self.take_text(&shard.snapshot.index);
                return Ok(());
            }
            Target::Field(field) => field,
            Target::Meta(_) | Target::Nothing => return Ok(()),
        };
        if field.field_type == FieldType::ConstantKeyword {
            let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
            if let Some(constant) = constant {
                self.take_text(constant);
            }
            return Ok(());
        }
        if !matches!(field.class, Class::Keyword | Class::KeywordTerms | Class::KeywordColumn) {
            return Ok(());
        }
        for segment in &shard.snapshot.segments {
            if self.is_over()? {
                return Ok(());
            }
            self.add_segment(segment, &field, shard.tenant.as_ref())?;
        }
        Ok(())
    }

    fn add_segment(&mut self, segment: &Segment, field: &Field, tenant: Option<&TenantRestriction>) -> Result<()> {
        let reader = &segment.reader;
        let strings = column::open_strings(reader, field.class, &field.path)?;
        let own = match (tenant, &strings) {
            (Some(tenant), Some(strings)) => Some(tenant_docs::ordinals(segment, tenant, strings)?),
            _ => None,
        };
        let own_terms = OwnTerms::new(segment, tenant)?;
        let ctx = self.ctx;
        // Whether the caller may see a value: a tenant sees only values of its documents.
        let is_seen = |value: &[u8]| -> Result<bool> {
            match (tenant, &strings, &own) {
                (None, _, _) => Ok(true),
                (Some(_), Some(strings), Some(own)) => Ok(strings
                    .dictionary()
                    .term_ord(value)?
                    .is_some_and(|ordinal| own.contains(&ordinal))),
                (Some(_), _, _) => match (paths::term_field(field.class), std::str::from_utf8(value)) {
                    (Some((terms, _)), Ok(text)) => {
                        let index = reader.inverted_index(terms).map_err(column::failed)?;
                        let term = index.get_term_info(&paths::term(terms, &field.path, text))?;
                        term.map_or(Ok(false), |term| own_terms.contain(&index, &term, &|| ctx.check()))
                    }
                    _ => Ok(false),
                },
            }
        };
        let is_ip = field.field_type == FieldType::Ip;
        let start = self.start(is_ip);
        match paths::term_field(field.class) {
            Some((terms, _)) => {
                let key = paths::key_prefix(terms, &field.path);
                let index = reader.inverted_index(terms).map_err(column::failed)?;
                let from = [key.as_slice(), &start].concat();
                let mut stream = index.terms().range().ge(&from).lt(paths::end_of(&key)).into_stream()?;
                self.walk(is_ip, &is_seen, || match stream.advance() {
                    true => Ok(stream.key().strip_prefix(key.as_slice()).map(<[u8]>::to_vec)),
                    false => Ok(None),
                })
            }
            None => {
                let Some(strings) = &strings else {
                    return Ok(());
                };
                let mut stream = strings.dictionary().range().ge(&start).into_stream()?;
                self.walk(is_ip, &is_seen, || Ok(stream.advance().then(|| stream.key().to_vec())))
            }
        }
    }

    /// Returns the start of the walk: the prefix, or the last term of the previous page.
    fn start(&self, is_ip: bool) -> Vec<u8> {
        let after = match &self.request.search_after {
            Some(after) if is_ip => encoded_ip(after),
            Some(after) => Some(after.clone().into_bytes()),
            None => None,
        };
        // The printed form of an address has no relation to its order, and a case-insensitive prefix may be
        // anywhere.
        let prefix = match is_ip || self.request.case_insensitive {
            true => Vec::new(),
            false => self.request.string.clone().into_bytes(),
        };
        after.map_or(prefix.clone(), |after| after.max(prefix))
    }

    /// Takes terms in order, until there are enough or the remaining ones cannot match.
    fn walk(
        &mut self,
        is_ip: bool,
        is_seen: &dyn Fn(&[u8]) -> Result<bool>,
        mut next: impl FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let after = match &self.request.search_after {
            Some(after) if is_ip => encoded_ip(after),
            Some(after) => Some(after.clone().into_bytes()),
            None => None,
        };
        let mut read = 0u64;
        let mut taken = 0;
        while let Some(term) = next()? {
            read += 1;
            if read.is_multiple_of(CHECK_EVERY) && self.is_over()? {
                return Ok(());
            }
            let in_order = !is_ip && !self.request.case_insensitive;
            if in_order && !term.starts_with(self.request.string.as_bytes()) {
                return Ok(());
            }
            if after.as_ref().is_some_and(|after| term <= *after) {
                continue;
            }
            let Ok(text) = String::from_utf8(term.clone()) else {
                continue;
            };
            let text = match is_ip {
                true => match schema::decode_ip(&text) {
                    Some(address) => address.to_string(),
                    None => continue,
                },
                false => text,
            };
            if !self.begins(&text) || !is_seen(&term)? {
                continue;
            }
            taken += 1;
            if !self.take(term, text) || taken >= self.request.size {
                return Ok(());
            }
        }
        Ok(())
    }

    fn begins(&self, text: &str) -> bool {
        let start = &self.request.string;
        match self.request.case_insensitive {
            true => text
                .as_bytes()
                .get(..start.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(start.as_bytes())),
            false => text.starts_with(start.as_str()),
        }
    }

    /// Adds a value that is not in a dictionary.
    fn take_text(&mut self, text: &str) {
        let is_new = self.request.search_after.as_deref().is_none_or(|after| text > after);
        if is_new && self.begins(text) {
            self.take(text.as_bytes().to_vec(), text.to_owned());
        }
    }

    /// Adds a term; returns false if no later term can be among the first.
    fn take(&mut self, term: Vec<u8>, text: String) -> bool {
        let is_full = self.terms.len() >= self.request.size;
        if is_full && self.terms.last_key_value().is_some_and(|(last, _)| term > *last) {
            return false;
        }
        self.terms.insert(term, text);
        if self.terms.len() > self.request.size {
            self.terms.pop_last();
        }
        true
    }

    fn is_over(&mut self) -> Result<bool> {
        self.ctx.check()?;
        self.timed_out |= self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        Ok(self.timed_out)
    }
}

fn encoded_ip(text: &str) -> Option<Vec<u8>> {
    let (address, _) = parse_ip_or_block(text)?;
    Some(schema::encode_ip(address).into_bytes())
}
