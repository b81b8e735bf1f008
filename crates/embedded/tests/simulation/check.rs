//! Comparison of the engine's answers with the model.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use firn_engine::snapshot::Snapshots as _;
use firn_engine::{Error, ErrorKind};

use crate::model::{Kind, Presence};
use crate::node::{DATA, ctx};
use crate::operations::version_of;
use crate::run::Run;

/// Maximum time until a shard that an I/O error stopped serves again once the disk works.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(20);

impl Run<'_> {
    /// Check during a possible fault: indices with green health that answer must answer correctly. Failures are
    /// accepted.
    pub(crate) fn check_loosely(&self) -> Result<(), String> {
        for name in self.model.names(|_| true) {
            if self.is_down() {
                return Ok(());
            }
            let found = match self.node().documents(&name) {
                Ok(found) => found,
                Err(error) if self.is_down() || self.is_accepted(&name, &error) => continue,
                Err(error) => return Err(format!("[{name}] is green and fails: {error}")),
            };
            let wrong = found.and_then(|found| self.model.indices[&name].docs.check(&found));
            if let Err(wrong) = wrong
                && !self.is_down()
                && self.node().failures(&name).is_empty()
            {
                return Err(format!("[{name}] is green, and {wrong}"));
            }
        }
        Ok(())
    }

    /// Whether a search failure is accepted: health shows it, or the repository caused it, or it was temporary.
    fn is_accepted(&self, name: &str, error: &Error) -> bool {
        let is_mounted = matches!(self.model.indices[name].kind, Kind::Mounted(_));
        let is_of_repository = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Repository);
        is_mounted && is_of_repository
            || !self.node().failures(name).is_empty()
            || self.node().search(name).is_ok()
            || matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Internal) && !is_mounted
    }

    /// Check after all faults: every document exists once, and every shard serves. `is_durable`: the found state is
    /// durable, so doubts end.
    pub(crate) fn check(&mut self, is_durable: bool) -> Result<(), String> {
        self.wait_for_shards()?;
        self.check_names(is_durable)?;
        let names = self.model.names(|_| true);
        for name in names {
            let failures = self.node().failures(&name);
            if !failures.is_empty() {
                return Err(format!("[{name}] does not serve: {}", failures.join("; ")));
            }
            let found = self
                .node()
                .documents(&name)
                .map_err(|error| format!("[{name}] fails: {error}"))?;
            let found = found.map_err(|wrong| format!("[{name}]: {wrong}"))?;
            let Some(index) = self.model.indices.get_mut(&name) else {
                continue;
            };
            index.docs.check(&found).map_err(|wrong| format!("[{name}]: {wrong}"))?;
            // The content of a snapshot is checked only if it is mounted.
            if is_durable {
                index.docs.settle(&found);
            }
        }
        Ok(())
    }

    /// Waits until shards that an error stopped are reopened.
    fn wait_for_shards(&self) -> Result<(), String> {
        let until = Instant::now() + RECOVERY_PATIENCE;
        loop {
            let failures = self.node().failures("*");
            if failures.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!(
                    "shards do not serve though the disk is well: {}",
                    failures.join("; ")
                ));
            }
            self.node().engine.begin_due();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn check_names(&mut self, is_durable: bool) -> Result<(), String> {
        let metadata = self.node().metadata().map_err(|error| error.to_string())?;
        for (name, index) in &self.model.indices {
            if index.presence == Presence::Certain && !metadata.indices.contains_key(name) {
                return Err(format!("index [{name}] is gone"));
            }
        }
        if let Some(name) = metadata
            .indices
            .keys()
            .find(|name| !self.model.indices.contains_key(*name))
        {
            return Err(format!("index [{name}] was deleted or never made, and is there"));
        }
        let templates: BTreeMap<String, u64> = metadata
            .index_templates
            .iter()
            .map(|(name, template)| (name.clone(), version_of(&template.print())))
            .collect();
        let wrong = self.model.templates.check(&templates);
        wrong.map_err(|wrong| format!("templates: {wrong}"))?;
        if is_durable {
            self.model.templates.settle(&templates);
            self.model.indices.retain(|name, index| {
                index.presence = Presence::Certain;
                metadata.indices.contains_key(name)
            });
        }
        self.check_snapshots()
    }

    fn check_snapshots(&mut self) -> Result<(), String> {
        let all = vec!["*".to_owned()];
        let infos = self
            .node()
            .run(self.node().engine.list_snapshots(&ctx(), "r", &all, false));
        let infos = match infos {
            Ok(infos) => infos,
            // The first command of a run registers the repository.
            Err(error) if error.kind() == ErrorKind::RepositoryMissing && self.model.snapshots.is_empty() => {
                return Ok(());
            }
            Err(error) => return Err(format!("snapshots: {error}")),
        };
        for info in &infos {
            if !self.model.snapshots.contains_key(&info.name) {
                return Err(format!(
                    "snapshot [{}] was removed or never made, and is there",
                    info.name
                ));
            }
        }
        let mut gone = Vec::new();
        for (name, snapshot) in &mut self.model.snapshots {
            let info = infos.iter().find(|info| info.name == *name);
            match (info, snapshot.presence) {
                (Some(info), _) if crate::snapshots::is_whole(info) => snapshot.presence = Presence::Certain,
                (Some(info), Presence::Certain) => return Err(format!("snapshot [{name}] is {:?}", info.state)),
                (None, Presence::Certain) => return Err(format!("snapshot [{name}] is gone")),
                (Some(_), Presence::Doubtful) => {}
                (None, Presence::Doubtful) => gone.push(name.clone()),
            }
        }
        gone.iter().for_each(|name| drop(self.model.snapshots.remove(name)));
        Ok(())
    }

    /// Check after a bit flip: every answer is correct, or an error names a file. Health shows that error.
    pub(crate) fn check_damaged(&self, place: &Path) -> Result<(), String> {
        let metadata = self.node().metadata().map_err(|error| error.to_string())?;
        for name in self.model.names(|_| true) {
            if !metadata.indices.contains_key(&name) {
                return Err(format!("index [{name}] is gone"));
            }
            let failures = self.node().failures(&name);
            if let Some(failure) = failures.first() {
                names_file(failure, place).map_err(|why| format!("[{name}]: {why}"))?;
                continue;
            }
            match self.node().documents(&name) {
                Ok(found) => {
                    let wrong = found.and_then(|found| self.model.indices[&name].docs.check(&found));
                    wrong.map_err(|wrong| format!("[{name}] is green, and {wrong}"))?;
                }
                Err(error) => names_file(&error.to_string(), place).map_err(|why| format!("[{name}]: {why}"))?,
            }
        }
        Ok(())
    }
}

/// Checks that an error names a file: the one with the flipped bit by its name, or another one by its path.
pub(crate) fn names_file(error: &str, place: &Path) -> Result<(), String> {
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or(DATA);
    // A repair from a snapshot runs beside the check: its log names the file.
    let is_repaired = error.contains("the shard is being repaired");
    match error.contains(name) || error.contains(DATA) || is_repaired {
        true => Ok(()),
        false => Err(format!("an error names no file: {error}")),
    }
}
