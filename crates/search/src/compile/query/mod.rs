//! Compilers of the query types, one file each: from the parsed query to documents of a segment.

pub(crate) mod bool_query;
pub(crate) mod boosting;
pub(crate) mod dis_max;
pub(crate) mod exists;
pub(crate) mod expand;
pub(crate) mod fuzzy;
pub(crate) mod ids;
pub(crate) mod lucene_regexp;
pub(crate) mod match_phrase;
pub(crate) mod matcher;
pub(crate) mod minimum;
pub(crate) mod multi_match;
pub(crate) mod nearest_terms;
pub(crate) mod pattern;
pub(crate) mod prefix;
pub(crate) mod query_string;
pub(crate) mod range;
pub(crate) mod regexp;
pub(crate) mod targets;
pub(crate) mod term;
pub(crate) mod term_pattern;
pub(crate) mod terms;
pub(crate) mod text;
pub(crate) mod wildcard;

pub(crate) use lucene_regexp::Expression;
pub(crate) use matcher::Matcher;
