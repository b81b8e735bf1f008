//! What is measured: a firn on a data path, or a running server of another kind.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials};
use serde_json::json;

use crate::pipeline::cef_ingest_pipeline;
use crate::start;

/// Index of the events, and name of their pipeline.
pub(super) const INDEX: &str = "bench-storage";
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// See the module. A firn is stopped and its folder removed when this is dropped.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) client: Client,
    /// Address of the syslog listener; `None`: events come by bulk requests.
    pub(super) syslog: Option<SocketAddr>,
    own: Option<(Child, PathBuf)>,
}

impl Subject {
    /// Starts a firn in a new folder below `folder`.
    pub(super) fn start(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join(format!("firn-bench-storage-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("cannot create [{}]", folder.display()))?;
        let log = File::create(folder.join("firn.log"))?;
        let (port, syslog) = (start::free_port()?, start::free_port()?);
        let child = Command::new(std::env::current_exe().context("cannot find this program's file")?)
            .args(["serve", "-E", &format!("http.port={port}"), "-E"])
            .arg(format!("path.data={}", folder.join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a firn")?;
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        let mut subject = Self {
            name: name.to_owned(),
            client: Client::new(&url, &Credentials::default(), false)?,
            syslog: Some((Ipv4Addr::LOCALHOST, syslog).into()),
            own: Some((child, folder)),
        };
        if let Some((child, folder)) = &mut subject.own {
            start::wait_for_answer(&subject.client, Instant::now(), Some(child))
                .with_context(|| format!("see {}", folder.join("firn.log").display()))?;
        }
        Ok(subject)
    }

    /// Connects to a running server.
    pub(super) fn peer(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            name: "peer".to_owned(),
            client: Client::new(url, &Credentials::default(), false)?,
            syslog: None,
            own: None,
        })
    }

    /// Creates the index anew.
    pub(super) fn prepare_index(&self) -> anyhow::Result<()> {
        self.delete(&format!("/{INDEX}"))?;
        let ip = json!({"type": "ip"});
        let index = json!({
            "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0, "index.refresh_interval": "1s"},
            "mappings": {
                "dynamic_templates": [
                    {"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 1024}}}],
                "properties": {
                    "@timestamp": {"type": "date"},
                    "message": {"type": "text"},
                    "event": {"properties": {"original": {"type": "keyword", "index": false, "doc_values": false}}},
                    "source": {"properties": {"ip": ip}},
                    "destination": {"properties": {"ip": ip}},
                },
            },
        });
        self.client.json("PUT", &format!("/{INDEX}"), Some(&index)).map(drop)
    }

    /// Creates the pipeline of the lines.
    pub(super) fn prepare_pipeline(&self) -> anyhow::Result<()> {
        let Some(syslog) = self.syslog else {
            let path = format!("/_ingest/pipeline/{INDEX}");
            return self.client.json("PUT", &path, Some(&cef_ingest_pipeline())).map(drop);
        };
        let path = format!("/_firn/pipelines/{INDEX}");
        let definition =
            json!({"source": {"type": "syslog", "tcp": syslog.to_string()}, "pack": "cef", "index": INDEX});
        self.client.json("PUT", &path, Some(&definition))?;
        let started = Instant::now();
        while std::net::TcpStream::connect(syslog).is_err() {
            if started.elapsed() > START_TIME_MAX {
                bail!("the pipeline does not listen");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns the number of searchable events.
    pub(super) fn count(&self) -> anyhow::Result<u64> {
        let answer = self.client.json("GET", &format!("/{INDEX}/_count"), None)?;
        answer["count"]
            .as_u64()
            .context("the server does not say how many events it has")
    }

    fn delete(&self, path: &str) -> anyhow::Result<()> {
        let sent = self.client.send("DELETE", path, None);
        sent.map(drop).map_err(|failure| anyhow::anyhow!("{failure}"))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some((child, folder)) = &mut self.own {
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
