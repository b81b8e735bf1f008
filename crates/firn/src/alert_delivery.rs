//! Delivery of alerts: the notifier of the server, which follows the channels in the catalog.

use std::sync::Arc;

use firn_engine::Engine;
use firn_notify::{Notifier, NotifierConfig};
use firn_pipeline::runner::Runner;

use crate::clock::now_ms;
use crate::settings::ServeSettings;

/// Creates the notifier; its channels run once they are applied.
pub(crate) fn notifier(settings: &ServeSettings, engine: &Arc<dyn Engine>, runner: &Runner) -> Arc<Notifier> {
    let secrets = settings.secrets.clone();
    let config = NotifierConfig {
        engine: Arc::clone(engine),
        clock: Arc::new(now_ms),
        secrets: Arc::new(move |name| secrets.of_channels(name).map(str::to_owned)),
        allowed_networks: settings.webhook_networks.clone(),
    };
    Notifier::new(config, runner.alerts_stored())
}
