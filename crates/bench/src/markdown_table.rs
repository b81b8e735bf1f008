//! Markdown table with aligned columns, which is also readable in a terminal.

use std::fmt::Write;

/// A table of text: the first column is left-aligned, the others right-aligned.
pub(super) struct Grid {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(head: impl IntoIterator<Item = String>) -> Self {
        Self {
            head: head.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn markdown(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&self.head[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(4)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let line = |cells: &[String], text: &mut String| {
            for (number, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let _ = match number {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
        };
        line(&self.head, &mut text);
        for (number, width) in widths.iter().enumerate() {
            let _ = match number {
                0 => write!(text, "| {} ", "-".repeat(*width)),
                _ => write!(text, "| {}: ", "-".repeat(width - 1)),
            };
        }
        text.push_str("|\n");
        self.rows.iter().for_each(|row| line(row, &mut text));
        text
    }
}
