//! Path of a field: names and places in lists, joined by dots.

use super::super::failure::Failure;

/// Elements of a path. More is refused: no document nests deeper.
const ELEMENTS_MAX: usize = 512;

/// Where a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The source with the metadata.
    Document,
    /// `_ingest`.
    Ingest,
}

/// A parsed path: `a.b.0.c`, `_source.a`, `_ingest.timestamp`, `_index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(super) root: Root,
    pub(super) elements: Vec<String>,
    text: String,
}

impl Path {
    /// Parses a path.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(Failure::illegal("path cannot be null nor empty"));
        }
        let (root, rest) = if let Some(rest) = text.strip_prefix("_ingest.") {
            (Root::Ingest, rest)
        } else {
            (Root::Document, text.strip_prefix("_source.").unwrap_or(text))
        };
        let mut elements: Vec<String> = rest.split('.').map(str::to_owned).collect();
        // Java's `split` drops empty elements at the end.
        while elements.len() > 1 && elements.last().is_some_and(String::is_empty) {
            elements.pop();
        }
        if elements.len() > ELEMENTS_MAX || (elements.len() == 1 && elements[0].is_empty()) {
            return Err(Failure::illegal(format!("path [{text}] is not valid")));
        }
        Ok(Self {
            root,
            elements,
            text: text.to_owned(),
        })
    }

    /// Returns the path as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the path of a field of the root whose name may have dots.
    pub(crate) fn with_one_name(self, name: &str) -> Self {
        Self {
            root: Root::Document,
            elements: vec![name.to_owned()],
            ..self
        }
    }
}
