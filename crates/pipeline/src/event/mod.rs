//! Fields of one event, between a parser and what receives them.

mod value;

use std::borrow::Cow;

pub use value::Value;

/// Receiver of the fields of one record, in the order of the record.
///
/// A name may come twice; the receiver decides whether the last one wins or both are stored.
pub trait FieldSink<'a> {
    /// Receives one field. Names of nested fields are joined by dots.
    fn field(&mut self, name: &'a str, value: Value<'a>);

    /// Receives one field whose name does not stand in the record: `parts`, joined by dots, are its name.
    ///
    /// Parsers of nested formats (JSON, structured data of syslog) call this, so that no name is built for a field that
    /// the receiver ignores. There is no default, because it could only lose the field.
    fn joined(&mut self, parts: &[&str], value: Value<'a>);
}

/// Collects all fields. For tests and for callers that are not hot.
impl<'a> FieldSink<'a> for Vec<(Cow<'a, str>, Value<'a>)> {
    fn field(&mut self, name: &'a str, value: Value<'a>) {
        self.push((Cow::Borrowed(name), value));
    }

    fn joined(&mut self, parts: &[&str], value: Value<'a>) {
        self.push((Cow::Owned(parts.join(".")), value));
    }
}
