//! Fields of one record as the parser pushed them: those that the pack knows by their numbers, and the others.

use std::borrow::Cow;

use super::names::NameTable;
use super::pack::Pack;
use super::scan::unescape;
use crate::event::{FieldSink, Value};

/// A field that no rule of the pack reads, or whose value did not convert.
#[derive(Debug)]
pub(crate) struct Unmapped<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Value<'a>,
}

/// Number of a field that was consumed.
pub(crate) const CONSUMED: u16 = u16::MAX;

/// Buffers of [`RawFields`] between two events.
#[derive(Debug, Default)]
pub(crate) struct RawBuffers {
    known: Vec<(u16, Value<'static>)>,
    unmapped: Vec<Unmapped<'static>>,
    places: Vec<u32>,
}

/// Fields of one record.
pub(crate) struct RawFields<'a, 'p> {
    names: &'p NameTable,
    /// Objects that are left out of the names of unmapped fields.
    objects: &'p [Box<str>],
    /// Number and value, in the order of the record.
    pub(crate) known: Vec<(u16, Value<'a>)>,
    pub(crate) unmapped: Vec<Unmapped<'a>>,
    /// Place + 1 of the first value in `known`, by the number of the field.
    places: Vec<u32>,
    /// Half of a surrogate pair was replaced.
    pub(crate) has_replacements: bool,
}

impl<'a, 'p> RawFields<'a, 'p> {
    pub(crate) fn of(pack: &'p Pack, buffers: &mut RawBuffers) -> Self {
        Self::new(&pack.fields, &pack.objects, buffers)
    }

    fn new(names: &'p NameTable, objects: &'p [Box<str>], buffers: &mut RawBuffers) -> Self {
        let mut places = std::mem::take(&mut buffers.places);
        places.resize(names.len(), 0);
        Self {
            names,
            objects,
            known: recycle(std::mem::take(&mut buffers.known)),
            unmapped: recycle(std::mem::take(&mut buffers.unmapped)),
            places,
            has_replacements: false,
        }
    }

    /// Gives the buffers back, empty.
    pub(crate) fn return_to(mut self, buffers: &mut RawBuffers) {
        for (number, _) in self.known.iter().filter(|(number, _)| *number != CONSUMED) {
            self.places[usize::from(*number)] = 0;
        }
        buffers.places = self.places;
        self.known.clear();
        buffers.known = recycle(self.known);
        self.unmapped.clear();
        buffers.unmapped = recycle(self.unmapped);
    }

    #[inline]
    pub(crate) fn push_known(&mut self, number: u16, value: Value<'a>) {
        let place = &mut self.places[usize::from(number)];
        self.known.push((number, value));
        if *place == 0 {
            *place = self.known.len() as u32;
        }
    }

    #[inline]
    pub(crate) fn push_unmapped(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        self.unmapped.push(Unmapped { name, value });
    }

    /// Returns the first value of a field.
    pub(crate) fn get(&self, number: u16) -> Option<&Value<'a>> {
        let place = self.places[usize::from(number)].checked_sub(1)?;
        self.known.get(place as usize).map(|(_, value)| value)
    }

    /// Takes the first value of a field out of the event.
    pub(crate) fn consume(&mut self, number: u16) -> Option<Value<'a>> {
        let place = std::mem::take(&mut self.places[usize::from(number)]).checked_sub(1)?;
        let (number, value) = self.known.get_mut(place as usize)?;
        *number = CONSUMED;
        Some(std::mem::replace(value, Value::Null))
    }

    /// Returns the first value of a field as text; nothing for null, arrays and objects.
    pub(crate) fn text(&self, number: u16) -> Option<Cow<'_, str>> {
        text_of(self.get(number)?)
    }
}

impl<'a> FieldSink<'a> for RawFields<'a, '_> {
    #[inline]
    fn field(&mut self, name: &'a str, value: Value<'a>) {
        match self.names.find(name) {
            Some(number) => self.push_known(number, value),
            None => {
                let inside = self.objects.iter().find_map(|object| name.strip_prefix(&**object));
                self.push_unmapped(Cow::Borrowed(inside.unwrap_or(name)), value);
            }
        }
    }

    fn joined(&mut self, parts: &[&str], value: Value<'a>) {
        let name = parts.join(".");
        match self.names.find(&name) {
            Some(number) => self.push_known(number, value),
            None => {
                let inside = self.objects.iter().find_map(|object| name.strip_prefix(&**object));
                let name = inside.map_or_else(|| name.clone(), str::to_owned);
                self.push_unmapped(Cow::Owned(name), value);
            }
        }
    }
}

/// Returns a scalar as text.
pub(crate) fn text_of<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    Some(match value {
        Value::Null | Value::Json(_) => return None,
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Int(number) => Cow::Owned(number.to_string()),
        Value::Number(text) | Value::Text(text) => Cow::Borrowed(text),
        Value::Escaped(inside) => {
            let mut text = String::with_capacity(inside.len());
            unescape(inside, &mut text);
            Cow::Owned(text)
        }
    })
}

/// Returns the memory of an empty vector as one for values of another lifetime. The collection is done in place.
pub(crate) fn recycle<T, U>(mut values: Vec<T>) -> Vec<U> {
    values.clear();
    values.into_iter().filter_map(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_memory_is_not_allocated_again() {
        let mut values: Vec<(u16, Value<'static>)> = Vec::with_capacity(100);
        values.push((1, Value::Null));
        let pointer = values.as_ptr() as usize;
        let recycled: Vec<(u16, Value<'_>)> = recycle(values);
        assert_eq!(recycled.as_ptr() as usize, pointer);
        assert!(recycled.is_empty() && recycled.capacity() == 100);
    }

    #[test]
    fn the_first_value_of_a_field_is_found() {
        let names = NameTable::new(&["a", "b"]);
        let mut buffers = RawBuffers::default();
        let mut fields = RawFields::new(&names, &[], &mut buffers);
        fields.field("a", Value::Int(1));
        fields.field("a", Value::Int(2));
        fields.field("c", Value::Int(3));
        assert_eq!(fields.get(0), Some(&Value::Int(1)));
        assert_eq!(fields.get(1), None);
        assert_eq!(fields.unmapped.len(), 1);
        fields.return_to(&mut buffers);
        assert_eq!(RawFields::new(&names, &[], &mut buffers).get(0), None);
    }
}
