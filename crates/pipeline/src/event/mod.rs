//! Fields of one event, between a parser and what receives them.

mod value;

pub use value::Value;

/// Receiver of the fields of one record, in the order of the record.
///
/// A name may come twice; the receiver decides whether the last one wins or both are stored.
pub trait FieldSink<'a> {
    /// Receives one field. Names of nested fields are joined by dots.
    fn field(&mut self, name: &'a str, value: Value<'a>);
}

/// Collects all fields. For tests and for callers that are not hot.
impl<'a> FieldSink<'a> for Vec<(&'a str, Value<'a>)> {
    fn field(&mut self, name: &'a str, value: Value<'a>) {
        self.push((name, value));
    }
}
