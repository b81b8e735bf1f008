//! Compiled test of whole terms against a pattern.

use firn_model::{Error, ErrorKind, Result};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::lucene_regexp::Expression;

/// Most bytes of a compiled expression; a pattern may be compiled into two (forwards and backwards).
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Most bytes of an expression's cache over the terms it was tested on, per thread.
const REMEMBERED_BYTES_MAX: usize = 1 << 18;
/// The cache of an expression is at most about this many times its size.
const REMEMBERED_TIMES: usize = 8;

/// A compiled test of whole terms.
pub(crate) enum Matcher {
    Anything,
    Regex(Regex),
    Any(Vec<Matcher>),
    All(Vec<Matcher>),
    Not(Box<Matcher>),
}

impl Matcher {
    /// Compiles; `take` receives the bytes of each part.
    pub(crate) fn new(expression: &Expression, take: &mut dyn FnMut(usize) -> Result<()>) -> Result<Self> {
        let mut each = |parts: &[Expression]| {
            let parts = parts.iter().map(|part| Self::new(part, take));
            parts.collect::<Result<Vec<_>>>()
        };
        Ok(match expression {
            Expression::Any(parts) => Self::Any(each(parts)?),
            Expression::All(parts) => Self::All(each(parts)?),
            Expression::Not(part) => Self::Not(Box::new(Self::new(part, take)?)),
            Expression::Regex(text) => {
                let config = Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(COMPILED_BYTES_MAX))
                    .onepass_size_limit(Some(COMPILED_BYTES_MAX))
                    .hybrid_cache_capacity(REMEMBERED_BYTES_MAX);
                let regex = Regex::builder()
                    .configure(config)
                    .syntax(syntax::Config::new().utf8(false))
                    .build(&format!("^(?:{text})$"))
                    .map_err(|error| {
                        let reason = match error.size_limit() {
                            Some(limit) => format!("Compiled regex exceeds size limit of {limit} bytes."),
                            None => error.to_string(),
                        };
                        Error::new(ErrorKind::QueryShard, format!("failed to create query: {reason}"))
                    })?;
                let own = regex.memory_usage();
                take(own + text.len() + REMEMBERED_BYTES_MAX.min(own * REMEMBERED_TIMES))?;
                Self::Regex(regex)
            }
        })
    }

    /// Returns whether a term matches; the caller has checked the pattern's prefix.
    pub(crate) fn is_match(&self, term: &[u8]) -> bool {
        match self {
            Self::Anything => true,
            Self::Regex(regex) => regex.is_match(term),
            Self::Any(parts) => parts.iter().any(|part| part.is_match(term)),
            Self::All(parts) => parts.iter().all(|part| part.is_match(term)),
            Self::Not(part) => !part.is_match(term),
        }
    }
}
