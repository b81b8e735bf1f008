//! The notifier: looks at the queue, and has a task for each channel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_detect::{MaintenanceWindows, Throttle};
use firn_engine::{Engine, RequestContext};
use firn_model::dates::{DateFormat, Zone};
use firn_model::{Error, ErrorKind, Result};
use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::alert_documents::{AlertChange, AlertKey, Alerts, ChangeOutcome};
use crate::budget_exhausted;
use crate::channel::{Channel, ChannelKind, Secrets};
use crate::delivery::{ChannelTask, SEND_TIME_MAX};
use crate::notification::{Notification, StoredAlert};
use crate::queue::Queue;
use crate::senders::{self, Clock, KafkaConnector, SenderContext};
use crate::status::{ChannelStatus, Status};

/// How often the queue is looked at although nothing is known to be in it: alerts may also be changed by other requests.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause after a look.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Channels that do not exist of one look.
const UNKNOWN_MAX: usize = 100;
/// Alerts that are read at a time.
pub(crate) const PAGE: usize = 500;
/// How long channels that are changed or removed may take to finish their messages.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What a notifier needs.
pub struct NotifierConfig {
    /// Where the alerts are.
    pub engine: Arc<dyn Engine>,
    /// The clock: milliseconds since the epoch.
    pub clock: Clock,
    /// Secrets of the keystore.
    pub secrets: Secrets,
    /// Networks that webhooks may reach although they are private.
    pub allowed_networks: Vec<IpNet>,
    /// Client of Kafka; `None`: the program has none, and channels of this type are refused.
    pub kafka: Option<Arc<dyn KafkaConnector>>,
}

/// What the tasks of all channels share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) alerts: Alerts,
    pub(crate) senders: SenderContext,
    /// The channels that can be used.
    pub(crate) channels: Mutex<Arc<[Channel]>>,
    /// For the alerts of the notifier itself.
    pub(crate) maintenance: Mutex<Arc<MaintenanceWindows>>,
}

impl Shared {
    /// Returns the time, RFC 3339.
    pub(crate) fn now(&self) -> String {
        self.time((self.senders.clock)())
    }

    pub(crate) fn time(&self, ms: i64) -> String {
        DateFormat::default_millis().print_ms(ms, &Zone::utc())
    }
}

/// Delivers alerts.
pub struct Notifier {
    shared: Arc<Shared>,
    running: Mutex<BTreeMap<String, Entry>>,
    /// Notified when alerts were stored.
    stored: Arc<Notify>,
    applying: tokio::sync::Mutex<()>,
}

/// A channel, with the body that it was made from.
struct Entry {
    body: Arc<Map<String, Value>>,
    status: Status,
    /// `None`: the channel is disabled, or its body cannot be used.
    task: Option<Task>,
}

struct Task {
    wake: Arc<Notify>,
    stop: watch::Sender<bool>,
    handle: JoinHandle<()>,
}

/// Stops channels. A message that is under way has some time to arrive: it would be sent again.
async fn stop_all(tasks: Vec<Task>) {
    for task in &tasks {
        let _ = task.stop.send(true);
    }
    let deadline = Instant::now() + STOP_WITHIN;
    for mut task in tasks {
        if tokio::time::timeout_at(deadline, &mut task.handle).await.is_err() {
            task.handle.abort();
            let _ = task.handle.await;
        }
    }
}

impl Notifier {
    /// Creates a notifier without channels. `stored` is notified when alerts were stored.
    pub fn new(config: NotifierConfig, stored: Arc<Notify>) -> Arc<Self> {
        let engine = config.engine;
        Arc::new(Self {
            shared: Arc::new(Shared {
                queue: Queue {
                    engine: Arc::clone(&engine),
                },
                alerts: Alerts { engine },
                senders: SenderContext {
                    secrets: config.secrets,
                    allowed_networks: config.allowed_networks.into(),
                    clock: config.clock,
                    kafka: config.kafka,
                },
                channels: Mutex::new(Arc::new([])),
                maintenance: Mutex::default(),
            }),
            running: Mutex::default(),
            stored,
            applying: tokio::sync::Mutex::default(),
        })
    }

    /// Starts, replaces and stops channels until exactly those of `bodies` run.
    pub async fn apply(&self, bodies: &BTreeMap<String, Arc<Map<String, Value>>>) {
        let _applying = self.applying.lock().await;
        let mut ended = Vec::new();
        {
            let mut running = self.running.lock();
            let is_changed = |(id, entry): (&String, &Entry)| bodies.get(id).is_none_or(|body| *body != entry.body);
            let changed: Vec<String> = running
                .iter()
                .filter(|entry| is_changed(*entry))
                .map(|(id, _)| id.clone())
                .collect();
            for id in changed {
                ended.extend(running.remove(&id).and_then(|entry| entry.task));
            }
        }
        // Two tasks of one channel would both send what is pending.
        stop_all(ended).await;
        let parsed = bodies.iter().map(|(id, body)| (id, body, Channel::parse(id, body)));
        let parsed: Vec<_> = parsed.collect();
        let usable = parsed.iter().filter_map(|(.., channel)| channel.as_ref().ok().cloned());
        *self.shared.channels.lock() = usable.collect();
        for (id, body, channel) in parsed {
            if self.running.lock().contains_key(id) {
                continue;
            }
            let status = Status::default();
            let task = match channel {
                Ok(channel) if channel.enabled => Some(self.start(channel, status.clone())),
                Ok(_) => None,
                // It was stored by another build.
                Err(error) => {
                    status.set(|status| status.last_error = Some(error.to_string()));
                    None
                }
            };
            let body = Arc::clone(body);
            self.running.lock().insert(id.clone(), Entry { body, status, task });
        }
        self.stored.notify_one();
    }

    /// Suppresses the delivery of alerts of the notifier itself that are raised in these maintenance windows and that they name.
    pub fn set_maintenance_windows(&self, windows: Arc<MaintenanceWindows>) {
        *self.shared.maintenance.lock() = windows;
    }

    /// Raises the alert that a detection rule exhausts the budget of its owner, for the operator.
    ///
    /// # Errors
    /// Of the engine: the alert is not stored.
    pub async fn raise_budget_exhausted(&self, throttle: &Throttle) -> Result<()> {
        let shared = &self.shared;
        let (now, all) = (shared.now(), Arc::clone(&shared.channels.lock()));
        let maintenance = Arc::clone(&shared.maintenance.lock());
        let alert = budget_exhausted::alert(throttle, &now);
        alert.store(&*shared.alerts.engine, &all, &maintenance).await?;
        self.stored.notify_one();
        Ok(())
    }

    fn start(&self, channel: Channel, status: Status) -> Task {
        let wake = Arc::new(Notify::new());
        let (stop, stopped) = watch::channel(false);
        let task = ChannelTask::new(channel, Arc::clone(&self.shared), status, stopped);
        Task {
            handle: tokio::spawn(task.run(Arc::clone(&wake))),
            wake,
            stop,
        }
    }

    /// Looks at the queue whenever alerts were stored, and wakes the channels that have something to deliver. Runs until it is dropped.
    pub async fn run(&self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "cannot read the pending alerts; retrying");
            }
            // Each look makes small segments: what is stored meanwhile is found by the next one.
            tokio::time::sleep(LOOK_PAUSE).await;
            let _ = tokio::time::timeout(LOOK_EVERY, self.stored.notified()).await;
        }
    }

    async fn look(&self) -> Result<()> {
        let shared = &self.shared;
        let engine = &shared.queue.engine;
        if !engine
            .metadata(&RequestContext::new())
            .await?
            .data_streams
            .keys()
            .any(|name| name.starts_with(".alerts-"))
        {
            return Ok(());
        }
        shared.queue.refresh().await?;
        let now = shared.now();
        let due = shared.queue.due(&now, PAGE).await?;
        let escalated = shared.alerts.change(&due, &AlertChange::Escalated { now }).await?;
        if escalated
            .iter()
            .any(|outcome| matches!(outcome, ChangeOutcome::Changed))
        {
            // There may be more.
            self.stored.notify_one();
        }
        let known: Vec<String> = self.running.lock().keys().cloned().collect();
        let pending = shared.queue.pending(&known).await?;
        let mut unknown = Vec::new();
        {
            let running = self.running.lock();
            for (id, entry) in running.iter() {
                let count = pending.get(id).copied().unwrap_or(0);
                entry.status.set(|status| status.pending = count);
                if let (Some(task), true) = (&entry.task, count > 0) {
                    task.wake.notify_one();
                }
            }
            unknown.extend(pending.into_keys().filter(|id| !running.contains_key(id)));
        }
        self.give_up_unknown(&unknown).await
    }

    /// Lists channels that do not exist among those that failed: they could not be told from ones that are slow.
    async fn give_up_unknown(&self, unknown: &[String]) -> Result<()> {
        let shared = &self.shared;
        let metadata = shared.queue.engine.metadata(&RequestContext::new()).await?;
        let exists = |id: &&String| metadata.alert_channels.by_id.contains_key(*id);
        // One that exists is about to be applied.
        let unknown: Vec<&String> = unknown.iter().filter(|id| !exists(id)).take(UNKNOWN_MAX).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let keys = shared.queue.pending_for(&unknown, PAGE).await?;
        let known = metadata.alert_channels.by_id.keys().cloned().collect();
        let change = AlertChange::Unknown {
            known: Arc::new(known),
            at: shared.now(),
        };
        shared.alerts.change(&keys, &change).await.map(drop)
    }

    /// Returns the states of all channels, sorted by id.
    pub fn status(&self) -> Vec<(String, ChannelStatus)> {
        let running = self.running.lock();
        running
            .iter()
            .map(|(id, entry)| (id.clone(), entry.status.get()))
            .collect()
    }

    /// Looks at the queue soon.
    pub fn wake(&self) {
        self.stored.notify_one();
    }

    /// Checks what of a channel depends on this program: whether it has a client of Kafka, and whether that takes the settings.
    ///
    /// # Errors
    /// [`ErrorKind::IllegalArgument`] names the channel and the reason.
    pub fn check(&self, channel: &Channel) -> Result<()> {
        let checked = match &channel.kind {
            ChannelKind::Kafka(kafka) => senders::check_kafka(kafka, &self.shared.senders),
            ChannelKind::Email(_) | ChannelKind::Webhook(_) | ChannelKind::Syslog(_) => Ok(()),
        };
        checked.map_err(|reason| Error::illegal_argument(format!("channel [{}]: {reason}", channel.id)))
    }

    /// Sends a message without an alert over a channel.
    ///
    /// # Errors
    /// [`ErrorKind::IllegalArgument`]: the channel cannot be used. [`ErrorKind::Unavailable`]: the message was not sent, with the reason.
    pub async fn test(&self, channel: &Channel) -> Result<()> {
        let channel_id = channel.id.as_str();
        let sender = senders::open(channel, &self.shared.senders);
        let sender = sender.map_err(|reason| Error::illegal_argument(format!("channel [{channel_id}]: {reason}")))?;
        let now = self.shared.now();
        let document = json!({
            "@timestamp": now, "event": {"kind": "signal"},
            "rule": {"id": "firn-test", "name": "Test of a channel", "description": "This message tests a channel. No event raised it."},
            "firn": {"alert": {
                "id": format!("test-{now}"), "status": "closed", "severity": "informational", "risk_score": 0, "count": 1,
            }},
        });
        let alert = StoredAlert {
            key: AlertKey {
                index: String::new(),
                id: String::new(),
                routing: None,
            },
            document: document.as_object().cloned().unwrap_or_default(),
        };
        let notification = Notification::new(channel_id, vec![alert]);
        let refuse = |reason: String| Error::new(ErrorKind::Unavailable, format!("channel [{channel_id}]: {reason}"));
        match tokio::time::timeout(SEND_TIME_MAX, sender.send(&notification)).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(note))) => Err(refuse(note)),
            Ok(Err(error)) => Err(refuse(error.reason)),
            Err(_) => Err(refuse("no answer in time".to_owned())),
        }
    }

    /// Stops all channels.
    pub async fn stop(&self) {
        let _applying = self.applying.lock().await;
        let entries = std::mem::take(&mut *self.running.lock());
        stop_all(entries.into_values().filter_map(|entry| entry.task).collect()).await;
    }
}
