//! Azure Blob Storage.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firn_model::Result;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::http::{Connector, client_options, no_retries};
use super::remote::{Dialect, Remote, fault};
use super::settings::Fields;
use super::{ObjectError, Requests};

/// Maximum silence of a store before a request counts as lost.
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(50);
/// Elasticsearch's default container.
const CONTAINER_DEFAULT: &str = "elasticsearch-snapshots";

/// Location of a container and its credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AzureOptions {
    account: String,
    container: String,
    base_path: String,
    /// Endpoint of a store other than Azure's: `https://host:port/account`.
    endpoint: Option<String>,
    /// Without key and token the environment decides, then the machine's role.
    key: Option<String>,
    sas_token: Option<String>,
    /// Environment variables with prefix `AZURE_`.
    environment: Vec<(String, String)>,
    read_timeout: Duration,
}

impl AzureOptions {
    /// Parses a repository's settings, with Elasticsearch's names.
    pub(super) fn parse(fields: &mut Fields, environment: &[(String, String)]) -> Result<Self> {
        fields.require_client()?;
        fields.only("location_mode", "primary_only")?;
        let account = fields.of_client("account");
        let account = account.ok_or_else(|| fields.refused("No account is set for the azure client"))?;
        let (key, sas_token) = (fields.of_client("key"), fields.of_client("sas_token"));
        if key.is_some() && sas_token.is_some() {
            return Err(fields.refused("Both a secret as well as a shared access token were set."));
        }
        Ok(Self {
            account,
            container: fields
                .filled("container")?
                .unwrap_or_else(|| CONTAINER_DEFAULT.to_owned()),
            base_path: fields.filled("base_path")?.unwrap_or_default(),
            endpoint: fields.either("endpoint")?,
            key,
            sas_token,
            environment: environment.to_vec(),
            read_timeout: fields.duration("timeout", READ_TIMEOUT_DEFAULT)?,
        })
    }

    /// Creates a store without sending a request.
    pub(super) fn open(&self) -> Result<Arc<dyn Requests>, ObjectError> {
        let is_plain = self.endpoint.as_deref().is_some_and(|at| at.starts_with("http://"));
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(&self.account)
            .with_container_name(&self.container)
            .with_client_options(client_options(self.read_timeout, is_plain))
            .with_retry(no_retries())
            .with_http_connector(Connector);
        if let Some(key) = &self.key {
            builder = builder.with_access_key(key);
        } else if let Some(token) = &self.sas_token {
            builder = builder.with_config(AzureConfigKey::SasKey, token.trim_start_matches('?'));
        } else {
            for (name, value) in &self.environment {
                if let Some(key) = who(name) {
                    builder = builder.with_config(key, value);
                }
            }
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
        }
        let store = builder.build().map_err(|error| fault("", &error))?;
        let dialect = Dialect {
            by_version: false,
            reads_ends: false,
        };
        Ok(Arc::new(Remote::new(store, &self.base_path, dialect)))
    }
}

/// Returns the client option of a credential variable, used if the repository has no credentials.
fn who(name: &str) -> Option<AzureConfigKey> {
    let is_taken = matches!(
        name,
        "AZURE_CLIENT_ID"
            | "AZURE_CLIENT_SECRET"
            | "AZURE_TENANT_ID"
            | "AZURE_FEDERATED_TOKEN_FILE"
            | "AZURE_AUTHORITY_HOST"
            | "AZURE_MSI_ENDPOINT"
            | "AZURE_STORAGE_ACCOUNT_KEY"
            | "AZURE_STORAGE_SAS_KEY"
    );
    name.to_ascii_lowercase().parse().ok().filter(|_| is_taken)
}

/// Omits the secrets.
impl fmt::Debug for AzureOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AzureOptions")
            .field("account", &self.account)
            .field("container", &self.container)
            .field("base_path", &self.base_path)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
