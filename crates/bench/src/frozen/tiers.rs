//! The same events hot, cold and frozen with caches of several sizes: the cost of the same queries in each tier.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::Loaded;
use super::gateway::Store;
use super::measure::{self, Cost};
use super::node::{Ask, Mount, Node, REPOSITORY};
use super::proxy::Traffic;
use super::questions::{self, Window};
use crate::discover::stage_result;

/// Number of consecutive needle queries, each for another needle.
const NEEDLES: usize = 7;
/// Repetitions of a query.
const REPEATS: usize = 7;
/// A copy that takes longer counts as failed.
const COPY_PATIENCE: Duration = Duration::from_secs(1800);
const COPY_POLL: Duration = Duration::from_millis(20);
/// After this time without traffic, the copy is complete.
const COPY_QUIET: Duration = Duration::from_secs(2);
/// A split is smaller than its segment, but not by more than this.
const COPY_PART_MIN: f64 = 0.3;

/// Tier of the events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tier {
    /// On local disk, as they were written.
    Hot,
    /// A mount copied to local disk.
    Cold,
    /// A mount read through a cache of this size in percent of the data.
    Frozen { cache_percent: f64 },
}

impl Tier {
    pub(super) fn title(self) -> String {
        match self {
            Self::Hot => "hot".to_owned(),
            Self::Cold => "cold (full_copy)".to_owned(),
            Self::Frozen { cache_percent } => format!("frozen, cache {cache_percent} %"),
        }
    }
}

/// Results of a query on a tier.
#[derive(Debug, Clone, Serialize)]
pub(super) struct QuestionTiming {
    pub(super) question: Question,
    pub(super) first: Cost,
    pub(super) repeated: Cost,
    /// Of a similar query after it.
    pub(super) similar: Cost,
}

/// Queries of each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    Needle,
    Dashboard,
}

impl Question {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Needle => "needle",
            Self::Dashboard => "dashboard of five visualisations",
        }
    }
}

/// Results of a tier.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TierReport {
    pub(super) tier: Tier,
    /// Time until the events could be queried; `None` for the tier where they were written.
    pub(super) mount_seconds: Option<f64>,
    pub(super) mount_traffic: Option<Traffic>,
    /// Time until a copy was complete.
    pub(super) copied_seconds: Option<f64>,
    pub(super) timings: Vec<QuestionTiming>,
    /// For a frozen tier: Discover's first page over all events, on a fresh node.
    pub(super) discover_sample: Option<Cost>,
    /// Bytes fetched in total, by kind of file.
    pub(super) fetched_by_kind: BTreeMap<String, u64>,
}

/// A run over tiers.
pub(super) struct Tiers<'a> {
    pub(super) store: &'a Store,
    pub(super) base_path: &'a str,
    pub(super) folder: &'a Path,
    pub(super) loaded: &'a Loaded,
}

/// Responses of the first tier, which the other tiers must equal.
#[derive(Default)]
pub(super) struct Truth {
    answers: Vec<Value>,
}

impl Tiers<'_> {
    /// Measures the node where the events were written.
    pub(super) fn hot(&self, node: &Node, truth: &mut Truth) -> anyhow::Result<TierReport> {
        Ok(TierReport {
            tier: Tier::Hot,
            mount_seconds: None,
            mount_traffic: None,
            copied_seconds: None,
            timings: self.ask_all(node, &self.loaded.index, truth)?,
            discover_sample: None,
            fetched_by_kind: BTreeMap::new(),
        })
    }

    /// Measures a mount on a fresh node.
    pub(super) fn mounted(&self, tier: Tier, truth: &mut Truth) -> anyhow::Result<TierReport> {
        let node = self.node(tier, "questions")?;
        let mount = self.mount(tier);
        let (started, before) = (Instant::now(), self.store.proxy.traffic());
        node.mount(&mount)?;
        let mount_seconds = started.elapsed().as_secs_f64();
        let mount_traffic = self.store.proxy.traffic().since(before);
        let copied_seconds = match tier {
            Tier::Cold => Some(self.wait_for_copy(started, before)?),
            _ => None,
        };
        let timings = self.ask_all(&node, mount.name, truth)?;
        let fetched_by_kind = measure::fetched_by_kind(&node)?;
        drop(node);
        let discover_sample = match tier {
            Tier::Frozen { .. } => Some(self.discover_sample(tier).context("the first page of Discover")?),
            Tier::Hot | Tier::Cold => None,
        };
        Ok(TierReport {
            tier,
            mount_seconds: Some(mount_seconds),
            mount_traffic: Some(mount_traffic),
            copied_seconds,
            timings,
            discover_sample,
            fetched_by_kind,
        })
    }

    /// Starts a fresh node for a tier; `purpose` distinguishes the folders of one tier.
    fn node(&self, tier: Tier, purpose: &str) -> anyhow::Result<Node> {
        let settings = match tier {
            Tier::Frozen { cache_percent } => cache_of(self.loaded.stored_bytes, cache_percent),
            Tier::Hot | Tier::Cold => Vec::new(),
        };
        let name = tier.title().replace([' ', ',', '%', '(', ')'], "-");
        Node::start(
            &self.folder.join(format!("{name}-{purpose}")),
            self.store,
            self.base_path,
            &settings,
        )
    }

    fn mount(&self, tier: Tier) -> Mount<'_> {
        Mount {
            snapshot: &self.loaded.snapshot,
            index: &self.loaded.index,
            name: "mounted",
            storage: match tier {
                Tier::Frozen { .. } => "shared_cache",
                Tier::Hot | Tier::Cold => "full_copy",
            },
        }
    }

    /// Measures the newest hundred events and their exact number.
    fn discover_sample(&self, tier: Tier) -> anyhow::Result<Cost> {
        let node = self.node(tier, "discover")?;
        let mount = self.mount(tier);
        node.mount(&mount)?;
        let body = questions::discover_sample(mount.name);
        let (answer, cost) = measure::cost(&node, self.store, || node.send("/_firn/discover", &Ask::Json(&body)))?;
        let result = stage_result(&answer)?;
        ensure!(
            result["total"]["value"] == self.loaded.amount.events,
            "it counts {}",
            result["total"]
        );
        ensure!(
            result["hits"].as_array().map(Vec::len) == Some(questions::SAMPLE_HITS),
            "hits are missing"
        );
        Ok(cost)
    }

    /// Returns the seconds of a restore of the snapshot on a fresh node.
    pub(super) fn restore_seconds(&self) -> anyhow::Result<f64> {
        let node = Node::start(&self.folder.join("restored"), self.store, self.base_path, &[])?;
        let started = Instant::now();
        let path = format!(
            "/_snapshot/{REPOSITORY}/{}/_restore?wait_for_completion=true",
            self.loaded.snapshot
        );
        let body = json!({"indices": self.loaded.index, "include_global_state": false});
        node.client.json("POST", &path, Some(&body))?;
        let seconds = started.elapsed().as_secs_f64();
        let count = node
            .client
            .json("GET", &format!("/{}/_count", self.loaded.index), None)?;
        ensure!(
            count["count"] == self.loaded.amount.events,
            "the restored index has {} events",
            count["count"]
        );
        Ok(seconds)
    }

    /// Returns the seconds until the copy was complete: enough bytes were transferred, and then no more.
    fn wait_for_copy(&self, started: Instant, before: Traffic) -> anyhow::Result<f64> {
        let (mut passed, mut changed) = (Traffic::default(), Instant::now());
        let enough = (self.loaded.stored_bytes as f64 * COPY_PART_MIN) as u64;
        loop {
            let now = self.store.proxy.traffic().since(before);
            if now != passed {
                (passed, changed) = (now, Instant::now());
            }
            if passed.downloaded_bytes >= enough && changed.elapsed() >= COPY_QUIET {
                return Ok((changed - started).as_secs_f64());
            }
            ensure!(
                started.elapsed() < COPY_PATIENCE,
                "the copy is incomplete: {} bytes",
                passed.downloaded_bytes
            );
            std::thread::sleep(COPY_POLL);
        }
    }

    fn ask_all(&self, node: &Node, index: &str, truth: &mut Truth) -> anyhow::Result<Vec<QuestionTiming>> {
        let mut answers = Vec::new();
        let timings = vec![
            self.needle(node, index, &mut answers)?,
            self.dashboard(node, index, &mut answers)?,
        ];
        if truth.answers.is_empty() {
            truth.answers = answers;
        } else {
            for (found, expected) in answers.iter().zip(&truth.answers) {
                ensure!(
                    found == expected,
                    "{index} answers {found}, and the hot tier {expected}"
                );
            }
        }
        Ok(timings)
    }

    /// The first is the very first query of the node; the similar ones are other needles.
    fn needle(&self, node: &Node, index: &str, answers: &mut Vec<Value>) -> anyhow::Result<QuestionTiming> {
        let path = format!("/{index}/_search");
        let ask = |needle: &str| measure::ask(node, self.store, &path, &Ask::Json(&questions::needle(needle)));
        let mut needles = self.loaded.needles.iter();
        let needle = needles.next().context("no needle")?;
        let (answer, first) = ask(needle)?;
        ensure!(
            answer["hits"]["total"]["value"] == 1,
            "{needle} is not a needle: {answer}"
        );
        answers.push(questions::comparable(&answer));
        let repeated = (0..REPEATS)
            .map(|_| Ok(ask(needle)?.1))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let similar = needles
            .take(NEEDLES)
            .map(|needle| Ok(ask(needle)?.1))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(QuestionTiming {
            question: Question::Needle,
            first,
            repeated: measure::median(&repeated).context("not repeated")?,
            similar: measure::median(&similar).context("only one needle")?,
        })
    }

    fn dashboard(&self, node: &Node, index: &str, answers: &mut Vec<Value>) -> anyhow::Result<QuestionTiming> {
        let ask = |window| {
            let lines = questions::dashboard(index, window);
            measure::ask(node, self.store, "/_msearch", &Ask::Lines(&lines))
        };
        let (answer, first) = ask(Window::Whole)?;
        answers.push(questions::comparable(&answer));
        let repeated = (0..REPEATS)
            .map(|_| Ok(ask(Window::Whole)?.1))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (answer, similar) = ask(Window::Later)?;
        answers.push(questions::comparable(&answer));
        Ok(QuestionTiming {
            question: Question::Dashboard,
            first,
            repeated: measure::median(&repeated).context("not repeated")?,
            similar,
        })
    }
}

/// Returns the setting for a cache of a percentage of the data.
pub(super) fn cache_of(stored_bytes: u64, percent: f64) -> Vec<(&'static str, String)> {
    let bytes = (stored_bytes as f64 * percent / 100.0).ceil() as u64;
    vec![("xpack.searchable.snapshot.shared_cache.size", format!("{bytes}b"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_a_part_of_the_data() {
        let [(_, size)] = cache_of(1000, 0.5).try_into().unwrap();
        assert_eq!(size, "5b");
        assert_eq!(Tier::Frozen { cache_percent: 0.5 }.title(), "frozen, cache 0.5 %");
    }
}
