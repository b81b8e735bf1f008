//! Settings of the connection to a cluster.

/// How to reach a cluster, with the contents of the files that its settings name.
#[derive(Debug, Clone, Default)]
pub struct ClusterSettings {
    /// Base addresses of its nodes: `https://HOST:9200`. Another one is used while one does not answer.
    pub hosts: Vec<String>,
    /// Who the worker is.
    pub credentials: Credentials,
    /// Certificates (PEM) that sign those of the nodes, instead of the system's.
    pub certificate_authority: Option<Vec<u8>>,
    /// Index that holds the record of each partition.
    pub positions_index: String,
    /// Whether events get ids and partitions get records although the cluster is a firn, which stores events once without them.
    pub by_ids: bool,
}

/// Credentials of a client.
#[derive(Clone, Default)]
pub enum Credentials {
    /// None: a cluster without authentication.
    #[default]
    None,
    /// User and password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// API key, encoded as the cluster returned it (`encoded`).
    ApiKey(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets stay out of logs.
        formatter.write_str(match self {
            Self::None => "None",
            Self::Basic { .. } => "Basic",
            Self::ApiKey(_) => "ApiKey",
        })
    }
}
