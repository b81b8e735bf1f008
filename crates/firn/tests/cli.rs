//! The command line: settings from every source, and refusals that explain themselves.

mod support;

use support::{firn, stderr};

#[test]
fn a_mistyped_setting_is_named_with_a_suggestion() {
    let output = firn(&["serve", "-E", "http.prot=9200"]);
    assert_eq!(output.status.code(), Some(78));
    let error = stderr(&output);
    assert!(
        error.contains("unknown setting [http.prot] given with -E, did you mean [http.port]?"),
        "{error}"
    );
}

#[test]
fn an_open_address_is_refused() {
    let check = |output: std::process::Output| {
        assert_eq!(output.status.code(), Some(78));
        let error = stderr(&output);
        assert!(
            error.contains("refusing to listen on 0.0.0.0:9200 without TLS: set xpack.security.http.ssl.enabled: true"),
            "{error}"
        );
    };
    check(firn(&["serve", "-E", "http.host=0.0.0.0"]));
    check(
        support::command(&["serve"])
            .env("FIRN_HTTP_HOST", "0.0.0.0")
            .output()
            .expect("firn runs"),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("firn.yml");
    std::fs::write(&file, "http:\n  host: 0.0.0.0\n").expect("a written file");
    check(firn(&["serve", "-c", file.to_str().expect("UTF-8")]));
}

#[test]
fn help_and_reference_list_the_settings() {
    let help = firn(&["serve", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        text.contains("http.max_content_length") && text.contains("[default: 100mb]"),
        "{text}"
    );
    let page = firn(&["settings", "--markdown"]);
    let text = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(text.contains("| `http.port`<br>`FIRN_HTTP_PORT` | `9200` |"), "{text}");
}
