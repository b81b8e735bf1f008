//! Real Apache Kafka broker for tests, in KRaft mode, without a container.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::node::free_port;

const VERSION: &str = "4.3.1";
const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";
const START_TIME_MAX: Duration = Duration::from_secs(90);

/// Runs the broker until standard input closes: it ends with the test's process even if that keeps the broker in a static.
const SHELL: &str = r#"java "$@" </dev/null & read -r end; kill -9 $!; wait $!"#;

/// Apache Kafka on a free port of 127.0.0.1, without authentication. Killed when dropped; the caller owns its folder.
#[derive(Debug)]
pub struct Kafka {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    libraries: PathBuf,
}

impl Kafka {
    /// Starts an empty broker with its data in `folder`. The first start on a machine fetches Kafka from Maven Central.
    pub fn start(folder: &Path) -> Result<Self> {
        let libraries = libraries()?;
        let (port, controller) = (free_port()?, free_port()?);
        let data = folder.join("data");
        let properties = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\n\
             log.dirs={}\n\
             offsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n\
             share.coordinator.state.topic.replication.factor=1\n\
             share.coordinator.state.topic.min.isr=1\n\
             group.initial.rebalance.delay.ms=0\n\
             broker.session.timeout.ms=2000\n\
             broker.heartbeat.interval.ms=300\n\
             group.min.session.timeout.ms=1000\n\
             auto.create.topics.enable=false\n",
            data.display()
        );
        fs::create_dir_all(folder)?;
        fs::write(folder.join("server.properties"), properties)?;
        let mut kafka = Self {
            child: None,
            port,
            folder: folder.to_owned(),
            libraries,
        };
        let formatted = Command::new("java")
            .args(kafka.java("kafka.tools.StorageTool"))
            .args(["format", "-t", CLUSTER_ID, "-c"])
            .arg(folder.join("server.properties"))
            .output()
            .context("start java: `scripts/setup.sh test` installs it")?;
        if !formatted.status.success() {
            bail!(
                "kafka.tools.StorageTool: {}",
                String::from_utf8_lossy(&formatted.stderr)
            );
        }
        kafka.start_again()?;
        Ok(kafka)
    }

    /// Kills the broker, as a power cut does; its data stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Closes its standard input first.
            let _ = child.wait();
        }
    }

    /// Starts a broker that was killed, on the same port and data, and waits until its port is open.
    pub fn start_again(&mut self) -> Result<()> {
        let log = File::create(self.folder.join("broker.log"))?;
        let child = Command::new("sh")
            .args(["-c", SHELL, "java"])
            .args(self.java("kafka.Kafka"))
            .arg(self.folder.join("server.properties"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start java: `scripts/setup.sh test` installs it")?;
        let child = self.child.insert(child);
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(self.folder.join("broker.log")).unwrap_or_default();
                bail!("Kafka ended with {status} before it answered: {log}");
            }
            if started.elapsed() > START_TIME_MAX {
                bail!("Kafka did not answer within {START_TIME_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns its address, for `bootstrap.servers`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: u32) -> Result<()> {
        let created = Command::new("java")
            .args(self.java("org.apache.kafka.tools.TopicCommand"))
            .args([
                "--bootstrap-server",
                &self.address(),
                "--create",
                "--topic",
                name,
                "--partitions",
            ])
            .arg(partitions.to_string())
            .output()?;
        if !created.status.success() {
            bail!("TopicCommand: {}", String::from_utf8_lossy(&created.stderr));
        }
        Ok(())
    }

    /// Starts Kafka's console producer.
    pub fn producer(&self, topic: &str) -> Result<KafkaProducer> {
        let child = Command::new("java")
            .args(self.java("org.apache.kafka.tools.ConsoleProducer"))
            .args(["--bootstrap-server", &self.address(), "--topic", topic])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(KafkaProducer { child })
    }

    /// Reads `count` records of a topic from its beginning, or those that come within a minute.
    pub fn consume(&self, topic: &str, count: usize) -> Result<Vec<KafkaConsumed>> {
        let properties = ["print.partition=true", "print.headers=true", "print.key=true"];
        let properties = properties.map(|property| ["--formatter-property", property]);
        let consumed = Command::new("java")
            .args(self.java("org.apache.kafka.tools.consumer.ConsoleConsumer"))
            .args([
                "--bootstrap-server",
                &self.address(),
                "--topic",
                topic,
                "--from-beginning",
            ])
            .args(["--timeout-ms", "60000", "--max-messages", &count.to_string()])
            .args(properties.as_flattened())
            .output()?;
        let text = String::from_utf8(consumed.stdout)?;
        let parse = |line: &str| {
            let mut parts = line.splitn(4, '\t').map(str::to_owned);
            let mut next = || {
                parts
                    .next()
                    .with_context(|| format!("a line of the console consumer: {line}"))
            };
            Ok(KafkaConsumed {
                partition: next()?,
                headers: next()?,
                key: next()?,
                value: next()?,
            })
        };
        text.lines().map(parse).collect()
    }

    fn java(&self, class: &str) -> [String; 6] {
        let libraries = format!("{}/*", self.libraries.display());
        [
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            &libraries,
            class,
        ]
        .map(str::to_owned)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Record as Kafka's console consumer prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaConsumed {
    /// `Partition:N`.
    pub partition: String,
    /// `NAME:VALUE,…`.
    pub headers: String,
    /// The key; `null`: it has none.
    pub key: String,
    /// The value.
    pub value: String,
}

/// Console producer of Kafka: each line is a record.
#[derive(Debug)]
pub struct KafkaProducer {
    child: Child,
}

impl KafkaProducer {
    /// Writes lines that end with a newline. They reach the broker later.
    pub fn write(&mut self, lines: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("the producer has ended")?;
        input.write_all(lines.as_bytes())?;
        Ok(input.flush()?)
    }

    /// Ends the producer once the broker has all records.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the Kafka producer ended with {status}");
        }
        Ok(())
    }
}

impl Drop for KafkaProducer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder of Kafka's libraries, below the folder of the build, and fetches them if they are not there.
fn libraries() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // target/debug/deps/test
    let target = program.ancestors().nth(3).context("the test is in no target folder")?;
    let folder = target.join(format!("kafka-{VERSION}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let fetching = target.join(format!("kafka-{VERSION}.{}", std::process::id()));
    fs::create_dir_all(&fetching)?;
    let project = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>firn</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>\
         <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>\
         <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>\
         </dependencies></project>"
    );
    fs::write(fetching.join("pom.xml"), project)?;
    let fetched = Command::new("mvn")
        .args([
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ])
        .current_dir(&fetching)
        .output()
        .context("start mvn: `scripts/setup.sh test` installs it")?;
    if !fetched.status.success() {
        bail!(
            "mvn: {}{}",
            String::from_utf8_lossy(&fetched.stdout),
            String::from_utf8_lossy(&fetched.stderr)
        );
    }
    // Another test may have been faster.
    if fs::rename(fetching.join("libs"), &folder).is_err() && !folder.is_dir() {
        bail!("{} was not created", folder.display());
    }
    fs::remove_dir_all(&fetching)?;
    Ok(folder)
}
