//! `firn detect`: evaluates detection rules on files of events, and tells which rules can be used.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use firn_detect::{Compiled, Evaluator, LogSources, RuleSet};
use firn_pipeline::mapping::{MapOptions, Mapper, Pack};
use firn_pipeline::tables::Tables;
use firn_tools::rule_files::{RuleFiles, read_rules};

/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Lines whose failures are printed; further ones are only counted.
const PRINTED_FAILURES: u64 = 100;

/// Arguments of `firn detect`.
#[derive(Debug, clap::Args)]
pub(crate) struct DetectArgs {
    #[command(subcommand)]
    command: DetectCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DetectCommand {
    /// Print one line of JSON per match: {"rule": ID, "event": LINE}, with lines counted from 0
    Run(RunArgs),
    /// List the rules, and why some are unusable
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct RuleArgs {
    /// Sigma files, or folders of them (*.yml, *.yaml)
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Name of a built-in pack, or a pack file, that parses the events and assigns them to log sources [default: events are JSON
    /// with the fields that the rules name, and each rule is evaluated on each event]
    #[arg(long, value_name = "NAME|FILE")]
    pack: Option<String>,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// Events, one per line, plain or gzip; `-` is standard input
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// Print only unusable rules
    #[arg(long)]
    unusable: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DetectArgs) -> Result<ExitCode> {
    match &args.command {
        DetectCommand::Run(args) => evaluate(args),
        DetectCommand::Check(args) => check(args),
    }
}

/// Rules of the arguments, compiled for the pack.
struct Loaded {
    compiled: Compiled,
    /// Files that hold what is no rule, and why.
    refused: Vec<String>,
    pack: Option<Arc<Pack>>,
}

fn load(args: &RuleArgs) -> Result<Loaded> {
    let pack = args
        .pack
        .as_deref()
        .map(crate::pipeline::load_pack)
        .transpose()?
        .map(Arc::new);
    let RuleFiles { rules, mut refused } = read_rules(&args.rules)?;
    let sources = pack.as_ref().map_or(LogSources::Any, |pack| pack.log_sources());
    let mut compiled = RuleSet::compile(rules, &sources);
    refused.extend(compiled.errors.drain(..).map(|error| error.to_string()));
    Ok(Loaded {
        compiled,
        refused,
        pack,
    })
}

fn evaluate(args: &RunArgs) -> Result<ExitCode> {
    let Loaded {
        compiled,
        refused,
        pack,
    } = load(&args.rules)?;
    refused.iter().for_each(|reason| eprintln!("{reason}"));
    let rules = Arc::new(compiled.rules);
    eprintln!(
        "{} rules are evaluated, {} are for other events, {} cannot be used (`firn detect check` lists them)",
        rules.rules().len(),
        compiled.unmapped.len(),
        refused.len()
    );
    let mut input = open(&args.events)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut events = Events::new(pack, Arc::clone(&rules));
    let (mut line, mut number, mut failures) = (Vec::new(), 0u64, 0u64);
    let mut matches = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        matches.clear();
        if !line.trim_ascii().is_empty()
            && let Err(reason) = events.evaluate(line.trim_ascii_end(), &mut matches)
        {
            failures += 1;
            if failures <= PRINTED_FAILURES {
                eprintln!("event {number}: {reason}");
            }
        }
        for rule in &matches {
            let id = serde_json::to_string(&rules.rules()[*rule as usize].id)?;
            match writeln!(output, "{{\"rule\": {id}, \"event\": {number}}}") {
                // `firn detect run … | head` closes the pipe early, which is no error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                written => written?,
            }
        }
        number += 1;
    }
    match output.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        written => written?,
    }
    if failures > 0 {
        eprintln!("{failures} of {number} lines are not events");
    }
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(path).with_context(|| format!("cannot open [{}]", path.display()))?),
    };
    let mut input = BufReader::new(input);
    Ok(match input.fill_buf()?.starts_with(GZIP) {
        true => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(input))),
        false => Box::new(input),
    })
}

/// How the lines of a file become events.
enum Events {
    Mapped { mapper: Box<Mapper>, event: Vec<u8> },
    Json(Box<Evaluator>),
}

impl Events {
    fn new(pack: Option<Arc<Pack>>, rules: Arc<RuleSet>) -> Self {
        match pack {
            None => Self::Json(Box::new(Evaluator::new(rules))),
            Some(pack) => {
                let options = MapOptions {
                    original: false,
                    received: None,
                };
                let mut mapper = Mapper::new(pack, &Tables::default(), options);
                mapper.set_rules(Some(rules));
                Self::Mapped {
                    mapper: Box::new(mapper),
                    event: Vec::new(),
                }
            }
        }
    }

    fn evaluate(&mut self, line: &[u8], matches: &mut Vec<u32>) -> Result<(), String> {
        match self {
            Self::Mapped { mapper, event } => {
                event.clear();
                mapper.map(line, event).map_err(|error| error.to_string())?;
                matches.extend_from_slice(mapper.matches());
            }
            Self::Json(evaluator) => {
                let object = serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
                evaluator.begin();
                evaluator.push_object(&object);
                evaluator.evaluate(matches);
            }
        }
        Ok(())
    }
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    let Loaded {
        compiled,
        refused,
        pack,
    } = load(&args.rules)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut print = || -> io::Result<()> {
        if !args.unusable {
            for rule in compiled.rules.rules() {
                writeln!(output, "usable    {}  {}", rule.id, rule.title)?;
            }
        }
        for rule in &compiled.unmapped {
            let pack = pack.as_ref().map_or("", |pack| pack.name());
            let reason = format!("the pack [{pack}] has no log source with {}", rule.log_source);
            writeln!(output, "unmapped  {}  {}: {reason}", rule.id, rule.title)?;
        }
        for reason in &refused {
            writeln!(output, "refused   {reason}")?;
        }
        output.flush()
    };
    match print() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        printed => printed?,
    }
    Ok(match refused.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
