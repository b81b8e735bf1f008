//! Input of the keystore's password and of the values of secrets.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use zeroize::Zeroizing;

/// The variable with the password.
pub(crate) const VARIABLE: &str = "FIRN_KEYSTORE_PASSWORD";
/// The variable that names a file with it, as container platforms mount secrets.
pub(crate) const FILE_VARIABLE: &str = "FIRN_KEYSTORE_PASSWORD_FILE";

/// Returns the password without a prompt: from the file of the option, from the variable, or from the file of the
/// variable.
pub(crate) fn given(file: Option<&Path>) -> anyhow::Result<Option<Zeroizing<String>>> {
    if let Some(file) = file {
        return read(file).map(Some);
    }
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(Some(Zeroizing::new(password)));
    }
    match std::env::var_os(FILE_VARIABLE) {
        Some(file) => read(&PathBuf::from(file)).map(Some),
        None => Ok(None),
    }
}

fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the keystore's password from {}", path.display()))?;
    let text = Zeroizing::new(text);
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// A prompt whose input is not shown.
pub(crate) enum Ask<'a> {
    Once(&'a str),
    /// Typed without display and needed later.
    Twice(&'a str),
}

impl Ask<'_> {
    pub(crate) fn ask(self) -> anyhow::Result<Zeroizing<String>> {
        if !std::io::stdin().is_terminal() {
            bail!(
                "no terminal for a prompt (values: --stdin; the keystore's password: --password-file, {VARIABLE} or \
                 {FILE_VARIABLE})"
            );
        }
        let prompt = |text: String| {
            rpassword::prompt_password(text)
                .map(Zeroizing::new)
                .context("cannot read from the terminal")
        };
        match self {
            Self::Once(question) => prompt(format!("{question}: ")),
            Self::Twice(question) => {
                let first = prompt(format!("{question}: "))?;
                if prompt("Again: ".to_owned())? != first {
                    bail!("the two inputs differ");
                }
                Ok(first)
            }
        }
    }
}
