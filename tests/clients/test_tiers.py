"""Events on their way from hot to frozen to gone, by a policy alone, on a real S3 server, through elasticsearch-py.

The policy is the well-known example with shorter times. While it runs a writer never stops, and a reader asks all the time:
what was written is found, once, wherever it lies by then.
"""

import threading
import time

import elasticsearch
import elasticsearch.helpers
import pytest

from conftest import running

# How long any step may take on a machine that is busy with something else.
PATIENCE_S = 180


def policy(repository, rollover_after, frozen_after, delete_after):
    """The example: rollover at 24h or 50gb with a merge, frozen after 1h, deleted after 60d."""
    return {"phases": {
        "hot": {"actions": {"rollover": {"max_age": rollover_after, "max_primary_shard_size": "50gb"},
                            "forcemerge": {"max_num_segments": 1}}},
        "frozen": {"min_age": frozen_after, "actions": {"searchable_snapshot": {"snapshot_repository": repository}}},
        "delete": {"min_age": delete_after, "actions": {"delete": {}}},
    }}


@pytest.fixture(scope="module")
def firn(bucket, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiers")
    settings = {"indices.lifecycle.poll_interval": "1s", "xpack.searchable.snapshot.shared_cache.size": "32mb",
                # The machine that runs the tests may have a full disk.
                "cluster.routing.allocation.disk.watermark.flood_stage": "100mb"}
    with running(folder, settings, bucket.environment) as base:
        client = elasticsearch.Elasticsearch(base, request_timeout=120)
        client.snapshot.create_repository(name="found-snapshots", repository=bucket.repository("firn"))
        yield client


class Writer(threading.Thread):
    """Writes numbered events into a data stream until it is told to stop, and knows which were acknowledged when."""

    def __init__(self, client, stream):
        super().__init__()
        self.client, self.stream = client, stream
        self.ended, self.failure = threading.Event(), None
        # For each batch of ten: when it was sent. Only acknowledged ones are in it.
        self.sent = []

    def run(self):
        try:
            while not self.ended.is_set():
                first, sent = len(self.sent) * 10, time.time()
                actions = [{"_op_type": "create", "_index": self.stream, "@timestamp": int(sent * 1000), "n": n,
                            "user": f"u{n % 3}", "message": f"event {n}"} for n in range(first, first + 10)]
                elasticsearch.helpers.bulk(self.client, actions, refresh=True)
                self.sent.append(sent)
                time.sleep(0.25)
        except Exception as failure:  # raised by the thread that waits for it
            self.failure = failure

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
        assert self.failure is None, self.failure


def put_stream(client, stream, lifecycle):
    client.ilm.put_lifecycle(name=stream, policy=lifecycle)
    client.indices.put_index_template(
        name=stream, index_patterns=[stream], data_stream={}, priority=500,
        template={"settings": {"index.lifecycle.name": stream},
                  "mappings": {"properties": {"n": {"type": "long"}, "user": {"type": "keyword"}}}})


def found(client, stream):
    """The numbers of all events that a search finds, and the indices that they are in."""
    answer = client.search(index=stream, size=10_000, sort=[{"n": "asc"}], track_total_hits=True,
                           aggs={"sum": {"sum": {"field": "n"}}, "users": {"terms": {"field": "user"}}})
    assert answer["_shards"]["failed"] == 0, str(answer["_shards"])
    assert not answer["timed_out"]
    hits = answer["hits"]["hits"]
    numbers = [hit["_source"]["n"] for hit in hits]
    # Hits and aggregations are of one moment.
    assert answer["hits"]["total"]["value"] == len(numbers)
    assert answer["aggregations"]["sum"]["value"] == sum(numbers)
    assert sum(bucket["doc_count"] for bucket in answer["aggregations"]["users"]["buckets"]) == len(numbers)
    assert all(hit["_source"]["message"] == f"event {hit['_source']['n']}" for hit in hits)
    return numbers, {hit["_index"] for hit in hits}


def is_frozen(index):
    return index.startswith("partial-.ds-")


def snapshots(client):
    return client.snapshot.get(repository="found-snapshots", snapshot="*")["snapshots"]


def test_events_go_from_hot_to_frozen_to_gone_and_are_found_until_then(firn):
    stream, kept_s = "events", 25
    put_stream(firn, stream, policy("found-snapshots", "3s", "1s", f"{kept_s}s"))
    saw_both, deadline = False, time.monotonic() + PATIENCE_S
    with Writer(firn, stream) as writer:
        while True:
            acknowledged = list(writer.sent)
            if not acknowledged:
                time.sleep(0.05)
                continue
            numbers, indices = found(firn, stream)
            answered = time.time()
            # Each once, and what is gone is what is oldest: whole indices go, one after another.
            first = numbers[0] if numbers else len(acknowledged) * 10
            assert numbers == list(range(first, first + len(numbers)))
            assert first + len(numbers) >= len(acknowledged) * 10
            # An index goes no sooner than that after its rollover, so nothing younger is missing.
            young = next((batch for batch, sent in enumerate(acknowledged) if sent + kept_s > answered), None)
            assert young is None or first <= young * 10
            saw_both |= any(map(is_frozen, indices)) and not all(map(is_frozen, indices))
            if first > 0 and saw_both:
                break
            assert writer.failure is None, writer.failure
            assert time.monotonic() < deadline, f"{indices} after {len(acknowledged)} batches, frozen seen: {saw_both}"
    explained = firn.ilm.explain_lifecycle(index=stream)["indices"].values()
    # One that a rollover has just made is in no phase yet.
    assert {index["phase"] for index in explained if "phase" in index} <= {"hot", "frozen", "delete"}
    # The indices that are deleted take their snapshots with them.
    while len(snapshots(firn)) > len(firn.indices.get_data_stream(name=stream)["data_streams"][0]["indices"]):
        assert time.monotonic() < deadline, "snapshots outlive their indices"
        time.sleep(0.2)
    firn.indices.delete_data_stream(name=stream)


def test_another_firn_mounts_what_the_policy_has_frozen(firn, bucket, tmp_path):
    stream = "shared"
    put_stream(firn, stream, policy("found-snapshots", "2s", "0s", "60d"))
    deadline = time.monotonic() + PATIENCE_S
    with Writer(firn, stream) as writer:
        while True:
            acknowledged = len(writer.sent) * 10
            # Strict while nothing is deleted: all that was acknowledged, each once.
            numbers, indices = found(firn, stream) if acknowledged else ([], set())
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= acknowledged
            if sum(map(is_frozen, indices)) >= 2:
                break
            assert time.monotonic() < deadline, f"only {indices} after {acknowledged} events"
            time.sleep(0.1)
    explained = firn.ilm.explain_lifecycle(index=stream)["indices"]
    frozen = {name: lifecycle for name, lifecycle in explained.items() if is_frozen(name)}
    assert len(frozen) >= 2
    with running(tmp_path, {}, bucket.environment) as base:
        other = elasticsearch.Elasticsearch(base, request_timeout=120)
        # Nothing but the bucket, and that only to read.
        other.snapshot.create_repository(name="theirs", repository=bucket.repository("firn", readonly="true"))
        for number, (index, lifecycle) in enumerate(frozen.items()):
            mounted = other.searchable_snapshots.mount(
                repository="theirs", snapshot=lifecycle["snapshot_name"], index=index.removeprefix("partial-"),
                renamed_index=f"theirs-{number}", storage="shared_cache", wait_for_completion=True)
            assert mounted["snapshot"]["shards"]["failed"] == 0
            theirs, _ = found(other, f"theirs-{number}")
            ours, _ = found(firn, index)
            assert theirs and theirs == ours
        with pytest.raises(elasticsearch.ApiError, match="readonly"):
            other.snapshot.create(repository="theirs", snapshot="mine", wait_for_completion=True)
    firn.indices.delete_data_stream(name=stream)
