//! Look-ups of an event in the tables that its pack names.

use std::borrow::Cow;
use std::sync::Arc;

use super::convert::{self, Context};
use super::ecs::Kind;
use super::items::{Item, Items, NO_SOURCE};
use super::pack::{Action, Pack};
use crate::event::Value;
use crate::tables::{Cell, TableHandle, Version};

/// A look-up of a pack, bound to the version of its table that was current at the last event.
#[derive(Debug)]
pub(crate) struct BoundLookup {
    /// Place in the pack.
    lookup: usize,
    handle: Arc<TableHandle>,
    version: Arc<Version>,
    /// Place in the columns of the pack, by the column of the table.
    columns: Vec<Option<usize>>,
    /// `name@version`, stamped on events.
    stamp: String,
    cache: Vec<Option<CachedRow>>,
}

/// Rows of a table that a mapper has at hand; a few addresses make most of the traffic, and a row of a MaxMind database costs
/// about 1 µs to decode.
const CACHED_ROWS: usize = 1024;

/// Row of a key, as the pack wants it.
#[derive(Debug)]
struct CachedRow {
    key: Box<str>,
    /// Place in the columns of the pack, and the value.
    cells: Vec<(usize, OwnedCell)>,
}

#[derive(Debug)]
enum OwnedCell {
    Text(Box<str>),
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl OwnedCell {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Text(text) => Self::Text(text.into()),
            Cell::Int(number) => Self::Int(number),
            Cell::Double(number) => Self::Double(number),
            Cell::Bool(value) => Self::Bool(value),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Text(text) => Cell::Text(text),
            Self::Int(number) => Cell::Int(*number),
            Self::Double(number) => Cell::Double(*number),
            Self::Bool(value) => Cell::Bool(*value),
        }
    }
}

impl BoundLookup {
    pub(crate) fn new(lookup: usize, handle: Arc<TableHandle>, pack: &Pack) -> Self {
        let version = Arc::clone(&handle.load());
        let mut bound = Self {
            lookup,
            columns: Vec::new(),
            stamp: String::new(),
            cache: Vec::new(),
            handle,
            version,
        };
        bound.bind(pack);
        bound
    }

    fn bind(&mut self, pack: &Pack) {
        let wanted = &pack.lookups[self.lookup].columns;
        let place = |name: &String| wanted.iter().position(|(column, _)| **column == **name);
        self.columns = self.version.table.columns().iter().map(place).collect();
        self.cache.clear();
        self.cache.resize_with(CACHED_ROWS, || None);
        self.stamp = format!("{}@{}", self.handle.name(), self.version.table.version());
    }

    /// Looks the key of the event up, and stores the columns in targets that have no value yet.
    pub(crate) fn look_up(&mut self, pack: &Pack, received: Option<i64>, items: &mut Items<'_>) {
        let lookup = &pack.lookups[self.lookup];
        if !items.is_filled(lookup.key) {
            return;
        }
        let current = self.handle.load();
        if !Arc::ptr_eq(&current, &self.version) {
            self.version = Arc::clone(&current);
            self.bind(pack);
        }
        // The key stands in the buffer that the columns are written to.
        let Some(key) = items.plain(lookup.key) else {
            return;
        };
        let mut buffer = [0u8; KEY_BYTES];
        let owned;
        let key = match buffer.get_mut(..key.len()) {
            Some(copy) => {
                copy.copy_from_slice(key.as_bytes());
                str::from_utf8(copy).unwrap_or_default()
            }
            None => {
                owned = key.to_owned();
                &owned
            }
        };
        let stamp = items.scratch(&self.stamp);
        items.append(pack.stamps.tables, stamp);
        let context = Context {
            pack,
            received,
            source: NO_SOURCE,
        };
        let slot = &mut self.cache[super::names::hash(key) as usize % CACHED_ROWS];
        if slot.as_ref().is_none_or(|row| *row.key != *key) {
            let mut cells = Vec::new();
            let columns = &self.columns;
            self.version.table.look_up(key, &mut |column, cell| {
                cells.extend(columns[column].map(|place| (place, OwnedCell::of(cell))));
            });
            *slot = Some(CachedRow { key: key.into(), cells });
        }
        for (place, cell) in slot.iter().flat_map(|row| &row.cells) {
            if let Some((_, action)) = lookup.columns.get(*place) {
                store(context, action, cell.cell(), items);
            }
        }
    }
}

/// Keys up to this length are copied without an allocation.
const KEY_BYTES: usize = 64;

fn store(context: Context<'_>, action: &Action, cell: Cell<'_>, items: &mut Items<'_>) {
    let item = match (cell, action.kind) {
        (Cell::Text(text), Kind::Keyword) if action.is_plain => items.scratch(text),
        (Cell::Int(number), Kind::Long) => Item::Int(number),
        (Cell::Bool(value), Kind::Boolean) => Item::Bool(value),
        (Cell::Double(number), Kind::Double) if number.is_finite() => {
            use std::fmt::Write;
            let start = items.scratch.len() as u32;
            let _ = write!(items.scratch, "{number}");
            Item::ScratchJson(start, items.scratch.len() as u32)
        }
        (cell, _) => {
            let text = match cell {
                Cell::Text(text) => text.to_owned(),
                Cell::Int(number) => number.to_string(),
                Cell::Double(number) => number.to_string(),
                Cell::Bool(value) => value.to_string(),
            };
            convert::apply(context, action, &Value::Text(Cow::Owned(text)), items);
            return;
        }
    };
    if action.is_list {
        items.append(action.target, item);
    } else {
        items.set(action.target, item, action.rank, NO_SOURCE);
    }
    if let Some(related) = action.related {
        items.append(related, item);
    }
}
