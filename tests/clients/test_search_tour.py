"""All ways to ask, by the clients' own helpers: Elasticsearch 8 and 9, and OpenSearch."""

import datetime

import elasticsearch
import elasticsearch.helpers
import elasticsearch9
import elasticsearch9.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

MODULES = {"elasticsearch8": elasticsearch, "elasticsearch9": elasticsearch9, "opensearch": opensearchpy}
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
COUNT = 600
WORDS = ["quick", "brown", "fox", "lazy", "dog"]


class Tour:
    """One client with its own index; `ask` hides how the two families pass a body."""

    def __init__(self, name, url):
        self.module = MODULES[name]
        self.is_opensearch = name == "opensearch"
        make = self.module.OpenSearch if self.is_opensearch else self.module.Elasticsearch
        self.client = make(url)
        self.index = f"tour-{name}"

    def call(self, api, **body):
        """Calls an API whose parameters beside `index` are members of the body."""
        if self.is_opensearch:
            return api(index=self.index, body=body)
        return api(index=self.index, **body)

    def ask(self, **body):
        return self.call(self.client.search, **body)

    def ids(self, query, **more):
        """The `number` of each hit, ascending."""
        hits = self.ask(query=query, size=COUNT, sort=[{"number": "asc"}], **more)["hits"]["hits"]
        return [hit["_source"]["number"] for hit in hits]

    def aggregate(self, **aggregations):
        return self.ask(size=0, aggs=aggregations)["aggregations"]


def events(index):
    for number in range(COUNT):
        yield {
            "_index": index,
            "_id": str(number),
            "_source": {
                "@timestamp": (START + datetime.timedelta(hours=number)).isoformat(),
                "number": number,
                "tenant": f"t{number % 6}",
                "size": number * 1.5,
                "ip": f"10.0.{number % 4}.{number % 200}",
                "ok": number % 3 == 0,
                "message": " ".join(WORDS[(number + step) % 5] for step in range(3)) + (" timeout" if number % 50 == 0 else ""),
            },
        }


@pytest.fixture(scope="module", params=MODULES)
def tour(request, url):
    tour = Tour(request.param, url)
    mappings = {"properties": {
        "@timestamp": {"type": "date"}, "number": {"type": "long"}, "tenant": {"type": "keyword"}, "size": {"type": "double"},
        "ip": {"type": "ip"}, "ok": {"type": "boolean"}, "message": {"type": "text", "fields": {"raw": {"type": "keyword"}}}}}
    tour.call(tour.client.indices.create, mappings=mappings, settings={"number_of_shards": 3, "number_of_replicas": 0})
    indexed, errors = tour.module.helpers.bulk(tour.client, events(tour.index), chunk_size=250, refresh=True)
    assert (indexed, errors) == (COUNT, [])
    return tour


TIMEOUTS = list(range(0, COUNT, 50))
QUERIES = [
    ({"term": {"number": 7}}, [7]),
    ({"terms": {"_id": ["1", "5", "none"]}}, [1, 5]),
    ({"ids": {"values": ["3", "4"]}}, [3, 4]),
    ({"range": {"@timestamp": {"gte": "2026-03-02", "lt": "2026-03-02||+3h"}}}, [24, 25, 26]),
    ({"range": {"number": {"gt": 597}}}, [598, 599]),
    ({"match": {"message": "timeout"}}, TIMEOUTS),
    ({"match": {"message": {"query": "timeuot", "fuzziness": "AUTO"}}}, TIMEOUTS),
    ({"match_phrase": {"message": "dog quick brown timeout"}}, []),
    ({"match_phrase": {"message": {"query": "fox timeout", "slop": 0}}}, TIMEOUTS),
    ({"match_phrase_prefix": {"message": "fox timeo"}}, TIMEOUTS),
    ({"match_bool_prefix": {"message": "timeout"}}, TIMEOUTS),
    ({"multi_match": {"query": "timeout", "fields": ["message", "tenant"]}}, TIMEOUTS),
    ({"query_string": {"query": "message:timeout AND number:[0 TO 100]"}}, [0, 50, 100]),
    ({"simple_query_string": {"query": "timeout + quick", "fields": ["message"]}}, TIMEOUTS),
    ({"prefix": {"message": {"value": "timeo"}}}, TIMEOUTS),
    ({"wildcard": {"message.raw": {"value": "*time?ut"}}}, TIMEOUTS),
    ({"regexp": {"message": {"value": "time[a-z]+"}}}, TIMEOUTS),
    ({"fuzzy": {"message": {"value": "timeou"}}}, TIMEOUTS),
    ({"exists": {"field": "nothing"}}, []),
    ({"term": {"ip": "10.0.3.0/31"}}, []),
    ({"dis_max": {"queries": [{"term": {"number": 1}}, {"term": {"number": 2}}]}}, [1, 2]),
    ({"boosting": {"positive": {"term": {"number": 1}}, "negative": {"term": {"ok": True}}, "negative_boost": 0.5}}, [1]),
    ({"constant_score": {"filter": {"term": {"number": 9}}}}, [9]),
    ({"bool": {"filter": [{"term": {"tenant": "t0"}}], "must_not": [{"range": {"number": {"gt": 12}}}]}}, [0, 6, 12]),
    ({"bool": {"should": [{"term": {"number": 1}}, {"term": {"tenant": "t1"}}], "minimum_should_match": 2}}, [1]),
]


@pytest.mark.parametrize("query, expected", QUERIES, ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_queries(tour, query, expected):
    assert tour.ids(query) == expected
    assert tour.call(tour.client.count, query=query)["count"] == len(expected)
    assert tour.call(tour.client.indices.validate_query, query=query)["valid"]


def test_every_hit_by_scan_and_scroll(tour):
    scan = tour.module.helpers.scan(tour.client, index=tour.index, query={"query": {"term": {"ok": True}}}, size=30)
    assert sorted(hit["_source"]["number"] for hit in scan) == list(range(0, COUNT, 3))

    page = tour.client.search(index=tour.index, scroll="1m", size=250,
                              **({"body": {"sort": ["number"]}} if tour.is_opensearch else {"sort": ["number"]}))
    seen = []
    while page["hits"]["hits"]:
        seen += [hit["_source"]["number"] for hit in page["hits"]["hits"]]
        page = tour.client.scroll(scroll_id=page["_scroll_id"], scroll="1m")
    assert seen == list(range(COUNT))
    assert tour.client.clear_scroll(scroll_id=page["_scroll_id"])["succeeded"]
    with pytest.raises(tour.module.NotFoundError):
        tour.client.scroll(scroll_id=page["_scroll_id"])


def test_a_point_in_time_stands_still(tour):
    client = tour.client
    if tour.is_opensearch:
        identifier = client.create_pit(index=tour.index, keep_alive="1m")["pit_id"]
    else:
        identifier = client.open_point_in_time(index=tour.index, keep_alive="1m")["id"]
    client.index(index=tour.index, id="new", refresh=True, **{"body" if tour.is_opensearch else "document": {"number": 10_000}})
    try:
        seen, after = [], None
        while True:
            body = {"size": 170, "sort": [{"number": "desc"}], "pit": {"id": identifier, "keep_alive": "1m"}}
            if after:
                body["search_after"] = after
            page = client.search(body=body) if tour.is_opensearch else client.search(**body)
            if not page["hits"]["hits"]:
                break
            seen += [hit["_source"]["number"] for hit in page["hits"]["hits"]]
            after = page["hits"]["hits"][-1]["sort"]
        assert seen == list(reversed(range(COUNT)))
        slices = []
        for number in range(2):
            body = {"size": COUNT, "pit": {"id": identifier}, "slice": {"id": number, "max": 2}}
            page = client.search(body=body) if tour.is_opensearch else client.search(**body)
            slices += [hit["_id"] for hit in page["hits"]["hits"]]
        assert sorted(slices, key=int) == [str(number) for number in range(COUNT)]
    finally:
        client.delete(index=tour.index, id="new", refresh=True)
        if tour.is_opensearch:
            assert client.delete_pit(body={"pit_id": [identifier]})["pits"][0]["successful"]
        else:
            assert client.close_point_in_time(id=identifier)["succeeded"]
    with pytest.raises(tour.module.NotFoundError):
        body = {"pit": {"id": identifier}}
        client.search(body=body) if tour.is_opensearch else client.search(**body)


def test_many_searches_at_once(tour):
    lines = [{}, {"query": {"match_all": {}}, "size": 0}, {}, {"sort": ["nothing"]}, {"index": "missing"}, {"size": 1}]
    if tour.is_opensearch:
        answers = tour.client.msearch(index=tour.index, body=lines)["responses"]
    else:
        answers = tour.client.msearch(index=tour.index, searches=lines)["responses"]
    assert [answer["status"] for answer in answers] == [200, 400, 404]
    assert answers[0]["hits"]["total"]["value"] == COUNT
    found = tour.call(tour.client.mget, ids=["0", "none"])["docs"]
    assert [document["found"] for document in found] == [True, False]


def test_what_hits_show(tour):
    found = tour.ask(
        query={"match": {"message": {"query": "timeout", "_name": "by-word"}}}, size=2, sort=[{"number": "desc"}],
        highlight={"fields": {"message": {}}}, fields=["tenant", {"field": "@timestamp", "format": "yyyy-MM-dd"}],
        docvalue_fields=["size"], **{"_source": {"includes": ["num*"]}}, profile=True)
    first = found["hits"]["hits"][0]
    assert first["_source"] == {"number": 550}
    assert first["fields"]["tenant"] == ["t4"] and first["fields"]["@timestamp"] == ["2026-03-23"]
    assert first["fields"]["size"] == [825.0]
    assert "<em>timeout</em>" in first["highlight"]["message"][0]
    assert first["matched_queries"] == ["by-word"]
    assert found["profile"]["shards"]

    collapsed = tour.ask(collapse={"field": "tenant", "inner_hits": {"name": "newest", "size": 1, "sort": [{"number": "desc"}]}},
                         sort=[{"number": "asc"}], size=3)["hits"]["hits"]
    assert [hit["fields"]["tenant"] for hit in collapsed] == [["t0"], ["t1"], ["t2"]]
    newest = collapsed[0]["inner_hits"]["newest"]["hits"]["hits"]
    assert newest[0]["_source"]["number"] == 594

    narrowed = tour.ask(size=1, post_filter={"term": {"tenant": "t1"}}, aggs={"all": {"terms": {"field": "tenant"}}})
    assert narrowed["hits"]["total"]["value"] == 100
    assert len(narrowed["aggregations"]["all"]["buckets"]) == 6

    early = tour.ask(size=0, terminate_after=1, track_total_hits=True)
    assert early["terminated_early"] is True
    some = tour.ask(size=0, track_total_hits=10)
    assert some["hits"]["total"] == {"value": 10, "relation": "gte"}


def test_fields_and_terms(tour):
    fields = tour.client.field_caps(index=tour.index, fields="*")["fields"]
    assert fields["tenant"]["keyword"]["aggregatable"] and not fields["message"]["text"]["aggregatable"]
    if not tour.is_opensearch:
        assert tour.client.terms_enum(index=tour.index, field="tenant", string="t", size=3)["terms"] == ["t0", "t1", "t2"]


def test_bucket_aggregations(tour):
    answer = tour.aggregate(
        days={"date_histogram": {"field": "@timestamp", "calendar_interval": "week", "time_zone": "Europe/Berlin"},
              "aggs": {"tenants": {"terms": {"field": "tenant", "size": 2}}}},
        auto={"auto_date_histogram": {"field": "@timestamp", "buckets": 5}},
        steps={"histogram": {"field": "number", "interval": 100}},
        parts={"range": {"field": "number", "ranges": [{"to": 10}, {"from": 10, "to": 20, "key": "teens"}]}},
        times={"date_range": {"field": "@timestamp", "ranges": [{"from": "2026-03-02"}]}},
        nets={"ip_range": {"field": "ip", "ranges": [{"mask": "10.0.1.0/24"}]}},
        named={"filters": {"filters": {"ok": {"term": {"ok": True}}}, "other_bucket_key": "rest"}},
        without={"missing": {"field": "nothing"}},
        every={"global": {}},
        few={"rare_terms": {"field": "tenant"}},
        pairs={"multi_terms": {"terms": [{"field": "tenant"}, {"field": "ok"}], "size": 3}},
        odd={"significant_terms": {"field": "tenant", "min_doc_count": 1}},
        some={"sampler": {"shard_size": 1000}, "aggs": {"t": {"terms": {"field": "tenant"}}}},
    )
    counts = lambda name: [bucket["doc_count"] for bucket in answer[name]["buckets"]]
    assert sum(counts("days")) == COUNT and len(counts("days")) == 5
    assert len(answer["days"]["buckets"][0]["tenants"]["buckets"]) == 2
    assert sum(counts("auto")) == COUNT and len(counts("auto")) <= 5
    assert counts("steps") == [100] * 6
    assert counts("parts") == [10, 10] and answer["parts"]["buckets"][1]["key"] == "teens"
    assert counts("times") == [COUNT - 24]
    assert counts("nets") == [150]
    assert answer["named"]["buckets"]["ok"]["doc_count"] == 200 and answer["named"]["buckets"]["rest"]["doc_count"] == 400
    assert answer["without"]["doc_count"] == answer["every"]["doc_count"] == COUNT
    assert counts("few") == []
    assert counts("pairs") == [100, 100, 100]
    assert answer["odd"]["bg_count"] == answer["some"]["doc_count"] == COUNT


def test_composite_pages(tour):
    seen, after = [], None
    while True:
        composite = {"size": 4, "sources": [{"tenant": {"terms": {"field": "tenant"}}}, {"ok": {"terms": {"field": "ok"}}}]}
        if after:
            composite["after"] = after
        page = tour.aggregate(all={"composite": composite})["all"]
        seen += [(bucket["key"]["tenant"], bucket["key"]["ok"], bucket["doc_count"]) for bucket in page["buckets"]]
        if "after_key" not in page:
            break
        after = page["after_key"]
    assert seen == [(f"t{number}", number % 3 == 0, 100) for number in range(6)]


def test_metrics_and_pipelines(tour):
    answer = tour.aggregate(
        stats={"extended_stats": {"field": "number"}},
        ranks={"percentile_ranks": {"field": "number", "values": [299.5]}},
        middle={"percentiles": {"field": "number", "percents": [50]}},
        distinct={"cardinality": {"field": "ip"}},
        top={"top_hits": {"size": 1, "sort": [{"number": "desc"}]}},
        series={"histogram": {"field": "number", "interval": 100},
                "aggs": {"sum": {"sum": {"field": "size"}},
                         "up": {"cumulative_sum": {"buckets_path": "sum"}},
                         "change": {"derivative": {"buckets_path": "sum"}},
                         "double": {"bucket_script": {"buckets_path": {"s": "sum"}, "script": "params.s * 2"}},
                         "moving": {"moving_fn": {"buckets_path": "sum", "window": 2, "script": "MovingFunctions.max(values)"}}}},
        best={"max_bucket": {"buckets_path": "series>sum"}},
    )
    assert answer["stats"]["avg"] == 299.5 and answer["stats"]["count"] == COUNT
    assert 45 < answer["ranks"]["values"]["299.5"] < 55
    assert 295 < answer["middle"]["values"]["50.0"] < 305
    assert answer["distinct"]["value"] == 200
    assert answer["top"]["hits"]["hits"][0]["_source"]["number"] == 599
    sums = [bucket["sum"]["value"] for bucket in answer["series"]["buckets"]]
    assert answer["series"]["buckets"][-1]["up"]["value"] == sum(sums)
    assert answer["series"]["buckets"][1]["change"]["value"] == sums[1] - sums[0]
    assert answer["series"]["buckets"][2]["double"]["value"] == 2 * sums[2]
    assert answer["best"]["value"] == max(sums)
    if not tour.is_opensearch:
        # Those that OpenSearch's clients know nothing of.
        more = tour.aggregate(
            box={"boxplot": {"field": "number"}},
            letters={"string_stats": {"field": "tenant"}},
            last={"top_metrics": {"metrics": {"field": "size"}, "sort": {"number": "desc"}}},
            weighed={"weighted_avg": {"value": {"field": "size"}, "weight": {"field": "number"}}})
        assert more["box"]["max"] == 599 and more["letters"]["count"] == COUNT
        assert more["last"]["top"][0]["metrics"]["size"] == 898.5


def test_errors_have_their_types(tour):
    errors = tour.module
    with pytest.raises(errors.NotFoundError) as raised:
        tour.client.search(index="never-made")
    assert "index_not_found_exception" in str(raised.value)
    for body, words in [
        ({"query": {"guess": {}}}, "guess"),
        ({"size": 1_000_000}, "10000"),
        ({"sort": ["message"]}, "Fielddata is disabled"),
        ({"query": {"range": {"@timestamp": {"gte": "not a date"}}}}, "not a date"),
        ({"query": {"regexp": {"message": "(("}}}, ""),
        ({"aggs": {"a": {"terms": {"field": "message"}}}}, "Fielddata is disabled"),
        ({"aggs": {"a": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1ms"}}}}, "max_buckets"),
    ]:
        with pytest.raises(errors.RequestError if tour.is_opensearch else errors.BadRequestError) as raised:
            tour.ask(**body)
        assert words in str(raised.value.info if tour.is_opensearch else raised.value.body)
