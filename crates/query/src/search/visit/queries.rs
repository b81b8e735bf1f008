//! Parts of queries.

use firn_model::mapping::Analyzer;

use super::{Accept, Visitor, accept_fields, accept_variants};
use crate::query::{
    Bool, Boost, Boosting, ConstantScore, DisMax, Exists, Fuzziness, Fuzzy, FuzzyTerm, Ids, Kql, MatchAll, MultiMatch,
    MultiMatchType, Named, Query, QueryString, Range, Regexp, RegexpFlags, Rewrite, SimpleQueryFlags,
    SimpleQueryString, Term, TermPattern, Terms, TextOptions, TextQuery,
};

accept_variants!(Query as query {
    MatchAll(query),
    MatchNone,
    Term(query),
    Terms(query),
    Range(query),
    Exists(query),
    Ids(query),
    Match(query),
    MatchPhrase(query),
    MatchPhrasePrefix(query),
    MatchBoolPrefix(query),
    MultiMatch(query),
    Bool(query),
    DisMax(query),
    Boosting(query),
    ConstantScore(query),
    QueryString(query),
    SimpleQueryString(query),
    Kql(query),
    Prefix(query),
    Wildcard(query),
    Regexp(query),
    Fuzzy(query),
    Named(query),
});

accept_fields!(MatchAll { boost });
accept_fields!(Term {
    field,
    value,
    boost,
    case_insensitive
});
accept_fields!(Terms { field, values, boost });
accept_fields!(Range {
    field,
    lower,
    upper,
    format,
    time_zone,
    boost
});
accept_fields!(Exists { field, boost });
accept_fields!(Ids { values, boost });
accept_fields!(TextQuery {
    field,
    query,
    options,
    boost
});
accept_fields!(MultiMatch {
    query,
    fields,
    kind,
    tie_breaker,
    options,
    boost
});
accept_fields!(Bool {
    must,
    filter,
    should,
    must_not,
    minimum_should_match,
    boost
});
accept_fields!(DisMax {
    queries,
    tie_breaker,
    boost
});
accept_fields!(Boosting {
    positive,
    negative,
    negative_boost,
    boost
});
accept_fields!(ConstantScore { filter, boost });
accept_fields!(TermPattern {
    field,
    value,
    case_insensitive,
    rewrite,
    boost
});
accept_fields!(Regexp {
    pattern,
    flags,
    max_determinized_states
});
accept_fields!(FuzzyTerm {
    field,
    value,
    fuzziness,
    fuzzy,
    boost
});
accept_fields!(Named { name, query });

accept_fields!(TextOptions {
    analyzer,
    operator_and,
    minimum_should_match,
    fuzziness,
    fuzzy,
    slop,
    zero_terms_all,
    lenient
});
accept_fields!(Fuzzy {
    prefix_length,
    max_expansions,
    transpositions,
    rewrite
});
accept_variants!(Fuzziness {
    Auto { low, high },
    Edits(edits),
});
accept_variants!(Rewrite {
    Constant,
    Scoring,
    TopTerms(count),
    TopTermsBoost(count),
    TopTermsBlended(count),
});
accept_variants!(MultiMatchType {
    BestFields,
    MostFields,
    CrossFields,
    Phrase,
    PhrasePrefix,
    BoolPrefix,
});
accept_variants!(Analyzer {
    Standard,
    Simple,
    Whitespace,
    Keyword,
});

impl Accept for Boost {
    fn accept(&self, visitor: &mut dyn Visitor) {
        self.0.accept(visitor);
    }
}

impl Accept for RegexpFlags {
    fn accept(&self, visitor: &mut dyn Visitor) {
        self.bits().accept(visitor);
    }
}

impl Accept for SimpleQueryFlags {
    fn accept(&self, visitor: &mut dyn Visitor) {
        self.bits().accept(visitor);
    }
}

impl Accept for QueryString {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self {
            query,
            default_fields,
            options,
            kind,
            tie_breaker,
            quote_analyzer,
            quote_field_suffix,
            analyze_wildcard,
            allow_leading_wildcard,
            escape,
            rewrite,
            time_zone,
            boost,
            parsed,
        } = self;
        query.accept(visitor);
        default_fields.accept(visitor);
        options.accept(visitor);
        kind.accept(visitor);
        tie_breaker.accept(visitor);
        quote_analyzer.accept(visitor);
        quote_field_suffix.accept(visitor);
        analyze_wildcard.accept(visitor);
        allow_leading_wildcard.accept(visitor);
        escape.accept(visitor);
        rewrite.accept(visitor);
        time_zone.accept(visitor);
        boost.accept(visitor);
        visitor.syntax_tree(parsed);
    }
}

impl Accept for SimpleQueryString {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self {
            query,
            fields,
            options,
            flags,
            analyze_wildcard,
            quote_field_suffix,
            boost,
            parsed,
        } = self;
        query.accept(visitor);
        fields.accept(visitor);
        options.accept(visitor);
        flags.accept(visitor);
        analyze_wildcard.accept(visitor);
        quote_field_suffix.accept(visitor);
        boost.accept(visitor);
        visitor.syntax_tree(parsed);
    }
}

impl Accept for Kql {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self {
            query,
            default_field,
            time_zone,
            case_insensitive,
            boost,
            parsed: _,
            unmapped,
        } = self;
        query.accept(visitor);
        default_field.accept(visitor);
        time_zone.accept(visitor);
        case_insensitive.accept(visitor);
        boost.accept(visitor);
        visitor.kql_translation(unmapped);
    }
}
