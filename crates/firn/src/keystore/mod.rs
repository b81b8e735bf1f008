//! `firn keystore`: secrets that are in no settings file and no process list.
//!
//! The commands are those of `elasticsearch-keystore`. The server reads the settings of kind secret from the keystore.

mod file;
mod format;
mod password;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use zeroize::Zeroizing;

use crate::settings::SettingsError;
use crate::settings::definitions::{self, Kind};
use crate::settings_args::SettingsArgs;
use file::KeystoreFile;
use format::Entries;
use password::Ask;

/// Start of the names of the secrets of alert channels.
const OF_CHANNELS: &str = "notify.secret.";
/// A secret is a password or a key, not a document.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Arguments of `firn keystore`.
#[derive(Debug, clap::Args)]
pub(crate) struct KeystoreArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Read the keystore's password from this file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an empty keystore
    Create {
        /// Protect it with a password: that of --password-file or FIRN_KEYSTORE_PASSWORD, else a prompted one
        #[arg(short, long)]
        password: bool,
        /// Replace an existing keystore without a prompt
        #[arg(short, long)]
        force: bool,
    },
    /// Add or replace secrets
    Add {
        /// Names of settings
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Read the values from standard input, one per line, instead of a prompt
        #[arg(short = 'x', long)]
        stdin: bool,
        /// Replace existing values, and create a missing keystore, without a prompt
        #[arg(short, long)]
        force: bool,
    },
    /// Print the names of the secrets
    List,
    /// Remove secrets
    Remove {
        /// Names of settings
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Change the password with a prompt; an empty one removes it
    Passwd,
    /// Succeed if the keystore has a password
    HasPasswd,
}

/// The secrets that the server starts with.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Entries);

impl Secrets {
    /// Returns the value of a secret setting.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.as_str())
    }

    /// Returns the secret of alert channels that has this name.
    pub(crate) fn of_channels(&self, name: &str) -> Option<&str> {
        self.get(&format!("{OF_CHANNELS}{name}"))
    }

    /// Returns the secrets of object store clients, by name.
    pub(crate) fn of_clients(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_of_client = |name: &str| {
            !name.starts_with(OF_CHANNELS) && definitions::find(name).is_some_and(definitions::Definition::is_family)
        };
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(move |(name, _)| is_of_client(name))
    }
}

/// Prints only names: the settings are printed for people.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Reads the secrets; without a keystore there are none.
pub(crate) fn load(config: Option<&Path>, data: &Path) -> Result<Secrets, SettingsError> {
    let file = KeystoreFile::find(config, data)?;
    let Some(bytes) = file.read()? else {
        return Ok(Secrets::default());
    };
    let given = password::given(None).map_err(|error| SettingsError(format!("{error:#}")))?;
    let entries = file.open(&bytes, given.as_deref().map_or("", String::as_str))?;
    for name in entries.keys() {
        check_name(name)
            .map_err(|error| SettingsError(format!("in the keystore {}: {}", file.path().display(), error.0)))?;
    }
    Ok(Secrets(entries))
}

/// Runs the command.
pub(crate) fn run(args: &KeystoreArgs) -> anyhow::Result<ExitCode> {
    let (config, data) = args.settings.places()?;
    let keystore = Keystore {
        file: KeystoreFile::find(config, &data)?,
        password_file: args.password_file.as_deref(),
    };
    match &args.command {
        Command::Create { password, force } => keystore.create(*password, *force)?,
        Command::Add { names, stdin, force } => keystore.add(names, *stdin, *force)?,
        Command::List => keystore.list()?,
        Command::Remove { names } => keystore.remove(names)?,
        Command::Passwd => keystore.passwd()?,
        Command::HasPasswd => return keystore.has_passwd(),
    }
    Ok(ExitCode::SUCCESS)
}

struct Keystore<'a> {
    file: KeystoreFile,
    password_file: Option<&'a Path>,
}

/// An open keystore for changes.
struct Opened {
    entries: Entries,
    password: Zeroizing<String>,
}

impl Keystore<'_> {
    fn create(&self, is_protected: bool, force: bool) -> anyhow::Result<()> {
        let path = self.file.path();
        if path.exists() && !force && !confirm(&format!("A keystore exists ({}). Replace it?", path.display()))? {
            bail!("the keystore {} exists (--force replaces it)", path.display());
        }
        let password = if is_protected {
            match password::given(self.password_file)? {
                Some(password) => password,
                None => Ask::Twice("Password of the keystore").ask()?,
            }
        } else {
            Zeroizing::default()
        };
        if is_protected && password.is_empty() {
            bail!("the password is empty");
        }
        self.file.write(&Entries::new(), &password)?;
        println!("created {}", path.display());
        Ok(())
    }

    fn open(&self) -> anyhow::Result<Option<Opened>> {
        let Some(bytes) = self.file.read()? else {
            return Ok(None);
        };
        let is_protected = format::Header::read(&bytes).is_ok_and(|header| header.is_protected());
        let password = match password::given(self.password_file)? {
            Some(password) => password,
            None if is_protected => Ask::Once("Password of the keystore").ask()?,
            None => Zeroizing::default(),
        };
        let entries = self.file.open(&bytes, &password)?;
        Ok(Some(Opened {
            entries,
            // A password that was provided for a keystore without one does not become its password.
            password: if is_protected { password } else { Zeroizing::default() },
        }))
    }

    fn require(&self) -> anyhow::Result<Opened> {
        self.open()?.ok_or_else(|| {
            SettingsError(format!(
                "there is no keystore at {}: run `firn keystore create`",
                self.file.path().display()
            ))
            .into()
        })
    }

    fn add(&self, names: &[String], stdin: bool, force: bool) -> anyhow::Result<()> {
        for name in names {
            check_name(name)?;
        }
        let mut opened = match self.open()? {
            Some(opened) => opened,
            None if force || confirm("There is no keystore. Create one?")? => Opened {
                entries: Entries::new(),
                password: Zeroizing::default(),
            },
            None => return self.require().map(drop),
        };
        let mut lines = std::io::stdin().lock();
        for name in names {
            let exists = opened.entries.contains_key(name);
            if exists && !force && (stdin || !confirm(&format!("[{name}] has a value. Replace it?"))?) {
                bail!("[{name}] has a value (--force replaces it)");
            }
            let value = if stdin {
                let mut line = Zeroizing::new(String::new());
                lines.read_line(&mut line).context("cannot read standard input")?;
                Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned())
            } else {
                Ask::Once(&format!("Value of [{name}]")).ask()?
            };
            check_value(name, &value)?;
            opened.entries.insert(name.clone(), value);
        }
        self.file.write(&opened.entries, &opened.password)
    }

    fn list(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for name in self.require()?.entries.keys() {
            text.push_str(name);
            text.push('\n');
        }
        // `firn keystore list | head` closes the pipe early, which is no error.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(())
    }

    fn remove(&self, names: &[String]) -> anyhow::Result<()> {
        let mut opened = self.require()?;
        for name in names {
            if opened.entries.remove(name).is_none() {
                bail!("the keystore has no [{name}]");
            }
        }
        self.file.write(&opened.entries, &opened.password)
    }

    fn passwd(&self) -> anyhow::Result<()> {
        let opened = self.require()?;
        let password = Ask::Twice("New password of the keystore (empty for none)").ask()?;
        self.file.write(&opened.entries, &password)
    }

    fn has_passwd(&self) -> anyhow::Result<ExitCode> {
        let Some(bytes) = self.file.read()? else {
            return self.require().map(|_| ExitCode::FAILURE);
        };
        let is_protected = format::Header::read(&bytes).is_ok_and(|header| header.is_protected());
        println!(
            "the keystore {} a password",
            if is_protected { "has" } else { "does not have" }
        );
        Ok(if is_protected {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Accepts only secrets that a setting uses: a misspelt name would otherwise be noticed only when the secret is
/// missing.
fn check_name(name: &str) -> Result<(), SettingsError> {
    match definitions::find(name) {
        Some(definition) if matches!(definition.kind, Kind::Secret) => Ok(()),
        Some(_) => Err(SettingsError(format!(
            "[{name}] is not a secret: set it in the settings file"
        ))),
        None => {
            let secrets = definitions::DEFINITIONS
                .iter()
                .filter(|definition| matches!(definition.kind, Kind::Secret))
                .map(|definition| definition.name);
            let hint = match definitions::nearest(name, secrets.clone()) {
                Some(near) => format!("did you mean [{near}]?"),
                None => format!("known are {}", secrets.collect::<Vec<_>>().join(", ")),
            };
            Err(SettingsError(format!("unknown secret setting [{name}]: {hint}")))
        }
    }
}

fn check_value(name: &str, value: &str) -> anyhow::Result<()> {
    if value.is_empty() {
        bail!("the value of [{name}] is empty");
    }
    if value.len() > VALUE_BYTES_MAX {
        bail!(
            "the value of [{name}] has {} bytes, more than the {VALUE_BYTES_MAX} allowed",
            value.len()
        );
    }
    Ok(())
}

/// Prompts for yes or no; without a terminal the answer is no.
fn confirm(question: &str) -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(false);
    }
    eprint!("{question} [y/N] ");
    let mut line = String::new();
    stdin.read_line(&mut line).context("cannot read the answer")?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::definitions::DefaultValue;

    #[test]
    fn names_are_those_of_secret_settings() {
        check_name("bootstrap.password").expect("a secret");
        check_name("s3.client.eu.secret_key").expect("a secret of a client");
        let check = |name: &str, words: &str| {
            let error = check_name(name).expect_err("an error").0;
            assert!(error.contains(words), "{error}");
        };
        check("http.port", "is not a secret");
        check("s3.client.eu.endpoint", "is not a secret");
        check("bootstrap.pasword", "did you mean [bootstrap.password]?");
        check("qqq", "bootstrap.password, ");
    }

    /// A default would be in the source code.
    #[test]
    fn secrets_have_no_default() {
        for definition in definitions::DEFINITIONS {
            if matches!(definition.kind, Kind::Secret) {
                assert!(
                    matches!(definition.default, DefaultValue::Derived(_)),
                    "{}",
                    definition.name
                );
            }
        }
    }
}
