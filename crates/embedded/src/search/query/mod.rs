//! One file per query: from the parsed query to documents of a segment.

pub(super) mod bool_query;
pub(super) mod exists;
pub(super) mod ids;
pub(super) mod match_phrase;
pub(super) mod match_query;
pub(super) mod minimum;
pub(super) mod pattern;
pub(super) mod prefix;
pub(super) mod query_string;
pub(super) mod range;
pub(super) mod term;
pub(super) mod terms;
pub(super) mod wildcard;
