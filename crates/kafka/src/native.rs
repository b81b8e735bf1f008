//! Calls of librdkafka that rdkafka does not wrap: the ids of topics, and the start of a log as the last fetch saw it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rdkafka::bindings as sys;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// Id of a topic in the form that Kafka's tools print. Blocks for at most about `timeout`.
///
/// A broker older than 2.8 knows no ids: `name:` and the topic's name take their place, and a topic that is deleted and made
/// again is not told from the old one.
#[expect(unsafe_code, reason = "rdkafka has no safe wrapper of DescribeTopics")]
pub(crate) fn topic_id<C: ClientContext>(client: &Client<C>, topic: &str, timeout: Duration) -> KafkaResult<String> {
    let name = CString::new(topic).map_err(KafkaError::Nul)?;
    let handle = client.native_ptr();
    let timeout_ms = timeout.as_millis() as c_int;
    let mut names = [name.as_ptr()];
    // SAFETY: `handle` lives as long as `client`. Every object is destroyed once, after its last use; the result borrows from
    // `event`. The queue is destroyed after the event; a reply that comes later is dropped by librdkafka.
    unsafe {
        let queue = sys::rd_kafka_queue_new(handle);
        let options =
            sys::rd_kafka_AdminOptions_new(handle, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, ptr::null_mut(), 0);
        let topics = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        sys::rd_kafka_DescribeTopics(handle, topics, options, queue);
        let event = sys::rd_kafka_queue_poll(queue, timeout_ms + 500);
        let id = if event.is_null() {
            Err(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut))
        } else {
            id_of_event(event, topic)
        };
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_TopicCollection_destroy(topics);
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_queue_destroy(queue);
        id
    }
}

/// # Safety
/// `event` is the live event of a call of `DescribeTopics`.
#[expect(unsafe_code, reason = "part of the call of DescribeTopics")]
unsafe fn id_of_event(event: *mut sys::rd_kafka_event_t, topic: &str) -> KafkaResult<String> {
    // SAFETY: all pointers borrow from `event`, which the caller holds.
    unsafe {
        let failed = sys::rd_kafka_event_error(event);
        if failed != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOp(failed.into()));
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        if result.is_null() {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail));
        }
        let descriptions = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if descriptions.is_null() || count != 1 {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopic));
        }
        let description = *descriptions;
        let error = sys::rd_kafka_TopicDescription_error(description);
        let code = sys::rd_kafka_error_code(error);
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOp(code.into()));
        }
        let id = sys::rd_kafka_TopicDescription_topic_id(description);
        let high = sys::rd_kafka_Uuid_most_significant_bits(id);
        let low = sys::rd_kafka_Uuid_least_significant_bits(id);
        if high == 0 && low == 0 {
            return Ok(format!("name:{topic}"));
        }
        let bits = (u128::from(high as u64) << 64) | u128::from(low as u64);
        Ok(BASE64_URL_SAFE_NO_PAD.encode(bits.to_be_bytes()))
    }
}

/// First offset in the log of a partition, as the last fetch saw it; `None`: not known. Does not block.
#[expect(
    unsafe_code,
    reason = "rdkafka has no safe wrapper of the watermarks of the last fetch"
)]
pub(crate) fn log_start<C: ClientContext>(client: &Client<C>, topic: &str, partition: i32) -> Option<u64> {
    let name = CString::new(topic).ok()?;
    let name: &CStr = &name;
    let (mut low, mut high) = (-1_i64, -1_i64);
    let topic: *const c_char = name.as_ptr();
    // SAFETY: the handle lives as long as `client`; the pointers are valid for the call.
    let failed = unsafe {
        sys::rd_kafka_get_watermark_offsets(client.native_ptr(), topic, partition, &raw mut low, &raw mut high)
    };
    let is_known = failed == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    is_known.then(|| u64::try_from(low).ok()).flatten()
}
