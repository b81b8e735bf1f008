//! `firn demo`: a server with something in it, for a first look.
//!
//! It is `firn serve` and a client in one process. The client goes through the HTTP API like
//! anybody: it installs a template, fills an empty server with the events of an invented company,
//! and then keeps new ones coming at the pace of the history. How far it came is kept in the server itself (a component
//! template's `_meta`), so that a filling that was interrupted starts over and a finished one is
//! never repeated.

mod events_file;
mod fill;
mod live;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use fill::History;

use crate::client::Client;
use crate::security;
use crate::serve::{self, SettingsArgs, Stopping};

/// The data stream of the invented company.
const STREAM: &str = "events-demo";

/// Arguments of `firn demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Index this file instead of invented events: NDJSON, plain, gzip or zstd
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Events to fill an empty server with
    #[arg(long, default_value_t = 400_000)]
    fill: u64,
    /// Over how many days until now
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Tenants of the invented company
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tenants: u32,
    /// Events a second that keep coming; 0 for none [default: as many as the history has at that time of the day and week]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    live: Option<u32>,
}

/// What the client of the demo works with.
struct Demo<'a> {
    args: &'a DemoArgs,
    client: Client,
    stopping: Stopping,
}

/// Serves until Ctrl-C, with the client beside it.
pub(crate) fn run(args: &DemoArgs, started: Instant) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.events {
        // Better said before a server starts than after.
        std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    }
    let settings = args.settings.load()?;
    if security::is_on(&settings)? {
        bail!(
            "the demo fills a server that everybody on this machine may use, and this one asks who comes: use `firn \
             serve` with `firn ingest --user` or `--api-key`, or another --data folder"
        );
    }
    std::thread::scope(|scope| {
        serve::serve(&settings, started, |url, stopping| {
            let demo = Demo::new(args, url, stopping);
            let seconds = started.elapsed().as_secs_f64();
            println!("firn answers on {url} (started in {seconds:.2} s)");
            demo.print_where_to_look();
            scope.spawn(move || demo.run());
            Ok(())
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

impl<'a> Demo<'a> {
    fn new(args: &'a DemoArgs, url: &str, stopping: &Stopping) -> Self {
        Self {
            args,
            client: Client::of_own_server(url),
            stopping: Stopping::clone(stopping),
        }
    }

    /// The server stays up whatever happens to the events: what is there may be looked at.
    fn run(&self) {
        let outcome = match &self.args.events {
            Some(file) => events_file::index(self, file),
            None => self.invented_events(),
        };
        if let Err(error) = outcome
            && !self.is_stopping()
        {
            tracing::error!("the demo's events stopped, the server goes on: {error:#}");
        }
    }

    fn invented_events(&self) -> anyhow::Result<()> {
        if let Some(history) = fill::fill_if_empty(self)? {
            self.print_what_to_try(&history);
            live::keep_coming(self, &history)?;
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits; false if the server stops meanwhile.
    fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            if self.is_stopping() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    fn print_what_to_try(&self, history: &History) {
        let base = self.client.base();
        println!(
            "\nTry in another terminal:\n\n\
             # Security events of the last day, newest first\n\
             curl -s '{base}/{STREAM}/_search?q=event_class:Security&sort=@timestamp:desc&size=3&pretty'\n\n\
             # the largest tenants, and what kinds of event they have\n\
             curl -s -H 'content-type: application/json' '{base}/{STREAM}/_search?size=0&pretty' -d \
             '{{\"aggs\":{{\"tenants\":{{\"terms\":{{\"field\":\"tenant\",\"size\":5}},\"aggs\":{{\"classes\":{{\"terms\":\
             {{\"field\":\"event_class\"}}}}}}}}}}}}'\n\n\
             # events an hour over the last two days\n\
             curl -s -H 'content-type: application/json' '{base}/{STREAM}/_search?size=0&pretty' -d \
             '{{\"query\":{{\"range\":{{\"@timestamp\":{{\"gte\":\"now-2d\"}}}}}},\"aggs\":{{\"hours\":{{\"date_histogram\":\
             {{\"field\":\"@timestamp\",\"fixed_interval\":\"1h\"}}}}}}}}'\n"
        );
        match self.args.live {
            Some(0) => {}
            Some(rate) => println!("{rate} new events a second keep coming. Ctrl-C stops."),
            None if history.events == 0 => {}
            None => println!(
                "New events keep coming at the pace of the history, {:.1} a minute on average. Ctrl-C stops.",
                history.per_minute()
            ),
        }
        self.print_where_to_look();
    }

    /// First, because it may be opened at once, and last, because that is what stays on the screen.
    fn print_where_to_look(&self) {
        println!("Open {}/app in a browser.", self.client.base());
    }
}
