//! Access control at the start: the record of users, keys and tenants, and the first operator.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_auth::{Control, Parts, Password, SignInThrottleLimits};
use firn_storage::RealDisk;

use crate::clock::now_ms;
use crate::settings::ServeSettings;

/// The variable with the operator's password.
pub(crate) const VARIABLE: &str = "FIRN_OPERATOR_PASSWORD";
/// Interval between writes of the last use of API keys.
const LAST_USES_EVERY: Duration = Duration::from_secs(60);

/// Whether requests must authenticate. Once users exist they must, so that a forgotten setting does not open a
/// protected server.
pub(crate) fn is_on(settings: &ServeSettings) -> anyhow::Result<bool> {
    if let Some(is_on) = settings.security_enabled {
        return Ok(is_on);
    }
    if settings.http_address.is_exposed && !settings.insecure_open_to_network {
        return Ok(true);
    }
    Ok(Control::has_users_in(Arc::new(RealDisk), &folder(settings))?)
}

/// Starts without users if the record of users is lost.
pub(crate) fn accept_lost_record(settings: &ServeSettings) -> anyhow::Result<()> {
    Ok(Control::accept_lost_record(Arc::new(RealDisk), &folder(settings))?)
}

/// Opens the record in the data folder; only its owner can read that folder. If requests must authenticate, an operator
/// exists afterwards.
pub(crate) fn open(settings: &ServeSettings, is_on: bool) -> anyhow::Result<Arc<Control>> {
    let folder = folder(settings);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let started = Instant::now();
    let control = Control::open(Parts {
        disk: Arc::new(RealDisk),
        folder,
        now_ms: Arc::new(now_ms),
        stopwatch: Arc::new(move || started.elapsed()),
        random: Arc::new(fill_random),
        slowdown: SignInThrottleLimits::default(),
        sessions: settings.sessions,
    })?;
    if is_on {
        ensure_operator(&control, settings)?;
    }
    Ok(Arc::new(control))
}

/// Sets the operator's password from the settings. At the first start without one, generates and prints it.
fn ensure_operator(control: &Control, settings: &ServeSettings) -> anyhow::Result<()> {
    let given = given_password(std::env::var(VARIABLE).ok(), settings.operator_password_file.as_deref())?;
    if let Some(password) = given {
        if !control.is_operator_password(&password) {
            let was_disabled = control.is_operator_disabled();
            let name = control.set_operator_password(&password)?;
            tracing::info!("set the password of the operator [{name}] from the settings of this start");
            if was_disabled {
                tracing::warn!(
                    "enabled the disabled operator [{name}], because the settings of this start contain its password"
                );
            }
        }
        return Ok(());
    }
    if control.has_users() {
        return Ok(());
    }
    if let Some(password) = settings.secrets.get("bootstrap.password") {
        control.set_operator_password(&Password(password.to_owned()))?;
        return Ok(());
    }
    let password = control.make_password();
    let name = control.set_operator_password(&password)?;
    // To the terminal and not to the log, which is stored and sent to other systems.
    println!(
        "\nThe operator of this server is [{name}], with the password\n\n    {}\n\nIt is not shown again. Change it: PUT \
         /_security/user/{name}/_password, or FIRN_OPERATOR_PASSWORD at the next start.\n",
        password.0
    );
    Ok(())
}

/// Returns the password from the environment, or from the first line of a file.
fn given_password(variable: Option<String>, file: Option<&Path>) -> anyhow::Result<Option<Password>> {
    let (text, place) = match (variable, file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => bail!("{VARIABLE} and operator.password_file are both set: remove one of them"),
        (Some(text), None) => (text, VARIABLE.to_owned()),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read operator.password_file {}", file.display()))?;
            let line = text.lines().next().unwrap_or_default().to_owned();
            (line, format!("the first line of {}", file.display()))
        }
    };
    if text.is_empty() {
        bail!("{place} is empty: it must contain the password of the operator");
    }
    Ok(Some(Password(text)))
}

/// Stores regularly when API keys were last used. Runs until it is dropped.
pub(crate) async fn write_last_uses(control: Arc<Control>) {
    let mut tick = tokio::time::interval(LAST_USES_EVERY);
    loop {
        tick.tick().await;
        let control = Arc::clone(&control);
        match tokio::task::spawn_blocking(move || control.write_last_uses()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("cannot write when API keys were used last: {error}"),
            Err(error) => tracing::warn!("cannot write when API keys were used last: {error}"),
        }
    }
}

fn folder(settings: &ServeSettings) -> PathBuf {
    settings.path_data.join("control")
}

/// Fills bytes with random data of the operating system. It fails only without such a source, and then no secret may be
/// generated.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_s_password_comes_from_one_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        std::fs::write(&file, "from a file\nnot this\n").expect("a file");
        let check = |variable: Option<&str>, file: Option<&Path>| {
            given_password(variable.map(str::to_owned), file)
                .map(|password| password.map(|password| password.0))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(None, None), Ok(None));
        assert_eq!(check(Some("typed"), None), Ok(Some("typed".to_owned())));
        assert_eq!(check(None, Some(&file)), Ok(Some("from a file".to_owned())));
        assert!(check(Some("typed"), Some(&file)).is_err());
        assert!(check(Some(""), None).is_err());
        assert!(check(None, Some(Path::new("/nowhere"))).is_err());
    }
}
