"""The official clients of Elasticsearch 7, 8 and 9 and of OpenSearch, unmodified."""

import datetime

import elasticsearch
import elasticsearch.helpers
import elasticsearch7
import elasticsearch7.helpers
import elasticsearch9
import elasticsearch9.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

CLIENTS = {
    "elasticsearch7": (lambda url: elasticsearch7.Elasticsearch(url), elasticsearch7),
    "elasticsearch8": (lambda url: elasticsearch.Elasticsearch(url), elasticsearch),
    "elasticsearch8-gzip": (lambda url: elasticsearch.Elasticsearch(url, http_compress=True), elasticsearch),
    "elasticsearch9": (lambda url: elasticsearch9.Elasticsearch(url), elasticsearch9),
    "opensearch": (lambda url: opensearchpy.OpenSearch(url), opensearchpy),
    "opensearch-gzip": (lambda url: opensearchpy.OpenSearch(url, http_compress=True), opensearchpy),
}
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)


@pytest.fixture(params=CLIENTS)
def connected(request, url):
    make, module = CLIENTS[request.param]
    return make(url), module, f"clients-{request.param}"


def search(client, index, **body):
    """`body=` is what all of them take (deprecated or not)."""
    if isinstance(client, (elasticsearch.Elasticsearch, elasticsearch9.Elasticsearch)):
        return client.search(index=index, **body)
    return client.search(index=index, body=body)


def events(index, count):
    for number in range(count):
        yield {
            "_index": index,
            "_source": {
                "@timestamp": (START + datetime.timedelta(minutes=number)).isoformat(),
                "tenant": f"t{number % 5}",
                "bytes": number,
                "message": f"request {number} was {'refused' if number % 10 == 0 else 'served'}",
            },
        }


def test_the_whole_round(connected):
    client, module, index = connected
    info = client.info()
    assert info["tagline"] == "You Know, for Search"
    assert client.ping()

    mappings = {"properties": {"@timestamp": {"type": "date"}, "tenant": {"type": "keyword"},
                               "bytes": {"type": "long"}, "message": {"type": "text"}}}
    if module in (elasticsearch, elasticsearch9):
        client.indices.create(index=index, mappings=mappings)
    else:
        client.indices.create(index=index, body={"mappings": mappings})
    assert client.indices.exists(index=index)

    indexed, errors = module.helpers.bulk(client, events(index, 1000), chunk_size=150)
    assert (indexed, errors) == (1000, [])
    client.indices.refresh(index=index)
    assert client.count(index=index)["count"] == 1000

    found = search(client, index, query={"bool": {"filter": [{"term": {"tenant": "t3"}}],
                                                  "must": [{"match": {"message": "refused served"}}]}},
                   sort=[{"bytes": "desc"}], size=3, track_total_hits=True)
    assert found["hits"]["total"] == {"value": 200, "relation": "eq"}
    assert [hit["_source"]["bytes"] for hit in found["hits"]["hits"]] == [998, 993, 988]

    answer = search(client, index, size=0, aggs={
        "hours": {"date_histogram": {"field": "@timestamp", "fixed_interval": "6h"},
                  "aggs": {"tenants": {"terms": {"field": "tenant"}, "aggs": {"sum": {"sum": {"field": "bytes"}}}}}},
        "distinct": {"cardinality": {"field": "tenant"}}})["aggregations"]
    assert [bucket["doc_count"] for bucket in answer["hours"]["buckets"]] == [360, 360, 280]
    assert answer["distinct"]["value"] == 5
    sums = [tenant["sum"]["value"] for bucket in answer["hours"]["buckets"] for tenant in bucket["tenants"]["buckets"]]
    assert sum(sums) == sum(range(1000))

    # Every page by search_after, every document once.
    seen, after = set(), None
    while True:
        page = search(client, index, size=130, sort=[{"@timestamp": "asc"}, {"bytes": "asc"}],
                      **({"search_after": after} if after else {}))["hits"]["hits"]
        if not page:
            break
        seen |= {hit["_id"] for hit in page}
        after = page[-1]["sort"]
    assert len(seen) == 1000


def test_documents_and_versions(connected):
    client, module, index = connected
    index += "-documents"
    write = (lambda **k: client.index(index=index, id="one", document=k.pop("doc"), **k)) \
        if module in (elasticsearch, elasticsearch9) else \
        (lambda **k: client.index(index=index, id="one", body=k.pop("doc"), **k))
    first = write(doc={"a": 1})
    assert (first["result"], first["_version"]) == ("created", 1)
    second = write(doc={"a": 2})
    assert (second["result"], second["_version"]) == ("updated", 2)
    with pytest.raises(Exception) as raised:
        write(doc={"a": 3}, if_seq_no=first["_seq_no"], if_primary_term=first["_primary_term"])
    assert "version_conflict_engine_exception" in str(raised.value)
    assert client.get(index=index, id="one")["_source"] == {"a": 2}
    if module in (elasticsearch, elasticsearch9):
        updated = client.update(index=index, id="one", doc={"b": [1, 2]})
        noop = client.update(index=index, id="one", doc={"b": [1, 2]})
    else:
        updated = client.update(index=index, id="one", body={"doc": {"b": [1, 2]}})
        noop = client.update(index=index, id="one", body={"doc": {"b": [1, 2]}})
    assert (updated["result"], noop["result"]) == ("updated", "noop")
    assert client.delete(index=index, id="one")["result"] == "deleted"
    assert not client.exists(index=index, id="one")
    with pytest.raises(Exception) as raised:
        client.get(index=f"{index}-missing", id="one")
    assert "index_not_found_exception" in str(raised.value)


def test_deletes_by_query(connected):
    client, module, index = connected
    index += "-by-query"
    indexed, errors = module.helpers.bulk(client, events(index, 100), refresh=True)
    assert (indexed, errors) == (100, [])
    query = {"prefix": {"tenant": "t4"}}
    asked = {"query": query} if module in (elasticsearch, elasticsearch9) else {"body": {"query": query}}
    answer = client.delete_by_query(index=index, **asked, conflicts="proceed", refresh=True, slices="auto", scroll_size=7)
    assert (answer["total"], answer["deleted"], answer["batches"], answer["failures"]) == (20, 20, 3, [])
    assert client.count(index=index)["count"] == 80
    task = client.delete_by_query(index=index, q="tenant:t0", wait_for_completion=False, refresh=True,
                                  **({} if module in (elasticsearch, elasticsearch9) else {"body": {}}))["task"]
    done = client.tasks.get(task_id=task, wait_for_completion=True)
    assert (done["completed"], done["response"]["deleted"]) == (True, 20)
    assert client.count(index=index)["count"] == 60
    with pytest.raises(Exception) as raised:
        client.delete_by_query(index=f"{index}-missing", **asked)
    assert "index_not_found_exception" in str(raised.value)


def test_bulk_reports_each_item(connected):
    client, module, index = connected
    index += "-items"
    operations = [
        {"index": {"_index": index, "_id": "a"}}, {"n": 1},
        {"create": {"_index": index, "_id": "a"}}, {"n": 2},
        {"update": {"_index": index, "_id": "a"}}, {"doc": {"n": 3}},
        {"delete": {"_index": index, "_id": "missing"}},
    ]
    if module in (elasticsearch, elasticsearch9):
        answer = client.bulk(operations=operations, refresh=True)
    else:
        answer = client.bulk(body=operations, refresh=True)
    statuses = [next(iter(item.values()))["status"] for item in answer["items"]]
    assert answer["errors"] and statuses == [201, 409, 200, 404]
    assert search(client, index, query={"term": {"n": 3}})["hits"]["total"]["value"] == 1


def test_data_stream_and_rollover(connected):
    client, module, index = connected
    stream = f"{index}-stream"
    template = {"index_patterns": [f"{stream}*"], "data_stream": {}, "priority": 300,
                "template": {"mappings": {"properties": {"kind": {"type": "keyword"}}}}}
    if module in (elasticsearch, elasticsearch9):
        client.indices.put_index_template(name=stream, **template)
    else:
        client.indices.put_index_template(name=stream, body=template)
    actions = [{"_op_type": "create", "_index": stream, "@timestamp": START.isoformat(), "kind": "x"}] * 5
    indexed, _ = module.helpers.bulk(client, [dict(action) for action in actions], refresh=True)
    assert indexed == 5
    rolled = client.indices.rollover(alias=stream)
    assert rolled["rolled_over"] and rolled["new_index"].endswith("-000002")
    module.helpers.bulk(client, [dict(action) for action in actions], refresh=True)
    assert client.count(index=stream)["count"] == 10
    streams = client.indices.get_data_stream(name=stream)["data_streams"]
    assert [len(found["indices"]) for found in streams] == [2]


def test_refusals_name_themselves(connected):
    client, _, index = connected
    with pytest.raises(Exception) as raised:
        search(client, "_all", query={"percolate": {"field": "q"}})
    assert "percolate" in str(raised.value)
