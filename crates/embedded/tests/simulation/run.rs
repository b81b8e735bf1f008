//! One run: an engine is opened, used, crashed, and reopened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use firn_storage::disk::Disk as _;
use firn_storage::object::MemoryObjects;
use firn_storage::sim::SimDisk;
use parking_lot::Mutex;

use crate::check::names_file;
use crate::faults::{Armed, CAPACITY, Fault, Store, arm, end};
use crate::model::{Index, Model, Presence};
use crate::node::{DATA, Node};
use crate::policy::Policy;
use crate::snapshots::register;

/// Start of the clock of a run: 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;
/// Maximum faults of one run.
const ROUNDS_MAX: usize = 4;
/// Maximum operations before the next fault.
const OPERATIONS_MAX: usize = 14;
/// Maximum lines of a journal.
const LINES_MAX: usize = 400;

/// Journal of the operations, for the analysis of a violation.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Vec<String>>);

impl Journal {
    pub(crate) fn record(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() < LINES_MAX {
            lines.push(line);
        }
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().join("\n")
    }
}

/// Totals of all runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    runs: AtomicU64,
    operations: AtomicU64,
    power_losses: AtomicU64,
    kills: AtomicU64,
    errors: AtomicU64,
    full: AtomicU64,
    store: AtomicU64,
    flips: AtomicU64,
    refused_starts: AtomicU64,
}

impl Tally {
    fn note(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn summary(&self) -> String {
        format!("{self:?}")
    }

    /// Fails if no run had a fault: such runs would prove nothing.
    pub(crate) fn check(&self) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let runs = of(&self.runs);
        assert!(runs > 0, "not a single run");
        if runs >= 50 {
            let faults = [&self.power_losses, &self.kills, &self.errors, &self.full, &self.flips];
            assert!(faults.iter().all(|count| of(count) > 0), "{}", self.summary());
        }
    }

    fn note_fault(&self, fault: Fault) {
        match fault {
            Fault::None => {}
            Fault::PowerLoss { .. } => Self::note(&self.power_losses),
            Fault::Kill { .. } => Self::note(&self.kills),
            Fault::Error { .. } => Self::note(&self.errors),
            Fault::Full { .. } => Self::note(&self.full),
            Fault::Store { .. } => Self::note(&self.store),
            Fault::Flip { .. } => Self::note(&self.flips),
        }
    }
}

pub(crate) struct Run<'a> {
    pub(crate) random: fastrand::Rng,
    pub(crate) model: Model,
    pub(crate) journal: &'a Journal,
    pub(crate) policy: Option<Policy>,
    node: Option<Node>,
    armed: Armed,
    clock: Arc<AtomicI64>,
    /// Increases; every new name and value uses it.
    last: u64,
}

/// Makes a run of a seed; returns the violation, if there is one.
pub(crate) fn run(seed: u64, journal: &Journal, tally: &Tally) -> Result<(), String> {
    let mut run = Run {
        random: fastrand::Rng::with_seed(seed),
        model: Model::default(),
        journal,
        policy: None,
        node: None,
        armed: Armed::default(),
        clock: Arc::new(AtomicI64::new(START_MS)),
        last: 0,
    };
    let objects = Arc::new(MemoryObjects::new());
    let mut disk = SimDisk::new();
    disk.set_capacity(CAPACITY);
    disk.create_dir_all(Path::new(DATA))
        .and_then(|()| disk.sync_dir(Path::new("/")))
        .map_err(|error| error.to_string())?;
    run.begin(&disk, &objects).map_err(|error| error.to_string())?;
    let began = register(run.node())
        .and_then(|()| run.create_index(false))
        .and_then(|()| run.create_index(true));
    began.map_err(|error| format!("the engine fails without a fault: {error}"))?;
    Tally::note(&tally.runs);
    for _ in 0..run.random.usize(1..=ROUNDS_MAX) {
        let fault = Fault::choose(&mut run.random);
        tally.note_fault(fault);
        run.armed = arm(fault, &disk, &run.node().store);
        journal.record(format!("-- {fault:?}"));
        for _ in 0..run.random.usize(2..=OPERATIONS_MAX) {
            if run.is_down() {
                break;
            }
            Tally::note(&tally.operations);
            run.operate();
            if run.random.u8(0..6) == 0 && run.armed.flipped.lock().is_none() {
                run.check_loosely()?;
            }
        }
        let is_flipped = run.armed.flipped.lock().clone();
        disk = match is_flipped {
            Some(place) => return run.end_damaged(&place, &objects, tally),
            None => run.end_round(fault, &objects)?,
        };
    }
    Ok(())
}

impl Run<'_> {
    pub(crate) fn node(&self) -> &Node {
        self.node.as_ref().expect("an engine")
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Whether the process has ended: later results have no effect.
    pub(crate) fn is_down(&self) -> bool {
        self.armed.crash.has_come()
    }

    pub(crate) fn presence_of<T>(&self, outcome: &firn_engine::Result<T>) -> Presence {
        match outcome.is_ok() && !self.is_down() {
            true => Presence::Certain,
            false => Presence::Doubtful,
        }
    }

    pub(crate) fn note<T: std::fmt::Debug, E: std::fmt::Display>(&self, what: &str, outcome: &Result<T, E>) {
        let down = if self.is_down() { " (down)" } else { "" };
        match outcome {
            Ok(done) => self.journal.record(format!("{what}: {done:?}{down}")),
            Err(error) => self.journal.record(format!("{what}: failed: {error}{down}")),
        }
    }

    /// Returns an index that certainly exists.
    pub(crate) fn pick(&mut self, fits: impl Fn(&Index) -> bool) -> Option<String> {
        let names = self.model.names(fits);
        self.random.choice(names)
    }

    fn begin(&mut self, disk: &SimDisk, objects: &Arc<MemoryObjects>) -> firn_engine::Result<()> {
        let store = Store::new(objects);
        let seed = self.random.u64(..);
        self.node = Some(Node::open(disk, &store, &self.clock, seed)?);
        Ok(())
    }

    fn operate(&mut self) {
        self.clock.fetch_add(self.random.i64(1..2000), Ordering::Relaxed);
        match self.random.u8(0..40) {
            0..=13 => self.write(),
            14 | 15 => self.refresh(),
            16..=18 => self.flush(),
            19 | 20 => self.merge(),
            21 => drop(self.create_index(false)),
            22 => drop(self.create_index(true)),
            23 => self.delete_index(),
            24..=26 => self.put_template(),
            27 | 28 => self.take_snapshot(),
            29 => self.delete_snapshot(),
            30 | 31 => self.mount_some(),
            32 => self.restore(),
            33 | 34 => self.delete_tenant(),
            35 => {
                self.node().engine.begin_due();
                self.journal.record("what is due".to_owned());
            }
            _ => self.take_policy_steps(),
        }
    }

    /// Ends a process and starts the next one on the disk that the first one left.
    fn end_round(&mut self, fault: Fault, objects: &Arc<MemoryObjects>) -> Result<SimDisk, String> {
        let node = self.node.take().ok_or("no engine")?;
        let is_gone = self.is_down();
        if !is_gone {
            node.disk.set_hook(None);
            node.disk.heal();
            node.disk.set_capacity(CAPACITY);
            node.store.heal();
            if self.random.u8(0..3) == 0 {
                // The same process continues.
                let disk = node.disk.clone();
                self.node = Some(node);
                self.journal.record("the fault is over".to_owned());
                self.check(false)?;
                return Ok(disk);
            }
        }
        // A kill makes nothing durable, so doubts stay.
        let mut is_durable = matches!(fault, Fault::PowerLoss { .. }) && is_gone;
        let is_closed = !is_gone && self.random.bool();
        if is_closed {
            let closed = node.run(firn_engine::Engine::close(&*node.engine));
            // The error reports shards that the fault stopped: their unflushed writes are in their WALs.
            self.journal.record(format!("closed: {closed:?}"));
        }
        let power_loss = (!is_gone && self.random.bool()).then(|| self.random.u64(..));
        is_durable |= power_loss.is_some();
        let mut disk = end(&self.armed, &node.disk, &node.store, power_loss);
        drop(node);
        self.journal.record(format!(
            "the process ended (durable: {is_durable}), and another one begins"
        ));
        // The next process may also fail while it opens.
        if self.random.u8(0..3) == 0 {
            let store = Store::new(objects);
            let fault = match self.random.bool() {
                true => Fault::PowerLoss {
                    after: self.random.u64(0..60),
                    seed: self.random.u64(..),
                },
                false => Fault::Error {
                    after: self.random.u64(0..60),
                    only: None,
                    is_lasting: true,
                },
            };
            let armed = arm(fault, &disk, &store);
            let seed = self.random.u64(..);
            let opened = Node::open(&disk, &store, &self.clock, seed);
            self.journal
                .record(format!("opened with {fault:?}: {:?}", opened.as_ref().err()));
            let power_loss = self.random.bool().then(|| self.random.u64(..));
            is_durable = power_loss.is_some() || matches!(fault, Fault::PowerLoss { .. }) && armed.crash.has_come();
            let left = end(&armed, &disk, &store, power_loss);
            drop(opened);
            disk = left;
        }
        self.armed = Armed::default();
        self.begin(&disk, objects)
            .map_err(|error| format!("the engine does not open: {error}"))?;
        self.check(is_durable)?;
        Ok(disk)
    }

    /// Ends a run with a flipped bit: checks now, and after a restart.
    fn end_damaged(&mut self, place: &Path, objects: &Arc<MemoryObjects>, tally: &Tally) -> Result<(), String> {
        let flip = format!("after a bit turned in {}", place.display());
        self.journal.record(flip.clone());
        self.check_damaged(place).map_err(|wrong| format!("{flip}: {wrong}"))?;
        let node = self.node.take().ok_or("no engine")?;
        let disk = end(&self.armed, &node.disk, &node.store, None);
        drop(node);
        self.armed = Armed::default();
        if let Err(error) = self.begin(&disk, objects) {
            Tally::note(&tally.refused_starts);
            return names_file(&error.to_string(), place);
        }
        let outcome = self.check_damaged(place);
        outcome.map_err(|wrong| format!("{flip} and a restart: {wrong}"))
    }
}
