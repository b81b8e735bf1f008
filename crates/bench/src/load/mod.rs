//! `firn bench load`: small requests of many clients at once, on one or two servers.
//!
//! A closed loop: each client sends its next request when the last one is answered. The servers take turns for each kind of request and
//! number of clients, so that disturbances of the machine affect both. Each request has values of its own, taken from the index, and
//! the request cache is off. The clients use processor time of the same machine, if the servers are on it.

mod requests;
mod writes;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials, encode_segment};
use firn_tools::generate::WeblogShape;

use self::requests::{Request, Samples};
use self::writes::Writes;
use super::core::Side;
use super::markdown_table::Grid;
use super::writing::percentile;

/// Wait after a request that was refused because the server is busy.
const PAUSE: Duration = Duration::from_millis(5);
/// Requests of each kind that are checked for hits.
const CHECKED: usize = 20;
/// Stack of a client.
const STACK_BYTES: usize = 512 << 10;

/// Arguments of `firn bench load`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// URL of the first server
    #[arg(long, value_name = "A")]
    url: String,
    /// URL of the server to compare with
    #[arg(long, value_name = "B")]
    vs: Option<String>,
    /// Index of web logs, as `firn bench core --keep` leaves it; with a profile, bench-weblog-PROFILE
    #[arg(long, default_value = "bench-weblog")]
    index: String,
    /// Numbers of clients at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256], value_parser = clap::value_parser!(u16).range(1..=2_000))]
    clients: Vec<u16>,
    /// Kinds of requests
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Request::Needle, Request::Latest, Request::Dashboard])]
    requests: Vec<Request>,
    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Requests of the same kind before each measurement, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    warm_up_seconds: u64,
    /// Events written per second meanwhile, to an index of their own that is deleted at the end
    #[arg(long, default_value_t = 0)]
    writes_per_second: u64,
    /// The values of the written events
    #[command(flatten)]
    weblog: WeblogShape,
    /// Seed of the values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Used for both servers; the URL of one of them may contain another user
    #[command(flatten)]
    credentials: Credentials,
}

/// What the clients saw.
#[derive(Debug, Default)]
struct Seen {
    /// Seconds of each answered request.
    seconds: Vec<f64>,
    /// Requests with 429.
    refused: u64,
    /// Requests with another error, and the first one.
    failed: u64,
    problem: Option<String>,
    /// Fewest answered requests of a client.
    fewest: usize,
}

/// Runs the command.
pub(crate) fn run(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let mut sides = vec![Side::connect(&args.url, &args.credentials, None, None)?];
    if let Some(url) = &args.vs {
        sides.push(Side::connect(url, &args.credentials, None, None)?);
    }
    let samples = Samples::read(&sides[0].client, &args.index, args.seed)?;
    let names = [
        "request",
        "clients",
        "server",
        "requests/s",
        "p50, ms",
        "p99, ms",
        "max, ms",
        "server CPU, ms",
        "fewest of a client",
        "429",
        "failed",
    ];
    let mut grid = Grid::new(names.map(str::to_owned));
    let mut is_clean = true;
    let writes: Vec<Writes> = match args.writes_per_second {
        0 => Vec::new(),
        rate => sides
            .iter()
            .map(|side| Writes::start(&side.client, rate, args.seed, args.weblog))
            .collect::<anyhow::Result<_>>()?,
    };
    for request in &args.requests {
        for side in &sides {
            check_hits(args, side, &samples, *request)?;
        }
        for clients in &args.clients {
            for side in &sides {
                let load = |seconds| measure(args, side, &samples, (*request, *clients), Duration::from_secs(seconds));
                load(args.warm_up_seconds)?;
                let cpu = || side.process.map(|process| process.cpu_seconds()).transpose();
                let before = cpu()?;
                let seen = load(args.seconds)?;
                let used = cpu()?.zip(before).map(|(after, before)| after - before);
                let count = seen.seconds.len();
                let ms = |part: f64| percentile(&seen.seconds, part).map_or("–".to_owned(), |ms| format!("{ms:.2}"));
                grid.rows.push(vec![
                    request.name().to_owned(),
                    clients.to_string(),
                    side.server.version.clone(),
                    format!("{:.0}", count as f64 / args.seconds as f64),
                    ms(0.5),
                    ms(0.99),
                    ms(1.0),
                    used.map_or("–".to_owned(), |used| {
                        format!("{:.3}", used * 1000.0 / count.max(1) as f64)
                    }),
                    seen.fewest.to_string(),
                    seen.refused.to_string(),
                    seen.failed.to_string(),
                ]);
                if let Some(problem) = seen.problem {
                    is_clean = false;
                    eprintln!("{} with {clients} clients: {problem}", request.name());
                }
            }
        }
    }
    print!("{}", grid.markdown());
    for (side, writes) in sides.iter().zip(writes) {
        let written = writes.stop()?;
        println!("\n{}: {:.0} events written per second", side.server.version, written);
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if most requests find nothing: their times would say nothing.
fn check_hits(args: &LoadArgs, side: &Side, samples: &Samples, request: Request) -> anyhow::Result<()> {
    let path = search_path(args);
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut with_hits = 0;
    for _ in 0..CHECKED {
        let body = request.body(samples, &mut random);
        let answer = side.client.json("POST", &path, Some(&body))?;
        with_hits += usize::from(answer["hits"]["hits"].as_array().is_some_and(|hits| !hits.is_empty()));
    }
    if with_hits <= CHECKED / 2 {
        bail!("{}: of {CHECKED} requests {with_hits} have hits", request.name());
    }
    Ok(())
}

fn search_path(args: &LoadArgs) -> String {
    format!("/{}/_search?request_cache=false", encode_segment(&args.index))
}

/// Sends requests for `time`, and returns what the clients saw.
fn measure(
    args: &LoadArgs,
    side: &Side,
    samples: &Samples,
    (request, clients): (Request, u16),
    time: Duration,
) -> anyhow::Result<Seen> {
    let path = search_path(args);
    let end = Instant::now() + time;
    let one = |number: u16| -> anyhow::Result<Seen> {
        // A pool of its own keeps its connection open.
        let client = Client::new(&side.server.url, &args.credentials, false)?;
        let mut random = fastrand::Rng::with_seed(args.seed ^ (u64::from(number) << 32));
        let mut seen = Seen::default();
        while Instant::now() < end {
            let body = request.body(samples, &mut random).to_string();
            let started = Instant::now();
            let answer = client.send("POST", &path, Some(("application/json", body.as_bytes())));
            match answer {
                Ok(answer) if answer.status == 200 => seen.seconds.push(started.elapsed().as_secs_f64()),
                Ok(answer) if answer.status == 429 => {
                    seen.refused += 1;
                    std::thread::sleep(PAUSE);
                }
                Ok(answer) => seen.fail(answer.problem()),
                Err(failure) => seen.fail(failure.to_string()),
            }
        }
        seen.fewest = seen.seconds.len();
        Ok(seen)
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(usize::from(clients));
        for number in 0..clients {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            threads.push(
                builder
                    .spawn_scoped(scope, move || one(number))
                    .context("cannot start a client")?,
            );
        }
        let mut all = Seen {
            fewest: usize::MAX,
            ..Seen::default()
        };
        for thread in threads {
            let Ok(seen) = thread.join() else {
                bail!("a client panicked");
            };
            all.add(seen?);
        }
        Ok(all)
    })
}

impl Seen {
    fn fail(&mut self, problem: String) {
        self.failed += 1;
        self.problem.get_or_insert(problem);
    }

    fn add(&mut self, other: Self) {
        self.seconds.extend(other.seconds);
        self.refused += other.refused;
        self.failed += other.failed;
        self.problem = self.problem.take().or(other.problem);
        self.fewest = self.fewest.min(other.fewest);
    }
}
