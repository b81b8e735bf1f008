//! `firn pipeline`: the commands of docs/operate/pipelines.md.

mod support;

use std::path::Path;
use std::process::Output;

use support::{firn, stderr};

/// Returns the line that the manual maps.
fn line_of_the_manual() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/pipelines.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let line = page
        .lines()
        .filter(|line| line.ends_with("> /tmp/fw.cef"))
        .find_map(|line| line.strip_prefix("echo '")?.split('\'').next());
    line.expect("a line of CEF").to_owned()
}

fn events(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn lines_are_mapped_and_failures_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fw.cef");
    let path = file.to_str().expect("UTF-8");
    std::fs::write(&file, line_of_the_manual()).expect("a written file");
    let output = firn(&["pipeline", "map", "--pack", "cef", "--no-original", path]);
    assert!(output.status.success(), "{}", stderr(&output));
    let event = &events(&output)[0];
    assert_eq!(event["source"]["ip"], "81.2.69.142");
    assert_eq!(event["destination"]["port"], 443);
    assert_eq!(event["cef"]["extensions"]["Policy"], "Guests");
    assert_eq!(event["event"].get("original"), None);

    std::fs::write(&file, format!("no event\n{}\n", line_of_the_manual())).expect("a written file");
    let output = firn(&["pipeline", "map", "--pack", "cef", path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(events(&output).len(), 1);
    let error = stderr(&output);
    assert!(
        error.contains("line 1: cannot parse cef") && error.contains("1 lines were mapped, 1 were not"),
        "{error}"
    );
}

#[test]
fn tables_are_named_on_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a written file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let pack = write(
        "owners.yml",
        "name: p\nversion: 1\nprefix: p\nparser: json\nfields: {src: source.ip}\nlookups:\n  \
         - {table: owners, key: source.ip, columns: {owner: organization.name}}\n",
    );
    let table = write("owners.csv", "ip,owner\n192.0.2.1,Example\n");
    let events_file = write("events.ndjson", "{\"src\":\"192.0.2.1\"}\n");
    let table = format!("owners={table}");
    let output = firn(&["pipeline", "map", "--pack", &pack, "--table", &table, &events_file]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(events(&output)[0]["organization"]["name"], "Example");
}

#[test]
fn examples_pass_and_packs_are_listed() {
    let output = firn(&["pipeline", "test"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("cef 1: 3 of 3 examples pass"),
        "{text}"
    );
    let output = firn(&["pipeline", "packs"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("windows") && text.contains("suricata"), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let pack = "name: p\nversion: 1\nprefix: p\nparser: json\nexamples: [{name: e, input: '{\"a\":1}', expect: {p: {a: 2}}}]\n";
    std::fs::write(folder.path().join("p.yml"), pack).expect("a written file");
    let output = firn(&["pipeline", "test", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("- p.a: 2") && text.contains("+ p.a: 1"), "{text}");

    let output = firn(&["pipeline", "map", "--pack", "morse", "-"]);
    assert!(
        stderr(&output).contains("the built-in packs are"),
        "{}",
        stderr(&output)
    );
}
