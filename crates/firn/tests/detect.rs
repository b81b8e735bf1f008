//! `firn detect`: Sigma rules on files of events (docs/operate/detection.md).

mod support;

use std::path::Path;

use support::{firn, stderr};

/// Two rules for process creations, one for another log, one for a log that the pack does not have, one that cannot be used.
const RULES: &str = r"
title: Encoded command
id: encoded
logsource: {category: process_creation, product: windows}
detection:
  selection:
    Image|endswith: '\powershell.exe'
    CommandLine|contains|windash: ' -enc '
  filter:
    User: 'EXAMPLE\backup'
  condition: selection and not filter
---
title: Started by Word
id: by-word
logsource: {category: process_creation, product: windows}
detection:
  selection:
    ParentImage|endswith: '\winword.exe'
  condition: selection
---
title: Log cleared
id: cleared
logsource: {product: windows, service: security}
detection:
  selection: {EventID: 1102}
  condition: selection
---
title: Other log
id: other
logsource: {product: linux, service: sshd}
detection:
  keywords: [error]
  condition: keywords
---
title: Looks around
id: refused
logsource: {category: process_creation, product: windows}
detection:
  selection:
    CommandLine|re: '(?=a)b'
  condition: selection
";

/// The numbers of the lines are those of the matches; the fourth is an evtx converter's shape.
const EVENTS: &str = r##"{"Channel":"Microsoft-Windows-Sysmon/Operational","EventID":1,"Image":"C:\\x\\PowerShell.exe","CommandLine":"powershell /ENC abc","User":"EXAMPLE\\ann","ParentImage":"C:\\Office\\WINWORD.EXE"}
{"Channel":"Microsoft-Windows-Sysmon/Operational","EventID":1,"Image":"C:\\x\\powershell.exe","CommandLine":"powershell -enc abc","User":"EXAMPLE\\backup"}

{"Event":{"System":{"Provider":{"#attributes":{"Name":"Microsoft-Windows-Eventlog"}},"Channel":"security","EventID":1102},"UserData":{"LogFileCleared":{"SubjectUserName":"ann"}}}}
{"Channel":"Microsoft-Windows-Sysmon/Operational","EventID":5,"Image":"C:\\x\\powershell.exe","CommandLine":"powershell -enc abc"}
no event
"##;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("rules/deep")).expect("a folder");
    std::fs::write(folder.path().join("rules/deep/rules.yml"), RULES).expect("a written file");
    std::fs::write(folder.path().join("rules/README.md"), "no rule").expect("a written file");
    std::fs::write(folder.path().join("events.ndjson"), EVENTS).expect("a written file");
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

#[test]
fn matches_are_printed_with_the_number_of_the_line() {
    let folder = folder();
    let (rules, events) = (path(&folder, "rules"), path(&folder, "events.ndjson"));
    let output = firn(&[
        "detect", "run", "--rules", &rules, "--pack", "windows", "--events", &events,
    ]);
    let matches = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        matches,
        "{\"rule\": \"encoded\", \"event\": 0}\n{\"rule\": \"by-word\", \"event\": 0}\n{\"rule\": \"cleared\", \"event\": 3}\n"
    );
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("[refused] Looks around"), "{error}");
    assert!(
        error.contains("3 rules are evaluated, 1 are for other events, 1 cannot be used"),
        "{error}"
    );
    assert!(
        error.contains("event 5: ") && error.contains("1 of 6 lines are no events"),
        "{error}"
    );
}

#[test]
fn without_a_pack_each_rule_is_for_each_event() {
    let folder = folder();
    let rules = path(&folder, "rules");
    let events = path(&folder, "plain.ndjson");
    std::fs::write(&events, "{\"EventID\":\"1102\",\"message\":\"an ERROR\"}\n").expect("a written file");
    let output = firn(&["detect", "run", "--rules", &rules, "--events", &events]);
    assert!(output.status.success(), "{}", stderr(&output));
    let matches = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        matches,
        "{\"rule\": \"cleared\", \"event\": 0}\n{\"rule\": \"other\", \"event\": 0}\n"
    );
}

#[test]
fn rules_that_cannot_be_used_are_listed_with_the_reason() {
    let folder = folder();
    let rules = path(&folder, "rules");
    let output = firn(&["detect", "check", "--rules", &rules, "--pack", "windows", "--unusable"]);
    assert_eq!(output.status.code(), Some(1));
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let unmapped = "unmapped  other  Other log: the pack [windows] has no log source with product linux, service sshd";
    assert!(list.contains(unmapped), "{list}");
    assert!(list.contains("refused   ") && list.contains("(?=a)b"), "{list}");
    assert!(!list.contains("usable  "), "{list}");
    let output = firn(&["detect", "check", "--rules", "/nowhere/rules"]);
    assert!(
        !output.status.success() && stderr(&output).contains("/nowhere/rules"),
        "{}",
        stderr(&output)
    );
}

/// The regression events of SigmaHQ and the recorded attacks are outside the repository; without them the test prints that it is
/// skipped, and passes.
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn rules_of_sigmahq_find_their_regression_events() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/sigma.tar.xz");
    let folder = tempfile::tempdir().expect("a folder");
    let unpacked = std::process::Command::new("tar")
        .arg("xf")
        .arg(&archive)
        .arg("-C")
        .arg(folder.path())
        .status();
    if !archive.is_file() || !unpacked.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: [{}] is not there, or cannot be unpacked", archive.display());
        return;
    }
    let mut sets = Vec::new();
    let mut folders = vec![folder.path().join("regression_data")];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(inside).expect("a folder").flatten() {
            match entry.path() {
                inner if inner.is_dir() => folders.push(inner),
                file if file.extension().is_some_and(|extension| extension == "json") => sets.push(file),
                _ => {}
            }
        }
    }
    // The file of a set is named after its rule, and holds one event or several.
    let (mut lines, mut expected) = (String::new(), Vec::new());
    let mut count = 0;
    for file in &sets {
        let text = std::fs::read_to_string(file).expect("the events");
        let id = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let first = count;
        for event in serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>() {
            lines.push_str(&format!("{}\n", event.expect("JSON")));
            count += 1;
        }
        expected.push((id, first..count));
    }
    let events = path(&folder, "events.ndjson");
    std::fs::write(&events, lines).expect("a written file");
    let (rules, emerging) = (path(&folder, "rules"), path(&folder, "rules-emerging-threats"));
    let output = firn(&[
        "detect", "run", "--rules", &rules, &emerging, "--pack", "windows", "--events", &events,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Vec<(String, usize)> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|hit| {
            let event = hit["event"].as_u64().expect("a number");
            (hit["rule"].as_str().expect("a rule").to_owned(), event as usize)
        })
        .collect();
    let missed = expected
        .iter()
        .filter(|(id, events)| !found.iter().any(|(rule, event)| rule == id && events.contains(event)));
    let missed: Vec<&String> = missed.map(|(id, _)| id).collect();
    assert!(expected.len() >= 100, "{} sets", expected.len());
    assert_eq!(missed, Vec::<&String>::new(), "rules that miss their events");
}
