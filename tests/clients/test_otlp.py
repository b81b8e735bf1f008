"""OpenTelemetry's own exporters send log records to firn by OTLP, over HTTP (protobuf) and over gRPC."""

import logging
import time

import pytest
import requests
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource


def exporter(protocol, url):
    if protocol == "grpc":
        return GrpcExporter(endpoint=url, insecure=True)
    if protocol == "grpc-gzip":
        from grpc import Compression as GrpcCompression

        return GrpcExporter(endpoint=url, insecure=True, compression=GrpcCompression.Gzip)
    return HttpExporter(endpoint=f"{url}/v1/logs", compression=Compression(protocol.removeprefix("http-")))


@pytest.mark.parametrize("protocol", ["http-none", "http-gzip", "grpc", "grpc-gzip"])
def test_log_records_are_stored_with_common_fields(url, protocol):
    index = f"logs-otlp-{protocol}"
    body = {"source": {"type": "otlp"}, "pack": "otel", "index": index}
    requests.put(f"{url}/_firn/pipelines/otlp", json=body).raise_for_status()
    deadline = time.monotonic() + 20
    while requests.post(f"{url}/v1/logs", json={}).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter(protocol, url)))
    logger = logging.getLogger(f"otlp-test-{protocol}")
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

    requests.post(f"{url}/{index}/_refresh").raise_for_status()
    count = requests.get(f"{url}/{index}/_count").json()["count"]
    assert count == 1000
    query = {"query": {"match_phrase": {"message": "order 7 failed"}}}
    hits = requests.post(f"{url}/{index}/_search", json=query).json()["hits"]["hits"]
    source = hits[0]["_source"]
    assert source["service"]["name"] == "shop"
    assert source["log"]["level"] == "WARN"
    requests.delete(f"{url}/_firn/pipelines/otlp").raise_for_status()
    while requests.post(f"{url}/v1/logs", json={}).status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)
