"""Repositories, snapshots, searchable snapshots, lifecycles and asynchronous searches through the official clients.

Each of them once with Elasticsearch's clients 7, 8 and 9, whose methods have grown apart in the names of their arguments;
what OpenSearch has as well, with its client too.
"""

import time

import elasticsearch
import elasticsearch.helpers
import elasticsearch7
import elasticsearch9
import opensearchpy
import pytest

EVENTS = 300
MODERN = (elasticsearch.Elasticsearch, elasticsearch9.Elasticsearch)
ELASTIC = {"elasticsearch7": elasticsearch7.Elasticsearch, "elasticsearch8": elasticsearch.Elasticsearch,
           "elasticsearch9": elasticsearch9.Elasticsearch}
EVERY = {**ELASTIC, "opensearch": opensearchpy.OpenSearch}
REFUSED = (elasticsearch.ApiError, elasticsearch9.ApiError, elasticsearch7.TransportError, opensearchpy.TransportError)


def named(client, argument, name):
    """What clients up to 7 call by what it is, later ones call `name`."""
    return {"name" if isinstance(client, MODERN) else argument: name}


@pytest.fixture(scope="module")
def events(url):
    """An index that every test here only reads."""
    client = elasticsearch.Elasticsearch(url)
    name = "snapshot-events"
    client.indices.create(index=name, settings={"number_of_shards": 2},
                          mappings={"properties": {"user": {"type": "keyword"}, "n": {"type": "long"}}})
    actions = ({"_index": name, "_id": str(n), "user": f"u{n % 7}", "n": n} for n in range(EVENTS))
    elasticsearch.helpers.bulk(client, actions, refresh=True)
    return name


@pytest.fixture(params=EVERY)
def every(request, url):
    return EVERY[request.param](url), request.param


@pytest.fixture(params=ELASTIC)
def elastic(request, url):
    return ELASTIC[request.param](url), request.param


def put_repository(client, name):
    body = {"type": "fs", "settings": {"location": name}}
    answer = client.snapshot.create_repository(**named(client, "repository", name), body=body)
    assert answer["acknowledged"] is True


def holds_all(client, index):
    body = {"size": 3, "sort": [{"n": "desc"}], "track_total_hits": True, "query": {"term": {"user": "u3"}},
            "aggs": {"sum": {"sum": {"field": "n"}}}}
    answer = client.search(index=index, body=body)
    expected = [n for n in range(EVENTS) if n % 7 == 3]
    assert answer["_shards"]["failed"] == 0
    assert answer["hits"]["total"]["value"] == len(expected)
    assert [hit["_source"]["n"] for hit in answer["hits"]["hits"]] == expected[:-4:-1]
    assert answer["aggregations"]["sum"]["value"] == sum(expected)


def eventually(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.1)


def test_a_snapshot_is_made_listed_restored_and_removed(every, events):
    client, kind = every
    repository = f"restored-{kind}"
    put_repository(client, repository)
    of = named(client, "repository", repository)
    assert len(client.snapshot.verify_repository(**of)["nodes"]) == 1
    assert client.snapshot.get_repository(**of)[repository]["type"] == "fs"

    made = client.snapshot.create(repository=repository, snapshot="one", wait_for_completion=True,
                                  body={"indices": events, "include_global_state": False, "metadata": {"by": kind}})
    assert made["snapshot"]["state"] == "SUCCESS"
    assert made["snapshot"]["shards"] == {"total": 2, "failed": 0, "successful": 2}
    listed = client.snapshot.get(repository=repository, snapshot="*")["snapshots"]
    assert [(one["snapshot"], one["indices"], one["metadata"]) for one in listed] == [("one", [events], {"by": kind})]
    status = client.snapshot.status(repository=repository, snapshot="one")["snapshots"][0]
    assert status["shards_stats"]["done"] == 2
    assert status["stats"]["total"]["size_in_bytes"] > 0
    with pytest.raises(REFUSED, match="already exists"):
        client.snapshot.create(repository=repository, snapshot="one")

    # A second snapshot of the same adds no bytes of events.
    client.snapshot.create(repository=repository, snapshot="two", wait_for_completion=True, body={"indices": events})
    status = client.snapshot.status(repository=repository, snapshot="two")["snapshots"][0]
    assert status["stats"]["incremental"] == {"file_count": 0, "size_in_bytes": 0}

    restored = f"restored-{kind}-{events}"
    answer = client.snapshot.restore(
        repository=repository, snapshot="one", wait_for_completion=True,
        body={"indices": events, "rename_pattern": "(.+)", "rename_replacement": f"restored-{kind}-$1"})
    assert answer["snapshot"]["shards"] == {"total": 2, "failed": 0, "successful": 2}
    holds_all(client, restored)
    client.index(index=restored, id="new", body={"user": "new"}, refresh=True)
    assert client.count(index=restored)["count"] == EVENTS + 1
    client.indices.delete(index=restored)

    client.snapshot.clone(repository=repository, snapshot="one", target_snapshot="three", body={"indices": events})
    client.snapshot.delete(repository=repository, snapshot="one")
    listed = client.snapshot.get(repository=repository, snapshot="*")["snapshots"]
    assert sorted(one["snapshot"] for one in listed) == ["three", "two"]
    with pytest.raises(REFUSED, match="snapshot_missing_exception"):
        client.snapshot.get(repository=repository, snapshot="one")
    for name in ("two", "three"):
        client.snapshot.delete(repository=repository, snapshot=name)
    assert client.snapshot.cleanup_repository(**of)["results"]["deleted_blobs"] >= 0
    client.snapshot.delete_repository(**of)
    with pytest.raises(REFUSED, match="repository_missing_exception"):
        client.snapshot.get_repository(**of)


def test_an_analysis_measures_a_repository(elastic):
    client, kind = elastic
    repository = f"analyzed-{kind}"
    put_repository(client, repository)
    report = client.snapshot.repository_analyze(
        **named(client, "repository", repository), blob_count=10, max_blob_size="64kb", max_total_data_size="1mb",
        timeout="60s")
    assert report["repository"] == repository
    assert report["blob_count"] == 10
    assert report["issues_detected"] == []


def test_a_snapshot_is_searched_where_it_lies(elastic, events):
    client, kind = elastic
    repository = f"mounted-{kind}"
    put_repository(client, repository)
    client.snapshot.create(repository=repository, snapshot="one", wait_for_completion=True, body={"indices": events})
    for storage in ("shared_cache", "full_copy"):
        name = f"{repository}-{storage.replace('_', '-')}"
        mounted = client.searchable_snapshots.mount(
            repository=repository, snapshot="one", storage=storage, wait_for_completion=True,
            body={"index": events, "renamed_index": name, "index_settings": {"index.priority": 7}})
        assert mounted["snapshot"]["shards"] == {"total": 2, "failed": 0, "successful": 2}
        holds_all(client, name)
        assert client.get(index=name, id="42")["_source"] == {"user": "u0", "n": 42}
        settings = client.indices.get_settings(index=name, flat_settings=True)[name]["settings"]
        assert settings["index.store.type"] == "snapshot"
        assert settings["index.store.snapshot.repository_name"] == repository
        assert settings["index.store.snapshot.snapshot_name"] == "one"
        assert settings["index.store.snapshot.index_name"] == events
        assert settings.get("index.store.snapshot.partial", "false") == str(storage == "shared_cache").lower()
        assert settings["index.priority"] == "7"
        with pytest.raises(REFUSED) as refused:
            client.index(index=name, id="new", body={"user": "new"})
        assert "cluster_block_exception" in str(refused.value)
    both = client.searchable_snapshots.stats(index=f"{repository}-*")
    assert set(both["indices"]) == {f"{repository}-shared-cache", f"{repository}-full-copy"}
    nodes = client.searchable_snapshots.cache_stats()["nodes"]
    assert [node["shared_cache"]["size_in_bytes"] > 0 for node in nodes.values()] == [True]

    def copied():
        total = client.searchable_snapshots.stats(index=f"{repository}-full-copy")["total"][0]
        return total["full_copy_in_bytes"] == total["total_size_in_bytes"] > 0

    eventually("the whole copy", copied)
    cleared = client.searchable_snapshots.clear_cache(index=f"{repository}-shared-cache")
    assert cleared["_shards"] == {"total": 2, "successful": 2, "failed": 0}
    holds_all(client, f"{repository}-*-cache")
    # A snapshot that is searched is still in use.
    client.indices.delete(index=f"{repository}-shared-cache,{repository}-full-copy")
    assert [one["snapshot"] for one in client.snapshot.get(repository=repository, snapshot="*")["snapshots"]] == ["one"]
    with pytest.raises(REFUSED):
        client.searchable_snapshots.stats(index=f"{repository}-*")


# As https://www.elastic.co/guide/en/elasticsearch/reference/8.17/example-using-index-lifecycle-policy.html has such.
EXAMPLE = {
    "phases": {
        "hot": {"actions": {"rollover": {"max_age": "24h", "max_primary_shard_size": "50gb"},
                            "forcemerge": {"max_num_segments": 1}}},
        "frozen": {"min_age": "1h", "actions": {"searchable_snapshot": {"snapshot_repository": "found-snapshots"}}},
        "delete": {"min_age": "60d", "actions": {"delete": {}}},
    }
}


def test_a_lifecycle_policy_is_kept_explained_and_removed(elastic):
    client, kind = elastic
    policy, index = f"policy-{kind}", f"managed-{kind}"
    own = named(client, "policy", policy)
    assert client.ilm.put_lifecycle(**own, body={"policy": EXAMPLE})["acknowledged"] is True
    kept = client.ilm.get_lifecycle(**own)[policy]
    assert kept["version"] == 1
    assert kept["policy"]["phases"]["hot"]["actions"] == EXAMPLE["phases"]["hot"]["actions"]
    assert kept["policy"]["phases"]["delete"]["min_age"] == "60d"

    client.indices.create(index=index, body={"settings": {"index.lifecycle.name": policy,
                                                          "index.lifecycle.rollover_alias": f"{index}-alias"}})
    client.indices.put_alias(index=index, name=f"{index}-alias")
    eventually("the first step",
               lambda: client.ilm.explain_lifecycle(index=index)["indices"][index].get("phase") == "hot")
    explained = client.ilm.explain_lifecycle(index=index)["indices"][index]
    assert (explained["managed"], explained["policy"]) == (True, policy)
    assert client.ilm.get_lifecycle(**own)[policy]["in_use_by"]["indices"] == [index]
    with pytest.raises(REFUSED, match="in use"):
        client.ilm.delete_lifecycle(**own)
    assert client.ilm.remove_policy(index=index)["has_failures"] is False
    assert client.ilm.explain_lifecycle(index=index)["indices"][index]["managed"] is False
    client.ilm.delete_lifecycle(**own)
    with pytest.raises(REFUSED) as refused:
        client.ilm.get_lifecycle(**own)
    assert "resource_not_found_exception" in str(refused.value)
    client.indices.delete(index=index)


def test_lifecycles_are_held_still(elastic):
    client, _ = elastic
    for part in (client.ilm, client.slm):
        part.stop()
        eventually("the stop", lambda: part.get_status()["operation_mode"] == "STOPPED")
        part.start()
        assert part.get_status()["operation_mode"] == "RUNNING"


def test_a_snapshot_policy_makes_a_snapshot_when_it_is_told_to(elastic, events):
    client, kind = elastic
    repository, policy = f"nightly-{kind}", f"nightly-{kind}"
    put_repository(client, repository)
    body = {"schedule": "0 30 1 * * ?", "name": f"<{kind}-{{now/d}}>", "repository": repository,
            "config": {"indices": [events], "include_global_state": False},
            "retention": {"expire_after": "30d", "min_count": 1, "max_count": 2}}
    client.slm.put_lifecycle(policy_id=policy, body=body)
    kept = client.slm.get_lifecycle(policy_id=policy)[policy]
    assert kept["policy"]["schedule"] == body["schedule"]
    assert kept["next_execution_millis"] > 0

    def snapshots():
        listed = client.snapshot.get(repository=repository, snapshot="*")["snapshots"]
        return [one["snapshot"] for one in listed if one["state"] == "SUCCESS"]

    made = []
    for count in range(1, 4):
        made.append(client.slm.execute_lifecycle(policy_id=policy)["snapshot_name"])
        eventually("the snapshot", lambda: len(snapshots()) == count)
        eventually("its record", lambda: client.slm.get_lifecycle(policy_id=policy)[policy].get("last_success", {})
                   .get("snapshot_name") == made[-1])
    assert sorted(snapshots()) == sorted(made)
    client.slm.execute_retention()
    eventually("the retention", lambda: len(snapshots()) == 2)
    assert made[0] not in snapshots(), "the oldest goes"
    stats = {one["policy"]: one for one in client.slm.get_stats()["policy_stats"]}[policy]
    assert (stats["snapshots_taken"], stats["snapshots_failed"]) == (3, 0)
    client.slm.delete_lifecycle(policy_id=policy)
    assert len(snapshots()) == 2, "its snapshots stay"


def test_a_search_is_asked_for_later(elastic, events):
    client, _ = elastic
    body = {"size": 0, "aggs": {"users": {"terms": {"field": "user", "size": 3}}}}
    begun = client.async_search.submit(index=events, keep_on_completion=True, keep_alive="1m",
                                       wait_for_completion_timeout="30s", body=body)
    status = client.async_search.status(id=begun["id"])
    assert (status["is_running"], status["completion_status"]) == (False, 200)
    answer = client.async_search.get(id=begun["id"])["response"]
    counts = [(bucket["key"], bucket["doc_count"]) for bucket in answer["aggregations"]["users"]["buckets"]]
    assert counts == [("u0", 43), ("u1", 43), ("u2", 43)]
    assert client.async_search.delete(id=begun["id"])["acknowledged"] is True
    with pytest.raises(REFUSED) as refused:
        client.async_search.get(id=begun["id"])
    assert "resource_not_found_exception" in str(refused.value)
