//! Runs every command of README's tour, of the walk through the tiers, of the event pipelines, of the alerts, of the Discover API's page, and
//! of the page on recovery, against a separate firn.
//!
//! Between `<!-- tour -->` and `<!-- /tour -->`, bash runs each ```` ```sh ```` block in one folder, one after another;
//! the ```` ```text ```` block that follows holds lines that its output must contain, with `…` for variable parts.

use std::path::Path;
use std::process::Command;

use firn_testkit::{MailServer, Node, NodeOptions};

struct Step {
    line: usize,
    script: String,
    shows: Vec<String>,
}

fn steps(readme: &str) -> Vec<Step> {
    let (mut steps, mut inside, mut block): (Vec<Step>, bool, Option<&str>) = (Vec::new(), false, None);
    for (number, line) in readme.lines().enumerate() {
        match (line.trim_end(), block) {
            ("<!-- tour -->", None) => inside = true,
            ("<!-- /tour -->", None) => inside = false,
            ("```sh", None) if inside => {
                steps.push(Step {
                    line: number + 1,
                    script: String::new(),
                    shows: Vec::new(),
                });
                block = Some("sh");
            }
            ("```text", None) if inside => block = Some("text"),
            ("```", Some(_)) => block = None,
            (line, Some("sh")) => steps.last_mut().unwrap().script += &format!("{line}\n"),
            (line, Some("text")) => steps.last_mut().unwrap().shows.push(line.to_owned()),
            _ => {}
        }
    }
    steps
}

/// Returns whether `output` has a line with the pieces of `pattern` in order.
fn shows(output: &str, pattern: &str) -> bool {
    output.lines().any(|line| {
        let mut rest = line;
        pattern.trim().split('…').all(|piece| match rest.find(piece.trim()) {
            Some(at) => {
                rest = &rest[at + piece.trim().len()..];
                true
            }
            None => false,
        })
    })
}

/// Runs the tour of a page against a node with these settings; `FOLDER` in them is the folder of the tour.
fn walk(page: &str, steps_min: usize, settings: &[(&str, &str)]) {
    walk_with_mail(page, steps_min, settings, 1025);
}

/// The same with a mail server at a port.
fn walk_with_mail(page: &str, steps_min: usize, settings: &[(&str, &str)], mail_port: u16) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let steps = steps(&std::fs::read_to_string(root.join(page)).unwrap());
    assert!(steps.len() >= steps_min, "{page} has only {} steps", steps.len());
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let setting = |(name, value): &(&str, &str)| ((*name).to_owned(), value.replace("FOLDER", &place));
    let options = NodeOptions {
        settings: settings.iter().map(setting).collect(),
    };
    let node = Node::start(binary, folder.path(), &options).unwrap();
    run(page, steps, folder.path(), (node.port(), mail_port), &|| node.log());
    node.stop().unwrap();
}

/// Runs steps one after another in a folder, against a server and a mail server at these ports.
fn run(page: &str, steps: Vec<Step>, folder: &Path, (port, mail_port): (u16, u16), log: &dyn Fn() -> String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    // The tour calls `firn`, as after `make run` with target/release in the path.
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let syslog = free_port().to_string();
    for step in steps {
        let script = step
            .script
            .replace("5514", &syslog)
            .replace("1025", &mail_port.to_string())
            .replace("127.0.0.1:9200", &format!("127.0.0.1:{port}"))
            .replace("localhost:9200", &format!("127.0.0.1:{port}"))
            .replace("--port 9200", &format!("--port {port}"));
        // A step that waits for something that does not come must fail.
        let output = Command::new("timeout")
            .args(["120", "bash", "-euo", "pipefail", "-c", &script])
            .env("PATH", &path)
            .env(firn_testkit::FLOOD_STAGE, "100mb")
            .current_dir(folder)
            .output()
            .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.status.success(),
            "{page}:{}: {}\nfailed:\n{text}\nlog:\n{}",
            step.line,
            step.script,
            log()
        );
        for pattern in &step.shows {
            assert!(
                pattern.trim().is_empty() || shows(&text, pattern),
                "{page}:{}: {}\nshows no line like `{pattern}`:\n{text}",
                step.line,
                step.script
            );
        }
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn every_command_of_the_event_pipelines_works() {
    walk("docs/operate/pipelines.md", 6, &[]);
}

#[test]
fn every_command_of_the_page_on_alerts_works() {
    let mail_server = MailServer::start().unwrap();
    walk_with_mail("docs/operate/alerts.md", 4, &[], mail_server.port());
    let mails = mail_server.mails();
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert!(
        mails[0].contains("Subject: [critical] Security log cleared"),
        "{}",
        mails[0]
    );
}

#[test]
fn every_command_of_the_tour_works() {
    walk("README.md", 8, &[]);
}

#[test]
fn every_command_of_the_walk_through_the_tiers_works() {
    walk(
        "docs/operate/tiers.md",
        10,
        &[
            ("path.repo", "FOLDER/repo"),
            ("xpack.searchable.snapshot.shared_cache.size", "64mb"),
        ],
    );
}

#[test]
fn every_command_of_the_discover_api_works() {
    walk("docs/discover-api.md", 2, &[]);
}

/// Stops the server that a page started if its test fails.
struct Stopped<'a>(&'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("firn.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

/// The page starts and stops its server.
#[test]
fn every_command_of_the_page_on_recovery_works() {
    let page = "docs/operate/recovery.md";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let steps = steps(&std::fs::read_to_string(root.join(page)).unwrap());
    assert!(steps.len() >= 8, "{page} has only {} steps", steps.len());
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _stopped = Stopped(folder.path());
    let log = || std::fs::read_to_string(folder.path().join("firn.log")).unwrap_or_default();
    run(page, steps, folder.path(), (port, 1025), &log);
}
