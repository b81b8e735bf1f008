//! Google Cloud Storage.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firn_model::Result;
use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};

use super::http::{Connector, client_options, no_retries};
use super::remote::{Dialect, Remote, fault};
use super::settings::Fields;
use super::{ObjectError, Requests};

/// Elasticsearch's `gcs.client.*.read_timeout`; its default, no timeout, would wait forever for a lost answer.
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(50);

/// Location of a bucket and its credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct GcsOptions {
    bucket: String,
    base_path: String,
    /// Endpoint of a store other than Google's, such as an emulator; without credentials its requests are unsigned.
    endpoint: Option<String>,
    /// JSON of a service account. Without it the environment decides, then the machine's role.
    credentials: Option<String>,
    /// Environment variables with prefix `GOOGLE_`.
    environment: Vec<(String, String)>,
    read_timeout: Duration,
}

impl GcsOptions {
    /// Parses a repository's settings, with Elasticsearch's names.
    pub(super) fn parse(fields: &mut Fields, environment: &[(String, String)]) -> Result<Self> {
        fields.require_client()?;
        let bucket = fields.filled("bucket")?;
        let bucket = bucket.ok_or_else(|| fields.refused("No [bucket] defined for gcs repository"))?;
        // Accepted for compatibility and ignored: the bucket alone addresses objects.
        fields.either("application_name")?;
        Ok(Self {
            bucket,
            base_path: fields.filled("base_path")?.unwrap_or_default(),
            endpoint: fields.either("endpoint")?,
            credentials: fields.of_client("credentials_file"),
            environment: environment.to_vec(),
            read_timeout: fields.duration("read_timeout", READ_TIMEOUT_DEFAULT)?,
        })
    }

    /// Creates a store without sending a request.
    pub(super) fn open(&self) -> Result<Arc<dyn Requests>, ObjectError> {
        let is_plain = self.endpoint.as_deref().is_some_and(|at| at.starts_with("http://"));
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_client_options(client_options(self.read_timeout, is_plain))
            .with_retry(no_retries())
            .with_http_connector(Connector);
        match &self.credentials {
            Some(key) => builder = builder.with_service_account_key(key),
            None => {
                for (name, value) in &self.environment {
                    if let Some(key) = who(name) {
                        builder = builder.with_config(key, value);
                    }
                }
            }
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_base_url(endpoint.trim_end_matches('/'));
            if self.credentials.is_none() {
                // Emulators need no credentials, and the client must not request a token for them from Google's
                // servers.
                let noname = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
                builder = builder.with_credentials(Arc::new(noname)).with_skip_signature(true);
            }
        }
        let store = builder.build().map_err(|error| fault("", &error))?;
        let dialect = Dialect {
            by_version: true,
            reads_ends: true,
        };
        Ok(Arc::new(Remote::new(store, &self.base_path, dialect)))
    }
}

/// Returns the client option of a credential variable, used if the repository has no credentials.
fn who(name: &str) -> Option<GoogleConfigKey> {
    let is_taken = matches!(
        name,
        "GOOGLE_APPLICATION_CREDENTIALS"
            | "GOOGLE_SERVICE_ACCOUNT"
            | "GOOGLE_SERVICE_ACCOUNT_PATH"
            | "GOOGLE_SERVICE_ACCOUNT_KEY"
    );
    name.to_ascii_lowercase().parse().ok().filter(|_| is_taken)
}

/// Omits the secrets.
impl fmt::Debug for GcsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GcsOptions")
            .field("bucket", &self.bucket)
            .field("base_path", &self.base_path)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
