//! `firn keystore`, and the use of a keystore by the server.

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use support::stderr;

struct Store {
    folder: tempfile::TempDir,
    password: Option<&'static str>,
}

impl Store {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            password: None,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("firn.keystore")
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let data = self.folder.path().to_str().unwrap();
        let mut command = support::command(&["keystore", "--data", data]);
        command.args(arguments);
        if let Some(password) = self.password {
            command.env("FIRN_KEYSTORE_PASSWORD", password);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The process may have ended without reading.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], input: &str, status: i32, words: &str) {
        let output = self.run(arguments, input);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn secrets_are_added_listed_and_removed() {
    let store = Store::new();
    store.refused(&["list"], "", 78, "run `firn keystore create`");
    store.refused(&["add", "-x", "bootstrap.password"], "a\n", 78, "firn keystore create");
    store.ok(&["create"], "");
    assert_eq!(
        std::fs::metadata(store.file()).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(store.ok(&["list"], ""), "");
    store.ok(
        &["add", "--stdin", "s3.client.default.secret_key", "bootstrap.password"],
        "first\nsecond\n",
    );
    assert_eq!(
        store.ok(&["list"], ""),
        "bootstrap.password\ns3.client.default.secret_key\n"
    );
    assert!(!String::from_utf8_lossy(&std::fs::read(store.file()).unwrap()).contains("second"));

    store.refused(
        &["add", "-x", "bootstrap.password"],
        "third\n",
        1,
        "--force replaces it",
    );
    store.ok(&["add", "-x", "-f", "bootstrap.password"], "third\n");
    store.refused(&["add", "-x", "-f", "bootstrap.password"], "", 1, "is empty");
    store.refused(&["add", "-x", "http.port"], "1\n", 78, "is not a secret");
    store.refused(
        &["add", "-x", "bootstrap.pasword"],
        "1\n",
        78,
        "did you mean [bootstrap.password]?",
    );
    store.refused(&["add", "bootstrap.password"], "", 1, "has a value");
    store.refused(&["create"], "", 1, "--force replaces it");

    store.ok(&["remove", "bootstrap.password"], "");
    store.refused(&["remove", "bootstrap.password"], "", 1, "has no [bootstrap.password]");
    assert_eq!(store.ok(&["list"], ""), "s3.client.default.secret_key\n");
    store.refused(&["has-passwd"], "", 1, "");
    store.ok(&["create", "--force"], "");
    assert_eq!(store.ok(&["list"], ""), "");
    // A missing keystore is created if there is no prompt.
    std::fs::remove_file(store.file()).unwrap();
    store.ok(&["add", "-x", "-f", "bootstrap.password"], "x\n");
}

#[test]
fn a_password_is_needed_where_there_is_one() {
    let mut store = Store::new();
    store.refused(&["create", "--password"], "", 1, "no terminal for a prompt");
    store.password = Some("correct horse");
    store.ok(&["create", "--password"], "");
    store.ok(&["add", "-x", "bootstrap.password"], "secret\n");
    assert_eq!(store.ok(&["has-passwd"], ""), "the keystore has a password\n");
    assert_eq!(store.ok(&["list"], ""), "bootstrap.password\n");

    store.password = Some("correct house");
    store.refused(&["list"], "", 78, "the password is wrong");
    store.refused(
        &["add", "-x", "-f", "bootstrap.password"],
        "x\n",
        78,
        "the password is wrong",
    );
    store.password = None;
    store.refused(&["list"], "", 1, "no terminal for a prompt");
    let file = store.folder.path().join("password");
    std::fs::write(&file, "correct horse\n").unwrap();
    store.ok(&["--password-file", file.to_str().unwrap(), "list"], "");

    // The server needs the password too, and says so before it opens anything.
    let data = store.folder.path().to_str().unwrap();
    let serve = |password: Option<&str>| {
        let mut command = support::command(&["serve", "--data", data, "--port", "0"]);
        command.env("FIRN_KEYSTORE_PASSWORD", password.unwrap_or_default());
        command.output().unwrap()
    };
    for (password, words) in [(None, "it needs a password"), (Some("wrong"), "the password is wrong")] {
        let output = serve(password);
        assert_eq!(output.status.code(), Some(78));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert!(!store.folder.path().join("catalog.redb").exists());
}

#[test]
fn a_file_that_others_may_read_or_that_is_damaged_stops_the_start() {
    let store = Store::new();
    store.ok(&["create"], "");
    let data = store.folder.path().to_str().unwrap();
    let check = |words: &str| {
        let output = support::firn(&["serve", "--data", data, "--port", "0"]);
        assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        store.refused(&["list"], "", 78, words);
    };
    let mode = |mode| std::fs::set_permissions(store.file(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    check("(mode 644)");
    mode(0o600);
    let mut bytes = std::fs::read(store.file()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(store.file(), &bytes).unwrap();
    check("it is damaged");
    std::fs::write(store.file(), "not a keystore at all").unwrap();
    check("it is not a keystore");
}

#[test]
fn secrets_are_refused_everywhere_else() {
    let output = support::firn(&["serve", "-E", "bootstrap.password=secret"]);
    assert_eq!(output.status.code(), Some(78));
    let error = stderr(&output);
    assert!(error.contains("firn keystore add bootstrap.password"), "{error}");
    assert!(!error.contains("secret="), "{error}");
    let output = support::command(&["serve"])
        .env("FIRN_BOOTSTRAP_PASSWORD", "hunter2")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
}
