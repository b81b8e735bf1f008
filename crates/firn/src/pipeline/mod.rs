//! `firn pipeline`: maps records, runs the examples of packs, lists packs, runs a worker.

mod worker;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use firn_pipeline::mapping::{MapOptions, Mapper, Pack, builtin, builtin_names, map_lines, run_examples};
use firn_pipeline::tables::{TableHandle, TableSource, Tables};

/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Lines whose failures are printed; further ones are only counted.
const PRINTED_FAILURES: u64 = 100;

/// Arguments of `firn pipeline`.
#[derive(Debug, clap::Args)]
pub(crate) struct PipelineArgs {
    #[command(subcommand)]
    command: PipelineCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PipelineCommand {
    /// Print one event with common fields (ECS) as JSON per line of the input
    Map(MapArgs),
    /// Run the examples of the built-in packs, or of the packs in a folder
    Test(TestArgs),
    /// List the built-in packs
    Packs,
    /// Read sources and write to another firn, or to an OpenSearch or Elasticsearch cluster
    Run(worker::WorkerArgs),
}

#[derive(Debug, clap::Args)]
struct MapArgs {
    /// Name of a built-in pack, or a pack file (*.yml)
    #[arg(long, value_name = "NAME|FILE")]
    pack: String,
    /// Lookup table of a pack: a .csv, .ndjson or .mmdb file
    #[arg(long = "table", value_name = "NAME=FILE")]
    tables: Vec<String>,
    /// MaxMind database of cities: the table `geoip-city`
    #[arg(long, value_name = "FILE")]
    geoip_city: Option<PathBuf>,
    /// MaxMind database of autonomous systems: the table `geoip-asn`
    #[arg(long, value_name = "FILE")]
    geoip_asn: Option<PathBuf>,
    /// Omit `event.original`
    #[arg(long)]
    no_original: bool,
    /// Time of arrival: seconds since the epoch [default: the current time]
    #[arg(long, value_name = "SECONDS")]
    received: Option<i64>,
    /// Input, plain or gzip; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// Folder of pack files (*.yml) [default: the built-in packs]
    folder: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &PipelineArgs) -> Result<ExitCode> {
    match &args.command {
        PipelineCommand::Map(args) => map(args),
        PipelineCommand::Test(args) => test(args),
        PipelineCommand::Packs => packs(),
        PipelineCommand::Run(args) => worker::run(args),
    }
}

fn map(args: &MapArgs) -> Result<ExitCode> {
    let pack = Arc::new(load_pack(&args.pack)?);
    let now_ns = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos() as i64);
    let tables = tables(args, now_ns / 1_000_000)?;
    let options = MapOptions {
        original: !args.no_original,
        received: Some(
            args.received
                .map_or(now_ns, |seconds| seconds.saturating_mul(1_000_000_000)),
        ),
    };
    let mut mapper = Mapper::new(pack, &tables, options);
    let input: Box<dyn Read> = match args.file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(&args.file).with_context(|| format!("cannot open [{}]", args.file.display()))?),
    };
    let mut input = BufReader::new(input);
    let is_gzip = input.fill_buf()?.starts_with(GZIP);
    let input: Box<dyn Read> = match is_gzip {
        true => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        false => Box::new(input),
    };
    let mut failures = 0;
    let totals = map_lines(&mut mapper, input, io::stdout().lock(), |line, failure| {
        failures += 1;
        if failures <= PRINTED_FAILURES {
            eprintln!("line {line}: {failure}");
        }
    });
    let totals = match totals {
        // `firn pipeline map … | head` closes the pipe early, which is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        totals => totals.with_context(|| format!("cannot map [{}]", args.file.display()))?,
    };
    if totals.failures == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} lines were mapped, {} were not", totals.events, totals.failures);
    Ok(ExitCode::FAILURE)
}

/// Loads a built-in pack by its name, or a file.
pub(crate) fn load_pack(name: &str) -> Result<Pack> {
    if let Some(pack) = builtin(name) {
        return Ok(pack?);
    }
    if !name.contains(['.', '/', '\\']) {
        let names: Vec<&str> = builtin_names().collect();
        bail!("there is no pack [{name}]; the built-in packs are {}", names.join(", "));
    }
    load_file(Path::new(name))
}

fn load_file(path: &Path) -> Result<Pack> {
    let yaml = std::fs::read_to_string(path).with_context(|| format!("cannot read [{}]", path.display()))?;
    Pack::parse(&yaml).with_context(|| format!("cannot load [{}]", path.display()))
}

fn tables(args: &MapArgs, now_ms: i64) -> Result<Tables> {
    let mut tables = Tables::default();
    for (name, file) in [("geoip-city", &args.geoip_city), ("geoip-asn", &args.geoip_asn)] {
        if let Some(file) = file {
            tables.insert(TableHandle::open(name, TableSource::MaxMind(file.clone()), now_ms)?);
        }
    }
    for table in &args.tables {
        let Some((name, file)) = table.split_once('=') else {
            bail!("[{table}] is not a table: use NAME=FILE");
        };
        let Some(source) = TableSource::of(Path::new(file)) else {
            bail!("table [{name}]: the name of the file must end in .csv, .ndjson, .jsonl, .json or .mmdb");
        };
        tables.insert(TableHandle::open(name, source, now_ms)?);
    }
    Ok(tables)
}

fn test(args: &TestArgs) -> Result<ExitCode> {
    let packs = match &args.folder {
        None => builtin_names().filter_map(builtin).collect::<Result<Vec<_>, _>>()?,
        Some(folder) => {
            let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read [{}]", folder.display()))?;
            let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
            paths.retain(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "yml" || extension == "yaml")
            });
            paths.sort();
            paths.iter().map(|path| load_file(path)).collect::<Result<_>>()?
        }
    };
    if packs.is_empty() {
        bail!("there are no packs: the names of their files end in .yml");
    }
    let mut out = io::stdout().lock();
    let mut has_failed = false;
    for pack in packs {
        let pack = Arc::new(pack);
        let (count, failures) = run_examples(&pack);
        has_failed |= !failures.is_empty();
        writeln!(
            out,
            "{} {}: {} of {count} examples pass",
            pack.name(),
            pack.version(),
            count - failures.len()
        )?;
        for failure in failures {
            writeln!(out, "  {}", failure.name)?;
            for line in failure.difference {
                writeln!(out, "    {line}")?;
            }
        }
    }
    Ok(if has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn packs() -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    for pack in builtin_names().filter_map(builtin) {
        let pack = pack?;
        writeln!(out, "{:<14} {:>3}  {}", pack.name(), pack.version(), pack.description())?;
    }
    Ok(ExitCode::SUCCESS)
}
