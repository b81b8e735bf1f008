//! Compiler from a parsed query to a weight that runs on the segments of one shard.

mod compiler;
pub(crate) mod field;
pub(crate) mod limits;
pub(crate) mod phrase;
pub(crate) mod query;
pub(crate) mod scored_term;
pub(crate) mod slice;
pub(crate) mod statistics;
pub(crate) mod string_scan;
pub(crate) mod term_union;
pub(crate) mod text;
pub(crate) mod weight;

use firn_model::Result;
use firn_query::query::Query;

pub(crate) use self::compiler::Compiler;
use self::query::text::Kind;
use self::weight::Compiled;
use crate::run::preemption::in_turn;

impl Compiler<'_> {
    /// Compiles a query.
    pub(super) fn compile(&self, query: &Query) -> Result<Compiled> {
        self.guard.take_clauses(1)?;
        let stop = &self.guard.stop;
        stop.turn()?;
        Ok(in_turn(self.compile_part(query)?, stop))
    }

    fn compile_part(&self, query: &Query) -> Result<Compiled> {
        let scoring = self.scoring();
        match query {
            Query::MatchAll(all) => Ok(Compiled::All.constant(all.boost, scoring)),
            Query::MatchNone => Ok(Compiled::None),
            Query::Term(term) => query::term::compile(self, term),
            Query::Terms(terms) => query::terms::compile(self, terms),
            Query::Range(range) => query::range::compile(self, range),
            Query::Exists(exists) => query::exists::compile(self, exists),
            Query::Ids(ids) => query::ids::compile(self, ids),
            Query::Match(part) => query::text::compile(self, part, Kind::Terms),
            Query::MatchPhrase(part) => query::text::compile(self, part, Kind::Phrase),
            Query::MatchPhrasePrefix(part) => query::text::compile(self, part, Kind::PhrasePrefix),
            Query::MatchBoolPrefix(part) => query::text::compile(self, part, Kind::BoolPrefix),
            Query::MultiMatch(part) => query::multi_match::compile(self, part),
            Query::Bool(part) => query::bool_query::compile(self, part),
            Query::DisMax(part) => query::dis_max::compile(self, part),
            Query::Boosting(part) => query::boosting::compile(self, part),
            Query::ConstantScore(part) => Ok(self.filter().compile(&part.filter)?.constant(part.boost, scoring)),
            Query::QueryString(part) => query::query_string::compile(self, part),
            Query::SimpleQueryString(part) => query::query_string::compile_simple(self, part),
            Query::Kql(part) => self.compile(&part.lower(self.mapping)?),
            Query::Prefix(part) => query::prefix::compile(self, part),
            Query::Wildcard(part) => query::wildcard::compile(self, part),
            Query::Regexp(part) => query::regexp::compile(self, part),
            Query::Fuzzy(part) => query::fuzzy::compile(self, part),
            Query::Named(part) => self.compile(&part.query),
        }
    }
}
