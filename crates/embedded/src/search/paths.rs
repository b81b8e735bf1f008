//! Where a field's values stand in a segment: terms and column names of the class fields.

use std::borrow::Cow;

use firn_model::mapping::Analyzer;
use tantivy::Term;
use tantivy::schema::{Field, IndexRecordOption};

use crate::schema::{self, Class};

/// Tantivy splits a path at unescaped dots; a backslash in a field's name must stay itself.
fn escape(path: &str) -> Cow<'_, str> {
    if path.contains('\\') {
        Cow::Owned(path.replace('\\', "\\\\"))
    } else {
        Cow::Borrowed(path)
    }
}

/// The term of a string value under `path` in the class field `field`.
pub(crate) fn term(field: Field, path: &str, value: &str) -> Term {
    let mut term = Term::from_field_json_path(field, &escape(path), true);
    term.append_type_and_str(value);
    term
}

/// The start that the dictionary keys of all string values under `path` share.
pub(super) fn key_prefix(field: Field, path: &str) -> Vec<u8> {
    term(field, path, "").serialized_value_bytes().to_vec()
}

/// The first key after all that begin so. What is not asked for need not be fetched.
pub(crate) fn end_of(start: &[u8]) -> Vec<u8> {
    let mut end = start.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The column of `path` in the class field called `class_field`.
pub(crate) fn column_name(class_field: &str, path: &str) -> String {
    format!("{class_field}.{}", escape(path))
}

/// The field with the terms of a class, and how its postings are to be read for scoring.
pub(super) fn term_field(class: Class) -> Option<(Field, IndexRecordOption)> {
    let fields = schema::fields();
    match class {
        Class::Keyword => Some((fields.kw, IndexRecordOption::Basic)),
        Class::KeywordTerms => Some((fields.kw_terms, IndexRecordOption::Basic)),
        Class::Text(analyzer) => Some((text_field(analyzer), IndexRecordOption::WithFreqs)),
        Class::KeywordColumn | Class::Number | Class::None => None,
    }
}

/// The field that holds text of an analyzer.
pub(super) fn text_field(analyzer: Analyzer) -> Field {
    let fields = schema::fields();
    match analyzer {
        Analyzer::Standard => fields.text,
        Analyzer::Simple => fields.text_simple,
        Analyzer::Whitespace => fields.text_whitespace,
        Analyzer::Keyword => fields.text_keyword,
    }
}

/// The column of strings of a class, if it has one.
pub(super) fn string_column_name(class: Class, path: &str) -> Option<String> {
    match class {
        Class::Keyword => Some(column_name("kw", path)),
        Class::KeywordColumn => Some(column_name("kwc", path)),
        _ => None,
    }
}
