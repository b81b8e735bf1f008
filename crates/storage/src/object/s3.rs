//! Amazon S3 and S3-compatible stores.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firn_model::Result;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};

use super::http::{Connector, client_options, no_retries};
use super::remote::{Dialect, Remote, fault};
use super::settings::Fields;
use super::{ObjectError, Requests};

/// Location of a bucket and its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Options {
    /// Name of the bucket.
    pub bucket: String,
    /// Prefix of every key; empty for none.
    pub base_path: String,
    /// Endpoint of a store other than Amazon's: `https://host:port`, without the bucket.
    pub endpoint: Option<String>,
    /// AWS region, part of every signature.
    pub region: Option<String>,
    /// Whether the bucket is in the path of a request and not in its host name.
    pub path_style_access: bool,
    /// Static credentials. Without them the environment decides, then the machine's role.
    pub credentials: Option<S3Credentials>,
    /// Environment variables with prefix `AWS_`.
    pub environment: Vec<(String, String)>,
    /// Maximum silence of a store before a request counts as lost.
    pub read_timeout: Duration,
    /// Whether the store encrypts stored objects.
    pub server_side_encryption: bool,
}

/// Credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    /// Access key id.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Session token of temporary credentials.
    pub session_token: Option<String>,
}

/// Elasticsearch's default of `s3.client.*.read_timeout`.
pub(super) const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(50);

impl S3Options {
    /// Creates options for a bucket at Amazon, with the machine's role.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            base_path: String::new(),
            endpoint: None,
            region: None,
            path_style_access: false,
            credentials: None,
            environment: Vec::new(),
            read_timeout: READ_TIMEOUT_DEFAULT,
            server_side_encryption: false,
        }
    }

    /// Parses a repository's settings, with Elasticsearch's names.
    pub(super) fn parse(fields: &mut Fields, environment: &[(String, String)]) -> Result<Self> {
        fields.require_client()?;
        let bucket = fields.filled("bucket")?;
        let bucket = bucket.ok_or_else(|| fields.refused("No bucket defined for s3 repository"))?;
        for (name, accepted) in [("storage_class", "standard"), ("canned_acl", "private")] {
            fields.only(name, accepted)?;
        }
        let protocol = fields.either("protocol")?.unwrap_or_else(|| "https".to_owned());
        if !matches!(protocol.as_str(), "http" | "https") {
            return Err(fields.refused(format!("No enum constant for protocol [{protocol}]: http or https")));
        }
        let endpoint = fields.either("endpoint")?.map(|at| match at.contains("://") {
            true => at,
            false => format!("{protocol}://{at}"),
        });
        if let Some(at) = endpoint.as_deref().filter(|at| !is_http(at)) {
            return Err(fields.refused(format!("the endpoint [{at}] is not an http or https URL")));
        }
        let keys = (fields.of_client("access_key"), fields.of_client("secret_key"));
        let credentials = match keys {
            (Some(access_key), Some(secret_key)) => Some(S3Credentials {
                access_key,
                secret_key,
                session_token: fields.of_client("session_token"),
            }),
            (None, None) => None,
            (Some(_), None) => return Err(fields.refused("Missing secret key for s3 client")),
            (None, Some(_)) => return Err(fields.refused("Missing access key for s3 client")),
        };
        Ok(Self {
            bucket,
            base_path: fields.filled("base_path")?.unwrap_or_default(),
            // Custom endpoints rarely have a DNS name for every bucket.
            path_style_access: fields.boolean("path_style_access", endpoint.is_some())?,
            endpoint,
            region: fields.either("region")?,
            credentials,
            environment: environment.to_vec(),
            read_timeout: fields.duration("read_timeout", READ_TIMEOUT_DEFAULT)?,
            server_side_encryption: fields.boolean("server_side_encryption", false)?,
        })
    }

    /// Creates a store without sending a request.
    pub fn open(&self) -> Result<Arc<dyn Requests>, ObjectError> {
        let mut builder = AmazonS3Builder::new();
        for (name, value) in &self.environment {
            // The repository defines bucket and endpoint; only credentials and the region may come from the
            // environment.
            let key: Option<AmazonS3ConfigKey> = name.to_ascii_lowercase().parse().ok();
            let is_taken = self.takes(name);
            if let Some(key) = key.filter(|_| is_taken) {
                builder = builder.with_config(key, value);
            }
        }
        let is_plain = self.endpoint.as_deref().is_some_and(|at| at.starts_with("http://"));
        builder = builder
            .with_bucket_name(&self.bucket)
            .with_client_options(client_options(self.read_timeout, is_plain))
            .with_retry(no_retries())
            .with_http_connector(Connector)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Deletes one object per request, which every S3-compatible store supports.
            .with_disable_bulk_delete(true)
            .with_virtual_hosted_style_request(!self.path_style_access);
        if self.server_side_encryption {
            let name: Option<AmazonS3ConfigKey> = "aws_server_side_encryption".parse().ok();
            builder = name
                .into_iter()
                .fold(builder, |builder, name| builder.with_config(name, "AES256"));
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(self.host(endpoint));
        }
        if let Some(credentials) = &self.credentials {
            builder = builder
                .with_access_key_id(&credentials.access_key)
                .with_secret_access_key(&credentials.secret_key);
            if let Some(token) = &credentials.session_token {
                builder = builder.with_token(token);
            }
        }
        let store = builder.build().map_err(|error| fault("", &error))?;
        let dialect = Dialect {
            by_version: false,
            reads_ends: true,
        };
        Ok(Arc::new(Remote::new(store, &self.base_path, dialect)))
    }

    /// Returns whether an environment variable is used.
    fn takes(&self, name: &str) -> bool {
        let says_who = self.credentials.is_none() && WHO.contains(&name);
        says_who || matches!(name, "AWS_REGION" | "AWS_DEFAULT_REGION")
    }

    /// Returns the endpoint for the client, which expects the bucket in the host name in virtual-hosted style.
    fn host(&self, endpoint: &str) -> String {
        let endpoint = endpoint.trim_end_matches('/');
        match endpoint.split_once("://") {
            Some((scheme, host)) if !self.path_style_access => format!("{scheme}://{}.{host}", self.bucket),
            _ => endpoint.to_owned(),
        }
    }
}

/// Environment variables with credentials, used if the repository has none.
const WHO: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
];

fn is_http(endpoint: &str) -> bool {
    let host = endpoint
        .strip_prefix("http://")
        .or_else(|| endpoint.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
}

/// Omits the secrets.
impl fmt::Debug for S3Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .field("base_path", &self.base_path)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("path_style_access", &self.path_style_access)
            .field("credentials", &self.credentials.as_ref().map(|_| "given"))
            .finish_non_exhaustive()
    }
}
