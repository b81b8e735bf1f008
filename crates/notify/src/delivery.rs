//! The task of one channel: takes what is pending, sends it within the rate of the channel, and writes that it is sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_model::dates::DateFormat;
use firn_model::{ErrorKind, Result};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::alert_documents::{AlertChange, AlertKey, ChangeOutcome, Delivery};
use crate::channel::Channel;
use crate::failing_channel;
use crate::notification::{Notification, StoredAlert};
use crate::notifier::{PAGE, Shared};
use crate::queue::Page;
use crate::rate_limit::RateLimit;
use crate::senders::{self, SendError, SendErrorKind, Sender};
use crate::status::Status;

/// Time of one message.
pub(crate) const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// Pause after the first failure, and the longest one.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// How long messages are sent before their outcomes are written.
const WRITE_AFTER: Duration = Duration::from_millis(100);
/// Failed attempts after which the operator gets an alert.
const FAILURES_BEFORE_ALERT: u32 = 3;
/// Pause between two alerts that one channel fails.
const ALERT_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Attempts at a channel before alerts that are too old are given up: they may be old because firn did not run.
const ATTEMPTS_MIN: u32 = 5;
/// Outcomes that wait to be written; at so many nothing more is sent.
const UNWRITTEN_MAX: usize = 10_000;

/// Task of a channel.
pub(crate) struct ChannelTask {
    channel: Channel,
    shared: Arc<Shared>,
    status: Status,
    /// `None`: it is opened before the next message.
    sender: Option<Box<dyn Sender>>,
    limit: RateLimit,
    failures: Failures,
    /// When the operator got an alert that the channel fails.
    alert_raised: Option<Instant>,
    /// What is sent or given up and not yet written into the alerts. It is not sent again by this process.
    unwritten: BTreeMap<AlertKey, AlertChange>,
    stopped: watch::Receiver<bool>,
}

/// Failed attempts one after the other.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    next_attempt: Option<Instant>,
}

/// What to do next.
enum Next {
    /// There may be more to send.
    Continue,
    /// Nothing is pending.
    Idle,
    Wait(Duration),
}

impl ChannelTask {
    pub(crate) fn new(channel: Channel, shared: Arc<Shared>, status: Status, stopped: watch::Receiver<bool>) -> Self {
        Self {
            limit: RateLimit::new(channel.per_minute, Instant::now()),
            channel,
            shared,
            status,
            sender: None,
            failures: Failures::default(),
            alert_raised: None,
            unwritten: BTreeMap::new(),
            stopped,
        }
    }

    pub(crate) async fn run(mut self, wake: Arc<Notify>) {
        let mut stopped = self.stopped.clone();
        loop {
            let next = self.step().await.unwrap_or_else(|error| {
                tracing::warn!(channel = self.channel.id, %error, "cannot read alerts for delivery; retrying");
                Next::Wait(RETRY_AFTER)
            });
            if self.is_stopped() {
                return;
            }
            let has_stopped = async {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            match next {
                Next::Continue => {}
                Next::Idle => tokio::select! {
                    () = wake.notified() => {}
                    () = has_stopped => return,
                },
                Next::Wait(pause) => tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = has_stopped => return,
                },
            }
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    async fn step(&mut self) -> Result<Next> {
        self.write_outcomes().await;
        if self.unwritten.len() >= UNWRITTEN_MAX {
            return Ok(Next::Wait(RETRY_AFTER));
        }
        let now = Instant::now();
        if let Some(next_attempt) = self.failures.next_attempt
            && next_attempt > now
        {
            return Ok(Next::Wait(next_attempt - now));
        }
        let available = self.limit.available(now) as usize;
        if available == 0 {
            return Ok(Next::Wait(self.limit.wait()));
        }
        // As many as the rate allows are sent one by one; the last message has what is beyond.
        let size = if available == 1 { PAGE } else { available.min(PAGE) };
        let page = self.page(size).await?;
        let (mut alerts, foreign): (Vec<_>, Vec<_>) = page.alerts.into_iter().partition(|alert| self.is_for(alert));
        if !foreign.is_empty() {
            let reason = "the alert belongs to another tenant than the channel".to_owned();
            self.give_up(foreign.iter().map(|alert| &alert.key), 0, &reason);
            return Ok(Next::Continue);
        }
        if alerts.is_empty() {
            return Ok(match self.unwritten.is_empty() {
                true => Next::Idle,
                false => Next::Wait(RETRY_AFTER),
            });
        }
        let singles = match page.total as usize <= available {
            true => alerts.len(),
            false => available - 1,
        };
        // While the channel fails one alert is tried at a time, each time another one: it may fail because of the alert.
        let failed = self.failures.count as usize;
        let singles = if failed > 0 { singles.max(1) } else { singles };
        let first = failed % alerts.len();
        alerts.rotate_left(first);
        if singles == 0 {
            self.send(alerts).await?;
            return Ok(Next::Continue);
        }
        // A write takes longer than most messages. After a crash, those since the last one are sent again, with the same key.
        let mut written = Instant::now();
        for alert in alerts.into_iter().take(singles) {
            self.send(vec![alert]).await?;
            if written.elapsed() >= WRITE_AFTER {
                self.write_outcomes().await;
                written = Instant::now();
            }
            if self.failures.next_attempt.is_some() || self.is_stopped() {
                break;
            }
        }
        self.write_outcomes().await;
        Ok(Next::Continue)
    }

    /// Returns the oldest alerts that are pending, without those that are done and not yet written.
    async fn page(&self, size: usize) -> Result<Page> {
        let except: Vec<AlertKey> = self.unwritten.keys().cloned().collect();
        let page = self.shared.queue.page(&self.channel.id, &except, size).await?;
        self.status.set(|status| status.pending = page.total);
        Ok(page)
    }

    /// Whether the channel may get an alert.
    fn is_for(&self, alert: &StoredAlert) -> bool {
        let tenant = self.channel.tenant.as_ref();
        tenant.is_none_or(|tenant| alert.tenant() == Some(tenant.as_str()))
    }

    async fn send(&mut self, alerts: Vec<StoredAlert>) -> Result<()> {
        let notification = Notification::new(&self.channel.id, alerts);
        let sent = match self.open() {
            Ok(sender) => match tokio::time::timeout(SEND_TIME_MAX, sender.send(&notification)).await {
                Ok(sent) => sent,
                Err(_) => Err(SendError::channel("no answer in time")),
            },
            Err(reason) => Err(SendError::channel(reason)),
        };
        let keys = notification.alerts.iter().map(|alert| &alert.key);
        let count = notification.alerts.len();
        match sent {
            Ok(note) => {
                self.limit.take();
                if let Some(note) = &note {
                    tracing::warn!(
                        channel = self.channel.id,
                        "a message was delivered only in part: {note}"
                    );
                }
                let delivery = self.delivery(self.failures.count + 1, count, note.clone());
                let change = AlertChange::Delivered(delivery);
                self.unwritten.extend(keys.map(|key| (key.clone(), change.clone())));
                self.failures = Failures::default();
                self.status.set(|status| {
                    status.delivered += count as u64;
                    status.messages += 1;
                    status.last_error = note;
                    status.next_attempt = None;
                });
                Ok(())
            }
            Err(SendError {
                reason,
                kind: SendErrorKind::Message,
            }) => {
                self.refuse(keys, reason).await;
                Ok(())
            }
            Err(SendError {
                reason,
                kind: SendErrorKind::Alerts(refused),
            }) => {
                let (refused, sent): (Vec<_>, Vec<_>) =
                    keys.enumerate().partition(|(place, _)| refused.contains(place));
                let change = AlertChange::Delivered(self.delivery(self.failures.count + 1, count, None));
                let sent = sent.into_iter().map(|(_, key)| (key.clone(), change.clone()));
                let before = self.unwritten.len();
                self.unwritten.extend(sent);
                let delivered = (self.unwritten.len() - before) as u64;
                self.status.set(|status| {
                    status.delivered += delivered;
                    status.messages += 1;
                });
                self.refuse(refused.into_iter().map(|(_, key)| key), reason).await;
                Ok(())
            }
            Err(SendError {
                reason,
                kind: SendErrorKind::Channel { retry_after },
            }) => self.fail(reason, retry_after).await,
        }
    }

    /// The receiver takes the messages of other alerts, and will never take these.
    async fn refuse<'k>(&mut self, keys: impl Iterator<Item = &'k AlertKey>, reason: String) {
        self.limit.take();
        tracing::warn!(
            channel = self.channel.id,
            reason,
            "a message was permanently refused; its alerts are listed as failed"
        );
        self.give_up(keys, self.failures.count + 1, &reason);
        self.failures = Failures::default();
        self.raise_alert(&reason).await;
        self.status.set(|status| {
            status.last_error = Some(reason);
            status.next_attempt = None;
        });
    }

    /// The channel does not work: it is tried again later, and what is too old for that is given up.
    async fn fail(&mut self, reason: String, retry_after: Option<Duration>) -> Result<()> {
        self.sender = None;
        self.failures.count += 1;
        let attempts = self.failures.count;
        let pause = RETRY_AFTER * 2_u32.pow(attempts.saturating_sub(1).min(16));
        let pause = retry_after.unwrap_or(Duration::ZERO).max(pause.min(RETRY_AFTER_MAX));
        self.failures.next_attempt = Some(Instant::now() + pause);
        let now_ms = (self.shared.senders.clock)();
        let next_attempt = self.shared.time(now_ms.saturating_add(pause.as_millis() as i64));
        tracing::warn!(
            channel = self.channel.id,
            attempts,
            reason,
            next_attempt,
            "a channel failed; retrying"
        );
        if attempts >= FAILURES_BEFORE_ALERT {
            self.raise_alert(&reason).await;
        }
        self.status.set(|status| {
            status.last_error = Some(reason);
            status.next_attempt = Some(next_attempt);
        });
        match attempts >= ATTEMPTS_MIN {
            true => self.give_up_old(now_ms, attempts).await,
            false => Ok(()),
        }
    }

    /// Gives up the alerts that are older than the channel may fail.
    async fn give_up_old(&mut self, now_ms: i64, attempts: u32) -> Result<()> {
        let oldest_ms = now_ms.saturating_sub(self.channel.retry_for.as_millis() as i64);
        let reason = self.status.get().last_error.unwrap_or_default();
        loop {
            let page = self.page(PAGE).await?;
            let is_old = |alert: &&StoredAlert| since_ms(alert).is_some_and(|since_ms| since_ms < oldest_ms);
            let old: Vec<&AlertKey> = page.alerts.iter().filter(is_old).map(|alert| &alert.key).collect();
            if old.is_empty() || self.unwritten.len() >= UNWRITTEN_MAX {
                return Ok(());
            }
            self.give_up(old, attempts, &reason);
            self.write_outcomes().await;
        }
    }

    fn open(&mut self) -> Result<&dyn Sender, String> {
        let sender = match self.sender.take() {
            Some(sender) => sender,
            None => senders::open(&self.channel, &self.shared.senders)?,
        };
        Ok(&**self.sender.insert(sender))
    }

    fn delivery(&self, attempts: u32, alerts: usize, note: Option<String>) -> Delivery {
        Delivery {
            channel: self.channel.id.clone(),
            at: self.shared.now(),
            attempts,
            alerts,
            note,
        }
    }

    fn give_up<'k>(&mut self, keys: impl IntoIterator<Item = &'k AlertKey>, attempts: u32, reason: &str) {
        let keys: Vec<AlertKey> = keys.into_iter().cloned().collect();
        let delivery = self.delivery(attempts, keys.len(), Some(reason.to_owned()));
        self.status.set(|status| status.failed += keys.len() as u64);
        let change = AlertChange::Failed(delivery);
        self.unwritten.extend(keys.into_iter().map(|key| (key, change.clone())));
    }

    /// Writes into the alerts what became of them. What cannot be written now is tried again at the next call.
    async fn write_outcomes(&mut self) {
        let mut open = self.unwritten.clone();
        while let Some((_, change)) = open.first_key_value() {
            let change = change.clone();
            let of_change = open.iter().filter(|(_, other)| **other == change);
            let keys: Vec<AlertKey> = of_change.take(PAGE).map(|(key, _)| key.clone()).collect();
            let outcomes = match self.shared.alerts.change(&keys, &change).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    tracing::warn!(channel = self.channel.id, %error, "cannot write deliveries into their alerts; retrying");
                    return;
                }
            };
            for (key, outcome) in keys.iter().zip(outcomes) {
                open.remove(key);
                match outcome {
                    ChangeOutcome::Changed | ChangeOutcome::Unchanged => drop(self.unwritten.remove(key)),
                    // The alert is deleted, or its tenant is being deleted.
                    ChangeOutcome::Failed(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::ResourceNotFound | ErrorKind::IndexNotFound | ErrorKind::Forbidden
                        ) =>
                    {
                        drop(self.unwritten.remove(key));
                    }
                    ChangeOutcome::Failed(error) => {
                        let (index, id) = (&key.index, &key.id);
                        tracing::warn!(channel = self.channel.id, index, id, %error, "cannot write a delivery into its alert; retrying");
                    }
                }
            }
        }
    }

    /// Tells the operator that the channel fails, unless that was said a moment ago.
    async fn raise_alert(&mut self, reason: &str) {
        let raised = self.alert_raised.replace(Instant::now());
        if raised.is_some_and(|raised| raised.elapsed() < ALERT_AGAIN_AFTER) {
            self.alert_raised = raised;
            return;
        }
        let (now, all) = (self.shared.now(), Arc::clone(&self.shared.channels.lock()));
        let maintenance = Arc::clone(&self.shared.maintenance.lock());
        let engine = &*self.shared.alerts.engine;
        let raised = failing_channel::raise(engine, &self.channel.id, reason, &now, &all, &maintenance).await;
        if let Err(error) = raised {
            tracing::warn!(channel = self.channel.id, %error, "cannot store the alert about a failing channel");
        }
    }
}

/// Returns since when an alert is to be delivered.
fn since_ms(alert: &StoredAlert) -> Option<i64> {
    let format = DateFormat::default_millis();
    let times = ["firn.alert.resent_at", "@timestamp"].map(|path| alert.field(path));
    times.iter().filter_map(|time| format.parse_ms(time).ok()).max()
}
