//! Windows events as XML: what `EvtRender`, Winlogbeat and `wevtutil /f:xml` write.
//!
//! Follows "Event Schema" of the Windows Event Log reference. One `Event` element is flattened: elements and attributes make
//! dotted names without `Event` and without namespace prefixes, `<Data Name="X">` is `EventData.X`, an unnamed `<Data>` is
//! `EventData.Data`. The attribute `Qualifiers` of `EventID` is `System.Qualifiers`, so that `System.EventID` stays a value.
//! All values are text; empty elements are pushed only if they are `Data`.
//!
//! The scanner is our own: events are plain XML without document types, and each value is borrowed. It refuses document
//! types, so that no entity expands.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::scan::{Attributes, Scanner, Token};
use super::ParseError;
use crate::event::{FieldSink, Value};

/// Elements inside each other at most. Events have five levels.
pub const DEPTH_MAX: usize = 32;

/// An element that is open.
struct Open<'a> {
    /// Its name without a namespace prefix, which the closing tag must repeat.
    tag: &'a str,
    /// Its part of the dotted name.
    part: Cow<'a, str>,
    text: Option<Cow<'a, str>>,
    has_children: bool,
}

/// Parses one event and pushes its fields in the order of the record.
///
/// # Errors
/// If the record is no well-formed `Event` element, has a document type, or is deeper than [`DEPTH_MAX`]. The fields before
/// the fault have been pushed.
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let mut scanner = Scanner::new(record);
    let mut open: Vec<Open<'a>> = Vec::new();
    let mut is_done = false;
    while let Some(token) = scanner.next()? {
        match token {
            Token::Start {
                tag,
                attributes,
                closed,
            } => {
                if open.is_empty() && (is_done || tag != "Event") {
                    return Err(scanner.error("one `Event` element"));
                }
                if open.len() == DEPTH_MAX {
                    return Err(scanner.error("at most 32 levels"));
                }
                if let Some(parent) = open.last_mut() {
                    parent.has_children = true;
                }
                start(&mut open, tag, attributes, sink);
                if closed {
                    is_done |= end(&mut open, sink);
                }
            }
            Token::End { tag } => {
                if open.last().is_none_or(|element| element.tag != tag) {
                    return Err(scanner.error("the closing tag of the open element"));
                }
                is_done |= end(&mut open, sink);
            }
            Token::Text(text) => match open.last_mut() {
                Some(element) => add_text(element, text),
                None if text.trim().is_empty() => {}
                None => return Err(scanner.error("nothing outside the `Event` element")),
            },
        }
    }
    if is_done {
        Ok(())
    } else {
        Err(scanner.error("the end of the `Event` element"))
    }
}

fn start<'a, S: FieldSink<'a> + ?Sized>(
    open: &mut Vec<Open<'a>>,
    tag: &'a str,
    attributes: Attributes<'a>,
    sink: &mut S,
) {
    let is_data = tag == "Data";
    let mut part = Cow::Borrowed(tag);
    if is_data && let Some((_, name)) = attributes.clone().find(|(name, _)| *name == "Name") {
        part = name;
    }
    open.push(Open {
        tag,
        part,
        text: None,
        has_children: false,
    });
    for (name, value) in attributes {
        if is_data || name == "xmlns" || open.len() == 1 {
            continue;
        }
        let level = if tag == "EventID" { open.len() - 1 } else { open.len() };
        push(&open[1..level], Some(name), Value::Text(value), sink);
    }
}

/// Closes the innermost element and pushes its text. True if it was the outermost.
fn end<'a, S: FieldSink<'a> + ?Sized>(open: &mut Vec<Open<'a>>, sink: &mut S) -> bool {
    let Some(element) = open.last_mut() else { return false };
    let text = element.text.take();
    let is_leaf = !element.has_children;
    let is_data = element.tag == "Data";
    if is_leaf && open.len() > 1 {
        let text = text.unwrap_or(Cow::Borrowed(""));
        if is_data || !text.trim().is_empty() {
            push(&open[1..], None, Value::Text(text), sink);
        }
    }
    open.pop();
    open.is_empty()
}

/// Adds text to an element. Text around child elements is indentation and dropped with the element's end.
fn add_text<'a>(element: &mut Open<'a>, text: Cow<'a, str>) {
    element.text = Some(match element.text.take() {
        None => text,
        Some(before) => Cow::Owned(before.into_owned() + &text),
    });
}

fn push<'a, S: FieldSink<'a> + ?Sized>(path: &[Open<'a>], last: Option<&str>, value: Value<'a>, sink: &mut S) {
    let mut parts = [""; DEPTH_MAX + 1];
    let names = path.iter().map(|element| &*element.part).chain(last);
    let mut count = 0;
    for (part, name) in parts.iter_mut().zip(names) {
        *part = name;
        count += 1;
    }
    sink.joined(&parts[..count], value);
}
