//! `firn demo`: a server with sample data.
//!
//! It is `firn serve` and a client in one process. The client uses the HTTP API like any other client: it installs a
//! template, fills an empty server with the events of a fictional company, and then sends new events at the rate of the
//! history. Its progress is stored in the server (in the `_meta` of a component template), so that an interrupted
//! filling starts over and a finished one is never repeated.

mod events_file;
mod fill;
mod live;
mod sources;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::Client;

use crate::security;
use crate::serve::{self, Stopping};
use crate::settings_args::SettingsArgs;
use fill::History;

/// The data stream of the fictional company.
const STREAM: &str = "events-demo";

/// Arguments of `firn demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Index this file instead of generated events: NDJSON, plain, gzip or zstd
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Number of events for an empty server
    #[arg(long, default_value_t = 400_000)]
    fill: u64,
    /// Period of these events, in days until now
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Tenants of the fictional company
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tenants: u32,
    /// New events per second; 0 for none [default: the rate of the history at that time of the day and week]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    live: Option<u32>,
    /// Address for CEF by syslog (TCP and UDP), to which the demo's firewall sends
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5514")]
    syslog: SocketAddr,
}

/// State of the demo client.
struct Demo<'a> {
    args: &'a DemoArgs,
    client: Client,
    stopping: Stopping,
    /// The event pipelines were created in this run.
    has_pipelines: AtomicBool,
}

/// Serves until Ctrl-C, with the client in the same process.
pub(crate) fn run(args: &DemoArgs, started: Instant) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.events {
        // Fail before the server starts.
        std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    }
    let settings = args.settings.load()?;
    if security::is_on(&settings)? {
        bail!(
            "the demo needs a server without authentication, but authentication is on for this data folder: use `firn \
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
            has_pipelines: AtomicBool::new(false),
        }
    }

    /// The server stays up even if the events fail, so that existing data can be viewed.
    fn run(&self) {
        let outcome = match &self.args.events {
            Some(file) => events_file::index(self, file),
            None => self.invented_events(),
        };
        if let Err(error) = outcome
            && !self.is_stopping()
        {
            tracing::error!("the demo stopped sending events, the server continues: {error:#}");
        }
    }

    fn invented_events(&self) -> anyhow::Result<()> {
        if let Some(history) = fill::fill_if_empty(self)? {
            self.print_what_to_try(&history);
            if self.args.live == Some(0) {
                return Ok(());
            }
            return std::thread::scope(|scope| {
                scope.spawn(|| sources::keep_coming(self, self.args.syslog));
                live::keep_coming(self, &history)
            });
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits; returns false if the server stops meanwhile.
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
             # the largest tenants, and their event classes\n\
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
            Some(rate) => println!("Sending {rate} new events per second. Ctrl-C stops."),
            None if history.events == 0 => {}
            None => println!(
                "Sending new events at the rate of the history, {:.1} per minute on average. Ctrl-C stops.",
                history.per_minute()
            ),
        }
        if self.args.live != Some(0) {
            let address = self.args.syslog;
            println!(
                "Events arrive by syslog, too ({}, CEF on {address}), and by HTTP ({}). Send one:\n\n\
                 echo '<134>CEF:0|Example|Firewall|7.1|100|Hello|3|src=192.0.2.7 dst=10.0.0.1 dpt=443' > /dev/udp/{}/{}\n",
                sources::FIREWALL_INDEX,
                sources::WEB_INDEX,
                address.ip(),
                address.port(),
            );
        }
        if self.args.live != Some(0) {
            println!(
                "Rules raise alerts of a port scan and an impossible travel in the first minute, and of a silent site after two: see \
                 {base}/app/alerts.\n"
            );
        }
        self.print_where_to_look();
    }

    /// Printed first, because it may be opened at once, and last, because that stays on the screen.
    fn print_where_to_look(&self) {
        println!("Open {}/app in a browser.", self.client.base());
    }
}
