"""OpenTelemetry's own exporter sends log records to firn by OTLP over HTTP (protobuf)."""

import logging
import time

import requests
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource


def test_log_records_are_stored_with_common_fields(url):
    body = {"source": {"type": "otlp"}, "pack": "otel", "index": "logs-otlp"}
    requests.put(f"{url}/_firn/pipelines/otlp", json=body).raise_for_status()
    deadline = time.monotonic() + 20
    while not requests.get(f"{url}/_firn/pipelines/otlp/stats").json().get("running"):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{url}/v1/logs", compression=None)))
    logger = logging.getLogger("otlp-test")
    logger.setLevel(logging.INFO)
    handler = LoggingHandler(logger_provider=provider)
    logger.addHandler(handler)
    try:
        for number in range(1000):
            logger.warning("order %d failed", number, extra={"order.number": number})
        assert provider.force_flush()
    finally:
        logger.removeHandler(handler)
        provider.shutdown()

    requests.post(f"{url}/logs-otlp/_refresh").raise_for_status()
    count = requests.get(f"{url}/logs-otlp/_count").json()["count"]
    assert count == 1000
    query = {"query": {"match_phrase": {"message": "order 7 failed"}}}
    hits = requests.post(f"{url}/logs-otlp/_search", json=query).json()["hits"]["hits"]
    source = hits[0]["_source"]
    assert source["service"]["name"] == "shop"
    assert source["log"]["level"] == "WARN"
    requests.delete(f"{url}/_firn/pipelines/otlp").raise_for_status()
