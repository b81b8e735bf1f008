//! Validation of policies by Elasticsearch's rules for time series: the actions of each phase, and their combinations.

use std::collections::BTreeSet;

use super::{Action, PhaseName, Policy};
use crate::names::problem_as_file_name;
use crate::{Error, Result};

/// Maximum bytes of a policy's name.
const NAME_BYTES_MAX: usize = 255;

/// Returns the actions of a phase, in execution order. (`downsample`, which would follow `readonly`, is refused by
/// name.)
pub(super) fn allowed_in(phase: PhaseName) -> &'static [&'static str] {
    match phase {
        PhaseName::Hot => &[
            "set_priority",
            "unfollow",
            "rollover",
            "readonly",
            "shrink",
            "forcemerge",
            "searchable_snapshot",
        ],
        PhaseName::Warm => &[
            "set_priority",
            "unfollow",
            "readonly",
            "allocate",
            "migrate",
            "shrink",
            "forcemerge",
        ],
        PhaseName::Cold => &[
            "set_priority",
            "unfollow",
            "readonly",
            "searchable_snapshot",
            "allocate",
            "migrate",
        ],
        PhaseName::Frozen => &["unfollow", "searchable_snapshot"],
        PhaseName::Delete => &["wait_for_snapshot", "delete"],
    }
}

pub(super) fn order_of(phase: PhaseName, kind: &str) -> usize {
    let actions = allowed_in(phase);
    actions
        .iter()
        .position(|action| *action == kind)
        .unwrap_or(actions.len())
}

/// Actions that are invalid on an index that receives writes.
const NEED_ROLLOVER: &[&str] = &["readonly", "shrink", "forcemerge", "searchable_snapshot"];
/// Actions that cannot change a mounted index.
const NOT_WHEN_MOUNTED: &[&str] = &["forcemerge", "shrink"];

pub(super) fn check(policy: &Policy) -> Result<()> {
    check_hot(policy)?;
    check_mounted(policy)?;
    check_repositories(policy)?;
    let frozen = policy.phases.get(&PhaseName::Frozen);
    if frozen.is_some_and(|phase| phase.action("searchable_snapshot").is_none()) {
        return Err(Error::illegal_argument(
            "policy specifies the [frozen] phase without a corresponding [searchable_snapshot] action, but a \
             searchable snapshot action is required in the frozen phase",
        ));
    }
    check_ages(policy)
}

fn check_hot(policy: &Policy) -> Result<()> {
    let Some(hot) = policy.phases.get(&PhaseName::Hot) else {
        return Ok(());
    };
    let needy: Vec<&str> = NEED_ROLLOVER
        .iter()
        .copied()
        .filter(|kind| hot.action(kind).is_some())
        .collect();
    if hot.action("rollover").is_none() && !needy.is_empty() {
        return Err(Error::illegal_argument(format!(
            "the [{}] action(s) may not be used in the [hot] phase without an accompanying [rollover] action",
            needy.join(", ")
        )));
    }
    Ok(())
}

fn check_mounted(policy: &Policy) -> Result<()> {
    let mut mounted_in: Option<PhaseName> = None;
    let mut broken = Vec::new();
    for (name, phase) in &policy.phases {
        if mounted_in.is_some() && NOT_WHEN_MOUNTED.iter().any(|kind| phase.action(kind).is_some()) {
            broken.push(name.as_str());
        }
        if phase.action("searchable_snapshot").is_some() {
            mounted_in.get_or_insert(*name);
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "phases [{}] define one or more of [{}] actions which are not allowed after a managed index is mounted as a \
         searchable snapshot",
        broken.join(","),
        NOT_WHEN_MOUNTED.join(", ")
    )))
}

fn check_repositories(policy: &Policy) -> Result<()> {
    let repositories: BTreeSet<&str> = policy
        .phases
        .values()
        .flat_map(|phase| &phase.actions)
        .filter_map(|action| match action {
            Action::SearchableSnapshot(snapshot) => Some(snapshot.repository.as_str()),
            _ => None,
        })
        .collect();
    if repositories.len() <= 1 {
        return Ok(());
    }
    let repositories: Vec<&str> = repositories.into_iter().collect();
    Err(Error::illegal_argument(format!(
        "policy specifies [searchable_snapshot] action multiple times with differing repositories [{}], the same \
         repository must be used for all searchable snapshot actions",
        repositories.join(", ")
    )))
}

/// Checks that later phases are not due earlier. The age of the hot phase starts at creation, that of the others at the
/// rollover.
fn check_ages(policy: &Policy) -> Result<()> {
    let mut phases = policy.phases.iter().peekable();
    while let Some((name, phase)) = phases.next() {
        let mut earlier = phases.clone().filter(|(_, later)| later.min_age_ms < phase.min_age_ms);
        // A phase without an age follows its predecessor immediately.
        if let Some((later, _)) = earlier.find(|(_, later)| later.min_age_ms > 0) {
            return Err(Error::illegal_argument(format!(
                "phases [{}] configure a [min_age] value less than the [min_age] value of [{}] for the [{}] phase",
                later.as_str(),
                phase.min_age,
                name.as_str()
            )));
        }
    }
    Ok(())
}

/// Checks whether a policy may have this name.
pub fn validate_policy_name(name: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::illegal_argument(format!("invalid policy name [{name}]: {why}")));
    if name.contains(',') {
        return refuse("must not contain ','");
    }
    if name.contains(' ') {
        return refuse("must not contain ' '");
    }
    if name.starts_with('_') {
        return refuse("must not start with '_'");
    }
    if name.len() > NAME_BYTES_MAX {
        return refuse("name is too long");
    }
    // Elasticsearch accepts these names, but no client could put them into a path.
    if name.is_empty() {
        return refuse("must not be empty");
    }
    if name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        return refuse("must not contain '/', '\\' or control characters");
    }
    match problem_as_file_name(name) {
        Some(why) => refuse(why),
        None => Ok(()),
    }
}
