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
        error.contains("event 5: ") && error.contains("1 of 6 lines are not events"),
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

/// Runs rules on the events of a pack, and returns the matches as `rule event`.
fn matches(pack: &str, rules: &str, events: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (rule_file, event_file) = (path(&folder, "rules.yml"), path(&folder, "events"));
    std::fs::write(&rule_file, rules).expect("a written file");
    std::fs::write(&event_file, events).expect("a written file");
    let output = firn(&[
        "detect",
        "run",
        "--rules",
        &rule_file,
        "--pack",
        pack,
        "--events",
        &event_file,
    ]);
    assert!(output.status.success(), "{pack}: {}", stderr(&output));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = lines.lines().map(|line| {
        let found: serde_json::Value = serde_json::from_str(line).expect("JSON");
        format!("{} {}", found["rule"].as_str().expect("an id"), found["event"])
    });
    lines.collect()
}

/// Windows' own audit stands in for Sysmon; a rule whose filter reads what it lacks does not match.
#[test]
fn events_of_the_audit_of_windows_are_process_creations_and_changes_of_the_registry() {
    let rule = |id: &str, category: &str, detection: &str| {
        format!(
            "title: {id}\nid: {id}\nlogsource: {{category: {category}, product: windows}}\ndetection:\n{detection}\n---\n"
        )
    };
    let rules = [
        rule("tool", "process_creation", "  s: {Image|endswith: '\\tool.exe', CommandLine|contains: ' -x '}\n  condition: s"),
        rule("parent", "process_creation", "  s: {ParentImage|endswith: '\\word.exe'}\n  f: {Image|endswith: '\\splwow64.exe'}\n  condition: s and not f"),
        rule("hash", "process_creation", "  s: {Image|endswith: '\\tool.exe'}\n  f: {Hashes|contains: 'SHA256=1'}\n  condition: s and not f"),
        rule("alone", "process_creation", "  s: {Image|endswith: '\\tool.exe', CommandLine: null}\n  condition: s"),
        rule("logon", "process_creation", "  s: {LogonId: '0x3e7'}\n  condition: s"),
        rule("set", "registry_set", "  s: {TargetObject|endswith: '\\Run', Details|contains: 'tool'}\n  condition: s"),
        rule("set-unless", "registry_set", "  s: {TargetObject|endswith: '\\Run'}\n  f: {TargetObject|contains: '\\known'}\n  condition: s and not f"),
        rule("event", "registry_event", "  s: {Image|endswith: '\\reg.exe'}\n  condition: s"),
        rule("typed", "registry_event", "  s: {EventType: SetValue}\n  condition: s"),
        // The log of the rule, not what stands in for another.
        "title: s\nid: security\nlogsource: {product: windows, service: security}\ndetection:\n  s: {EventID: 4688, NewProcessName|endswith: '\\tool.exe'}\n  condition: s\n".to_owned(),
    ]
    .concat();
    let events = r#"{"Channel":"Security","EventID":4688,"NewProcessName":"C:\\x\\Tool.exe","ParentProcessName":"C:\\Word.exe","CommandLine":"tool -x 1","SubjectLogonId":"0x3E7","ProcessId":"0x4"}
{"Channel":"Security","EventID":4688,"NewProcessName":"C:\\x\\tool.exe","CommandLine":""}
{"Channel":"Security","EventID":4689,"NewProcessName":"C:\\x\\tool.exe","CommandLine":"tool -x 1"}
{"Channel":"Microsoft-Windows-Sysmon/Operational","EventID":1,"Image":"C:\\x\\tool.exe","ParentImage":"C:\\word.exe","CommandLine":"tool -x 1"}
{"Channel":"Security","EventID":4657,"ProcessName":"C:\\reg.exe","ObjectName":"\\REGISTRY\\MACHINE\\SOFTWARE\\Run","ObjectValueName":"known","NewValue":"c:\\tool.exe","OperationType":"%%1905"}
{"Channel":"Security","EventID":4657,"ProcessName":"C:\\reg.exe","ObjectName":"\\REGISTRY\\MACHINE\\SOFTWARE\\Run","NewValue":"c:\\tool.exe","OperationType":"New registry value created"}
"#;
    let found = matches("windows", &rules, events);
    let expect = [
        "tool 0",
        "parent 0",
        "logon 0",
        "security 0",
        "security 1",
        "tool 3",
        "parent 3",
        "hash 3",
        "set 4",
        "event 4",
        "event 5",
    ];
    assert_eq!(found, expect);
}

#[test]
fn each_pack_has_the_log_sources_of_its_events() {
    let rule = |id: &str, log_source: &str, detection: &str| {
        format!(
            "title: {id}\nid: {id}\nlogsource: {{{log_source}}}\ndetection:\n  s: {detection}\n  condition: s\n---\n"
        )
    };
    let web = [
        rule(
            "uri",
            "category: webserver",
            "{cs-method: GET, cs-uri-query|contains: '/admin', cs-uri-query|endswith: 'a=1'}",
        ),
        rule(
            "stem",
            "category: webserver",
            "{cs-uri-stem|endswith: '.php', sc-status: 200}",
        ),
        rule(
            "agent",
            "category: webserver",
            "{cs-user-agent|contains: sqlmap, c-ip|cidr: 192.0.2.0/24}",
        ),
        rule("words", "category: webserver", "['union select']"),
        rule("error", "service: apache", "['exploit']"),
        rule("other", "category: proxy", "{cs-method: GET}"),
    ]
    .concat();
    let lines = r#"192.0.2.1 - ann [24/Nov/2026:09:00:00 +0100] "GET /admin?a=1 HTTP/1.1" 200 512 "-" "sqlmap"
198.51.100.1 - - [24/Nov/2026:09:00:00 +0100] "POST /x.PHP?q=union%20select HTTP/1.1" 200 512 "-" "curl"
198.51.100.1 - - [24/Nov/2026:09:00:00 +0100] "POST /y.php HTTP/1.1" 404 512 "-" "union select"
"#;
    for pack in ["nginx", "apache"] {
        assert_eq!(
            matches(pack, &web, lines),
            ["uri 0", "agent 0", "stem 1", "words 2"],
            "{pack}"
        );
    }
    let error = "[Tue Nov 24 08:00:00.123456 2026] [core:error] [pid 99:tid 140] an exploit GET\n";
    assert_eq!(matches("apache-error", &web, error), ["error 0"]);

    let linux = [
        rule("any", "product: linux", "['segfault at']"),
        rule("sshd", "product: linux, service: sshd", "['incorrect signature']"),
        rule("sudo", "product: linux, service: sudo", "{USER: '#-*'}"),
        rule("auth", "product: linux, service: auth", "['pkexec']"),
        rule("cron", "product: linux, service: cron", "['REPLACE']"),
        rule("creation", "product: linux, category: process_creation", "['pkexec']"),
    ]
    .concat();
    let lines = "Nov 24 07:59:58 web1 sshd[4711]: error: incorrect signature\n\
        Nov 24 07:59:58 web1 other[4711]: error: incorrect signature\n\
        Nov 24 07:59:58 web1 sudo:   ann : TTY=pts/1 ; PWD=/ ; USER=#-1 ; COMMAND=/bin/sh\n\
        Nov 24 07:59:58 web1 pkexec[7]: pkexec segfault at 0\n\
        Nov 24 07:59:58 web1 crontab[8]: (ann) REPLACE (ann)\n\
        Nov 24 07:59:58 web1 CRON[8]: (ann) REPLACE (ann)\n";
    assert_eq!(
        matches("linux-auth", &linux, lines),
        ["sshd 0", "sudo 2", "any 3", "auth 3", "cron 4", "cron 5"]
    );

    let network = [
        rule(
            "query",
            "category: dns",
            "{query|endswith: '.bad.example', record_type: TXT}",
        ),
        rule("answer", "category: dns", "{answer|contains: tunnel}"),
        rule(
            "zeek-http",
            "product: zeek, service: http",
            "{c-useragent|contains: sqlmap, method: GET}",
        ),
        rule(
            "zeek-files",
            "product: zeek, service: smb_files",
            "{path|endswith: 'ADMIN$'}",
        ),
        rule("web", "category: webserver", "{method: GET}"),
    ]
    .concat();
    let lines = r#"{"_path":"dns","ts":1795507200.5,"query":"x.BAD.example","qtype_name":"TXT","answers":["192.0.2.1","TXT tunnel"]}
{"_path":"http","ts":1795507200.5,"query":"x.bad.example","qtype_name":"TXT","method":"GET","user_agent":"sqlmap"}
{"_path":"smb_files","ts":1795507200.5,"path":"\\\\web\\ADMIN$"}
"#;
    assert_eq!(
        matches("zeek", &network, lines),
        ["query 0", "answer 0", "zeek-http 1", "zeek-files 2"]
    );
    let lines = r#"{"timestamp":"2026-11-24T09:00:00.123456+0100","event_type":"dns","dns":{"type":"query","rrname":"x.bad.example","rrtype":"TXT"}}
{"timestamp":"2026-11-24T09:00:00.123456+0100","event_type":"dns","dns":{"type":"answer","rrname":"a.example","rrtype":"TXT","answers":[{"rdata":"a tunnel"}]}}
{"timestamp":"2026-11-24T09:00:00.123456+0100","event_type":"flow","dns":{"rrname":"x.bad.example","rrtype":"TXT"}}
"#;
    assert_eq!(matches("suricata", &network, lines), ["query 0", "answer 1"]);
}

#[test]
fn a_filter_may_be_in_another_file_than_its_rules() {
    let folder = folder();
    let rules = path(&folder, "rules");
    let filter = "title: Not here\nid: not-here\nlogsource: {category: process_creation, product: windows}\nfilter:\n  rules: [by-word]\n  \
        office: {ParentImage|startswith: 'C:\\Office'}\n  condition: not office\n";
    std::fs::write(folder.path().join("rules/a-filter.yml"), filter).expect("a written file");
    let events = path(&folder, "events.ndjson");
    let run = || {
        let output = firn(&[
            "detect", "run", "--rules", &rules, "--pack", "windows", "--events", &events,
        ]);
        (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
    };
    let (found, error) = run();
    assert!(!found.contains("by-word") && found.contains("encoded"), "{found}");
    assert!(!error.contains("not-here"), "{error}");
    let other = filter.replace("[by-word]", "[no-rule]");
    std::fs::write(folder.path().join("rules/a-filter.yml"), other).expect("a written file");
    let (found, error) = run();
    assert!(found.contains("by-word"), "{found}");
    assert!(
        error.contains("[not-here] Not here: the filter is for none of the rules"),
        "{error}"
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
