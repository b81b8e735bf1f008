//! Compilers of the query types, one file each: from the parsed query to documents of a segment.

pub(super) mod bool_query;
pub(super) mod boosting;
pub(super) mod dis_max;
pub(super) mod exists;
pub(super) mod expand;
pub(super) mod fuzzy;
pub(super) mod ids;
pub(super) mod lucene_regexp;
pub(super) mod match_phrase;
pub(super) mod minimum;
pub(super) mod multi_match;
pub(super) mod pattern;
pub(super) mod prefix;
pub(super) mod query_string;
pub(super) mod range;
pub(super) mod regexp;
pub(super) mod targets;
pub(super) mod term;
pub(super) mod terms;
pub(super) mod text;
pub(super) mod wildcard;

pub(super) use lucene_regexp::Expression;
pub(super) use pattern::Matcher;
