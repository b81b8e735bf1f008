//! Damage case: a copy of prepared data with one damaged file, and the behaviour of the server.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::battery::{Question, Response, ask};
use crate::damages::Damage;
use crate::files::{Class, files, shard_folders};
use crate::world::{Keys, start};

/// Timeout of a start and of an answer, longer than either takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// Folder into which unknown folders may be moved.
const QUARANTINE: &str = "quarantine";

/// Prepared folder, with its undamaged answers.
pub struct Prepared {
    pub name: &'static str,
    pub folder: PathBuf,
    pub files: Vec<(Class, PathBuf)>,
    pub keys: Keys,
    pub responses: Vec<Response>,
}

impl Prepared {
    /// Returns whether it has a file of a class.
    pub fn has(&self, class: Class) -> bool {
        self.files.iter().any(|(of, _)| *of == class)
    }
}

/// File and damage of a case.
#[derive(Debug, Clone)]
pub struct Case {
    pub number: u64,
    pub class: Class,
    /// Path below the prepared folder.
    pub path: PathBuf,
    pub damage: Damage,
    /// Whether segments are merged after the first round of queries, and the queries repeated.
    pub merges: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merges = if self.merges { ", then a merge" } else { "" };
        write!(
            formatter,
            "case {}: {:?} of {:?} [{}]{merges}",
            self.number,
            self.damage,
            self.class,
            self.path.display()
        )
    }
}

impl Case {
    /// Draws the case of a number: classes alternate, everything else is random.
    pub fn draw(seed: u64, number: u64, prepared: &[Prepared]) -> (usize, Self) {
        let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let class = Class::ALL[number as usize % Class::ALL.len()];
        let having: Vec<usize> = (0..prepared.len())
            .filter(|which| prepared[*which].has(class))
            .collect();
        let which = having[random.usize(0..having.len())];
        let of_class = prepared[which].files.iter().filter(|(of, _)| *of == class);
        let of_class: Vec<&PathBuf> = of_class.map(|(_, path)| path).collect();
        let path = of_class[random.usize(0..of_class.len())].clone();
        let len = std::fs::metadata(prepared[which].folder.join(&path)).unwrap().len();
        let case = Self {
            number,
            class,
            path,
            damage: Damage::draw(&mut random, len as usize),
            merges: random.u32(0..8) == 0,
        };
        (which, case)
    }
}

/// Accepted outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The damage changed no byte.
    Nothing,
    /// All answers are as before.
    Same,
    /// Some answers are errors that name the file.
    Named,
    /// The start is refused, naming the file.
    Refused,
}

/// Runs a case in `folder`, a copy of the prepared folder; returns its outcome, or what is wrong.
pub fn run(case: &Case, prepared: &Prepared, folder: &Path, questions: &[Question]) -> Result<End, String> {
    if !case.damage.apply(&folder.join(&case.path)) {
        return Ok(End::Nothing);
    }
    let before = shard_folders(folder);
    let started = Instant::now();
    let node = match start(folder, &[]) {
        Ok(node) => node,
        Err(error) => {
            let text = format!("{error:#}");
            nothing_is_deleted(&before, folder)?;
            return refused(case, prepared, &text);
        }
    };
    if started.elapsed() > PATIENCE {
        return Err(format!("the start took {:?}", started.elapsed()));
    }
    let mut answers = Answers {
        case,
        prepared,
        failed: false,
    };
    answers.check_all(&node, questions)?;
    if case.merges {
        let client = node.client().authorized(&prepared.keys.operator);
        let merged = client.send("POST", "/plain*,events/_forcemerge?max_num_segments=1", None, &[]);
        merged.map_err(|error| format!("no answer to a merge: {error:#}"))?;
        // The restored indices exist already.
        let is_restore = |question: &&Question| question.path.contains("_restore");
        let again: Vec<&Question> = questions.iter().filter(|question| !is_restore(question)).collect();
        answers.check_again(&node, &again, questions)?;
    }
    let log = node.log();
    node.kill9()
        .map_err(|error| format!("the server has ended: {error:#}\n{log}"))?;
    no_panic(&log)?;
    nothing_is_deleted(&before, folder)?;
    Ok(if answers.failed { End::Named } else { End::Same })
}

fn refused(case: &Case, prepared: &Prepared, text: &str) -> Result<End, String> {
    no_panic(text)?;
    if !text.contains("firn ended with exit status: ") {
        return Err(format!("the start neither succeeded nor was refused: {text}"));
    }
    if case.class.is_copy() {
        return Err(format!("a start was refused for the sake of a copy: {text}"));
    }
    match names(text, case, prepared) {
        true => Ok(End::Refused),
        false => Err(format!("the start is refused without naming the file: {text}")),
    }
}

fn no_panic(text: &str) -> Result<(), String> {
    match text.lines().find(|line| line.contains("panicked")) {
        Some(line) => Err(format!("a panic: {line}\n{text}")),
        None => Ok(()),
    }
}

/// Returns whether a text names the damaged file: by its path, or by a name that no other file has.
fn names(text: &str, case: &Case, prepared: &Prepared) -> bool {
    let name = case.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let below: PathBuf = case.path.iter().skip(1).collect();
    if text.contains(below.to_str().unwrap_or_default()) {
        return true;
    }
    let is_called_so = |path: &PathBuf| path.file_name() == case.path.file_name();
    let same_names = prepared.files.iter().filter(|(_, path)| is_called_so(path)).count();
    if same_names == 1 && text.contains(name) {
        return true;
    }
    // Some errors name the folder and the file separately.
    let folder = below
        .parent()
        .and_then(Path::to_str)
        .filter(|folder| !folder.is_empty());
    let is_in_line = |line: &str| folder.is_some_and(|folder| line.contains(folder)) && line.contains(name);
    if text.lines().any(is_in_line) {
        return true;
    }
    // The number of a missing commit point cannot be known.
    let is_missing =
        |line: &str| folder.is_some_and(|folder| line.contains(folder)) && line.contains("[commit-N.json]");
    if case.class == Class::CommitPoint && text.lines().any(is_missing) {
        return true;
    }
    // Objects of a repository are named without their folder, and files of a segment with it.
    let stem = name.split('.').next().unwrap_or_default();
    stem.len() >= 32 && text.contains(stem)
}

/// Checks that every folder of a shard still exists, or is in quarantine.
fn nothing_is_deleted(before: &[PathBuf], folder: &Path) -> Result<(), String> {
    let after: BTreeSet<PathBuf> = shard_folders(folder).into_iter().collect();
    let all = files(folder);
    for lost in before.iter().filter(|path| !after.contains(*path)) {
        let uuid = lost.iter().nth(2).unwrap_or_default();
        let is_aside =
            |path: &PathBuf| path.iter().any(|part| part == QUARANTINE) && path.iter().any(|part| part == uuid);
        if !all.iter().any(is_aside) {
            return Err(format!("the folder [{}] was deleted", lost.display()));
        }
    }
    Ok(())
}

struct Answers<'a> {
    case: &'a Case,
    prepared: &'a Prepared,
    /// Whether some answer was an error that names the file.
    failed: bool,
}

impl Answers<'_> {
    fn check_all(&mut self, node: &firn_testkit::Node, questions: &[Question]) -> Result<(), String> {
        for (question, before) in questions.iter().zip(&self.prepared.responses) {
            self.check(node, question, before)?;
        }
        Ok(())
    }

    fn check_again(
        &mut self,
        node: &firn_testkit::Node,
        again: &[&Question],
        questions: &[Question],
    ) -> Result<(), String> {
        for question in again {
            // A listing now has restored indices, and a merge changes the statistics of scores.
            let is_changed = question.path.contains("expand_wildcards")
                || question.path.starts_with("/_all")
                || question.path.starts_with("/_mapping")
                || question.path.starts_with("/_alias")
                || question.body.to_string().contains("_score");
            if is_changed {
                continue;
            }
            let position = questions
                .iter()
                .position(|of| std::ptr::eq(of, *question))
                .unwrap_or_default();
            self.check(node, question, &self.prepared.responses[position])
                .map_err(|wrong| format!("after a merge: {wrong}"))?;
        }
        Ok(())
    }

    fn check(&mut self, node: &firn_testkit::Node, question: &Question, before: &Response) -> Result<(), String> {
        let started = Instant::now();
        let what = format!("{} {} {}", question.method, question.path, question.body);
        let response = ask(node, &self.prepared.keys, question)
            .map_err(|error| format!("{what}: no answer: {error:#}\n{}", node.log()))?;
        if started.elapsed() > PATIENCE {
            return Err(format!("{what}: the answer took {:?}", started.elapsed()));
        }
        if response.is_same(before) {
            return Ok(());
        }
        if before.status == 401 {
            return Err(format!("{what}: answered without credentials: {}", response.text));
        }
        let in_log = || names(&node.log(), self.case, self.prepared);
        let in_answer = names(&response.text, self.case, self.prepared);
        // A listing cannot report an error; the log does.
        let is_listing = question.path.starts_with("/_cat/indices") && fewer_documents(&before.json, &response.json);
        let is_named = match response.is_failure || is_listing {
            true => in_answer || in_log(),
            false => in_answer,
        };
        if is_named && !self.case.class.is_copy() {
            self.failed = true;
            return Ok(());
        }
        let problem = match (is_named, response.is_failure) {
            (true, _) => "an answer depends on a copy",
            (false, true) => "an error that does not name the file",
            (false, false) => "a wrong answer",
        };
        Err(format!(
            "{what}: {problem}: {} {}\nbefore: {} {}\nlog: {}",
            response.status,
            shortened(&response.text),
            before.status,
            shortened(&before.text),
            node.log()
        ))
    }
}

/// Returns whether two listings of indices differ only in the counts of shards that do not serve.
fn fewer_documents(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_array(), after.as_array()) else {
        return false;
    };
    let number = |row: &Value| {
        row["docs.count"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0_u64)
    };
    before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| {
            before["uuid"] == after["uuid"] && before["index"] == after["index"] && number(after) <= number(before)
        })
}

fn shortened(text: &str) -> String {
    text.chars().take(3000).collect()
}
