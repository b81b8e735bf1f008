//! A real PostgreSQL server of a test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const START_WITHIN: Duration = Duration::from_secs(60);
/// The user of Debian's package: PostgreSQL refuses to run as root.
const USER: &str = "postgres";
const PASSWORD: &str = "for-tests-only";

/// A server on a free port of the loopback address, which is stopped when this value is dropped.
pub struct Postgresql {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    tls: bool,
    child: Option<Child>,
}

impl Postgresql {
    /// Makes a database in `folder` and starts its server. With the certificate and key (PEM) given it speaks TLS.
    pub fn start(folder: &Path, certificate: Option<(&str, &str)>) -> Result<Self> {
        let bin = bin_folder()?;
        fs::create_dir_all(folder)?;
        fs::write(folder.join("password"), PASSWORD)?;
        if let Some((certificate, key)) = certificate {
            fs::write(folder.join("server.crt"), certificate)?;
            fs::write(folder.join("server.key"), key)?;
            fs::set_permissions(folder.join("server.key"), fs::Permissions::from_mode(0o600))?;
        }
        if is_root() {
            run(Command::new("chown").args(["-R", USER]).arg(folder))?;
        }
        let mut initdb = as_user(&bin.join("initdb"), folder);
        initdb.args(["-U", USER, "--auth=scram-sha-256", "--no-sync", "-E", "UTF8"]);
        initdb.arg("--pwfile").arg(folder.join("password"));
        run(initdb.arg("-D").arg(folder.join("data")))?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut server = Self {
            bin,
            folder: folder.to_owned(),
            port,
            tls: certificate.is_some(),
            child: None,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Starts the server on its port again.
    pub fn start_again(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("server.log"))?;
        let mut command = as_user(&self.bin.join("postgres"), &self.folder);
        command.arg("-D").arg(self.folder.join("data"));
        let port = self.port.to_string();
        let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"];
        command.args(["-p", &port]);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        if self.tls {
            let path = |name: &str| self.folder.join(name).display().to_string();
            for setting in [
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", path("server.crt")),
                format!("ssl_key_file={}", path("server.key")),
            ] {
                command.args(["-c", &setting]);
            }
        }
        self.child = Some(command.stdout(log.try_clone()?).stderr(log).spawn()?);
        let started = Instant::now();
        while self.sql("SELECT 1").is_err() {
            if started.elapsed() > START_WITHIN {
                let log = fs::read_to_string(self.folder.join("server.log"))?;
                bail!("PostgreSQL did not start: {log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Stops the server at once (`SIGQUIT`), as a crash would.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = run(Command::new("kill").args(["-QUIT", &child.id().to_string()]));
            let _ = child.wait();
        }
    }

    /// Runs SQL, and returns what it prints.
    pub fn sql(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        let sslmode = if self.tls { "require" } else { "disable" };
        psql.arg(self.connection_string(sslmode));
        run(&mut psql)
    }

    /// Returns a connection string with the password.
    pub fn connection_string(&self, sslmode: &str) -> String {
        let port = self.port;
        format!("host=127.0.0.1 port={port} user={USER} password={PASSWORD} dbname=postgres sslmode={sslmode}")
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bin_folder() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed; run `make setup-test`")?;
    let mut folders: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    folders.sort();
    folders.pop().context("PostgreSQL has no initdb; run `make setup-test`")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_user(program: &Path, folder: &Path) -> Command {
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
            command.arg(program);
            command
        }
        false => Command::new(program),
    };
    // The folder of the caller may be closed to the user.
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
