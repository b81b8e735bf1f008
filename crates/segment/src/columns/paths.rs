//! Terms and column names of a field's values in a segment, in the class fields.

use std::borrow::Cow;

use firn_model::mapping::Analyzer;
use tantivy::Term;
use tantivy::schema::{Field, IndexRecordOption};

use crate::schema::{self, Class};

/// Escapes backslashes: Tantivy splits a path at unescaped dots, and a backslash in a field name must stay literal.
fn escape(path: &str) -> Cow<'_, str> {
    if path.contains('\\') {
        Cow::Owned(path.replace('\\', "\\\\"))
    } else {
        Cow::Borrowed(path)
    }
}

/// Returns the term of a string value under `path` in the class field `field`.
pub fn term(field: Field, path: &str, value: &str) -> Term {
    let mut term = Term::from_field_json_path(field, &escape(path), true);
    term.append_type_and_str(value);
    term
}

/// Returns the prefix of the dictionary keys of all string values under `path`.
pub fn key_prefix(field: Field, path: &str) -> Vec<u8> {
    term(field, path, "").serialized_value_bytes().to_vec()
}

/// Returns the first key after all keys with this prefix. With an upper bound, later keys need not be fetched.
pub fn end_of(start: &[u8]) -> Vec<u8> {
    let mut end = start.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Returns the column of `path` in the class field `class_field`.
pub fn column_name(class_field: &str, path: &str) -> String {
    format!("{class_field}.{}", escape(path))
}

/// Returns the field with the terms of a class, and how to read its postings for scoring.
pub fn term_field(class: Class) -> Option<(Field, IndexRecordOption)> {
    let fields = schema::fields();
    match class {
        Class::Keyword => Some((fields.kw, IndexRecordOption::Basic)),
        Class::KeywordTerms => Some((fields.kw_terms, IndexRecordOption::Basic)),
        Class::Text(analyzer) => Some((text_field(analyzer), IndexRecordOption::WithFreqs)),
        Class::KeywordColumn | Class::Number | Class::None => None,
    }
}

/// Returns the field that holds text of an analyzer.
pub fn text_field(analyzer: Analyzer) -> Field {
    let fields = schema::fields();
    match analyzer {
        Analyzer::Standard => fields.text,
        Analyzer::Simple => fields.text_simple,
        Analyzer::Whitespace => fields.text_whitespace,
        Analyzer::Keyword => fields.text_keyword,
    }
}

/// Returns the string column of a class, if it has one.
pub fn string_column_name(class: Class, path: &str) -> Option<String> {
    match class {
        Class::Keyword => Some(column_name("kw", path)),
        Class::KeywordColumn => Some(column_name("kwc", path)),
        _ => None,
    }
}
