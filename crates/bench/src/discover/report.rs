//! Results of a run.

use std::fmt::Write;

use firn_tools::process::Hardware;
use serde::Serialize;

use super::stages::{Mode, Size, Stage};
use crate::layout::volumes::Source;
use crate::markdown_table::Grid;
use crate::report::Server;

/// Times at the client.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) runs: usize,
    pub(super) median_ms: f64,
    pub(super) p95_ms: f64,
}

/// A stage for one tenant and time range in one mode.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) tenant: Size,
    pub(super) days: u32,
    pub(super) stage: Stage,
    pub(super) mode: Mode,
    pub(super) firn: Times,
    pub(super) peer: Option<Times>,
}

/// A measured tenant.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Tenant {
    pub(super) size: Size,
    pub(super) name: String,
    pub(super) events: u64,
}

/// A target, and the slowest row's 95th percentile.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    pub(super) bound_ms: f64,
    pub(super) found_ms: f64,
    pub(super) reached: bool,
}

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) time: String,
    pub(super) hardware: Hardware,
    pub(super) server: Server,
    pub(super) peer: Option<Server>,
    pub(super) source: Source,
    pub(super) tenants: Vec<Tenant>,
    pub(super) fields: Vec<String>,
    pub(super) figures: Vec<Figure>,
    pub(super) rows: Vec<Row>,
    /// From the acknowledgement of a bulk to its event in the live tail.
    pub(super) tail: Option<Times>,
}

impl Report {
    /// Returns the tables.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} events of {} tenants over {} weeks, seed {}; {}. Measured {}.\n\n`{}`\n",
            self.source.events,
            self.source.tenants,
            self.source.weeks,
            self.source.seed,
            self.hardware.line(),
            self.time,
            self.command
        );
        for tenant in &self.tenants {
            let _ = writeln!(
                text,
                "- {}: {}, {} events",
                size(tenant.size),
                tenant.name,
                tenant.events
            );
        }
        text.push_str("\nTo reach:\n\n");
        for figure in &self.figures {
            let mark = if figure.reached { "reached" } else { "**missed**" };
            let _ = writeln!(
                text,
                "- {}: at most {} ms, the slowest row {:.1} ms: {mark}",
                figure.what, figure.bound_ms, figure.found_ms
            );
        }
        text.push('\n');
        text.push_str(&self.grid().markdown());
        text
    }

    fn grid(&self) -> Grid {
        let mut head = vec![
            "stage".to_owned(),
            "tenant".to_owned(),
            "days".to_owned(),
            "requested".to_owned(),
        ];
        let firn = &self.server.version;
        head.extend([format!("{firn}, median ms"), "p95 ms".to_owned()]);
        if let Some(peer) = &self.peer {
            head.extend([
                format!("{}, median ms", peer.version),
                "p95 ms".to_owned(),
                "times".to_owned(),
            ]);
        }
        let mut grid = Grid::new(head);
        for row in &self.rows {
            let mut cells = vec![
                row.stage.id().to_owned(),
                size(row.tenant).to_owned(),
                row.days.to_string(),
                match row.mode {
                    Mode::First => "first",
                    Mode::Repeated => "repeated",
                }
                .to_owned(),
            ];
            cells.extend([ms(row.firn.median_ms), ms(row.firn.p95_ms)]);
            if let Some(peer) = row.peer {
                let ratio = peer.median_ms / row.firn.median_ms;
                cells.extend([ms(peer.median_ms), ms(peer.p95_ms), format!("{ratio:.1}")]);
            }
            grid.rows.push(cells);
        }
        grid
    }
}

fn ms(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    }
}

fn size(size: Size) -> &'static str {
    match size {
        Size::Large => "large",
        Size::Middle => "middle",
    }
}
