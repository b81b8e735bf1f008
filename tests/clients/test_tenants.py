"""What a tenant does with its key, through the official clients: the quick start of docs/operate/tenants.md."""

import datetime

import elasticsearch
import elasticsearch.helpers
import elasticsearch9
import opensearchpy
import pytest

from conftest import OPERATOR

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)


@pytest.fixture(scope="module")
def operator(secure_url):
    client = elasticsearch.Elasticsearch(secure_url, basic_auth=OPERATOR)
    client.indices.put_index_template(
        name="tenant-events",
        index_patterns=["tenant-events*"],
        data_stream={},
        priority=200,
        template={
            "settings": {"index.tenant.field": "tenant"},
            "mappings": {"properties": {
                "@timestamp": {"type": "date"}, "tenant": {"type": "keyword"}, "bytes": {"type": "long"},
            }},
        },
    )
    for tenant in ("acme", "other"):
        json = {"content-type": "application/json", "accept": "application/json"}
        client.perform_request("PUT", f"/_firn/tenants/{tenant}", headers=json, body={})
    return client


def make_key(client, name, **more):
    return client.security.create_api_key(name=name, **more)["encoded"]


@pytest.fixture(scope="module")
def acme(secure_url, operator):
    """The tenant's own client: a key that its admin has made."""
    operator.security.put_user(
        username="acme-admin", password="correct horse", roles=["tenant_admin"], metadata={"tenant": "acme"},
    )
    admin = elasticsearch.Elasticsearch(secure_url, basic_auth=("acme-admin", "correct horse"))
    return elasticsearch.Elasticsearch(secure_url, api_key=make_key(admin, "acme"))


@pytest.fixture(scope="module")
def other(secure_url, operator):
    """Another one's: a key that the operator has made for it."""
    key = make_key(operator, "other", metadata={"tenant": "other"})
    return elasticsearch.Elasticsearch(secure_url, api_key=key)


def events(count, index="tenant-events"):
    for number in range(count):
        yield {
            "_op_type": "create",
            "_index": index,
            "_source": {
                "@timestamp": (START + datetime.timedelta(minutes=number)).isoformat(),
                "bytes": number,
                "message": f"event {number}",
            },
        }


def test_tenants_write_and_search_their_own_events(operator, acme, other):
    assert acme.info()["tagline"] == "You Know, for Search"
    me = acme.security.authenticate()
    assert me["authentication_type"] == "api_key"
    assert me["metadata"]["tenant"] == "acme"

    elasticsearch.helpers.bulk(acme, events(100), refresh="true")
    elasticsearch.helpers.bulk(other, events(30), refresh="true")
    assert acme.count(index="tenant-events")["count"] == 100
    assert other.count(index="*")["count"] == 30
    assert operator.count(index="tenant-events")["count"] == 130

    found = acme.search(
        index="tenant-events", size=10, sort=[{"bytes": "desc"}],
        aggs={"whose": {"terms": {"field": "tenant"}}, "bytes": {"sum": {"field": "bytes"}}},
    )
    assert [hit["_source"]["bytes"] for hit in found["hits"]["hits"][:2]] == [99, 98]
    assert {hit["_source"]["tenant"] for hit in found["hits"]["hits"]} == {"acme"}
    whose = found["aggregations"]["whose"]["buckets"]
    assert [(bucket["key"], bucket["doc_count"]) for bucket in whose] == [("acme", 100)]
    assert sum(1 for _ in elasticsearch.helpers.scan(other, index="tenant-events")) == 30


def test_events_of_another_tenant_are_refused(acme):
    forged = {"@timestamp": START.isoformat(), "tenant": "other", "message": "forged"}
    with pytest.raises(elasticsearch.ApiError) as refused:
        acme.index(index="tenant-events", op_type="create", document=forged)
    assert refused.value.status_code == 403


def test_what_only_operators_do_is_refused(acme):
    for ask in (
        lambda: acme.cluster.put_settings(persistent={}),
        lambda: acme.indices.put_index_template(name="x", index_patterns=["*"]),
        lambda: acme.nodes.stats(),
        lambda: acme.security.put_role(name="x", cluster=["all"]),
        lambda: acme.security.create_api_key(name="child"),
    ):
        with pytest.raises((elasticsearch.AuthorizationException, elasticsearch.BadRequestError)):
            ask()


def test_a_key_with_rights_of_its_own_ends_when_it_is_invalidated(secure_url, operator):
    made = operator.security.create_api_key(
        name="read only", expiration="1d", metadata={"tenant": "acme"},
        role_descriptors={"r": {"indices": [{"names": ["tenant-events"], "privileges": ["read"]}]}},
    )
    reader = elasticsearch.Elasticsearch(secure_url, api_key=(made["id"], made["api_key"]))
    assert reader.search(index="tenant-events", size=0)["timed_out"] is False
    with pytest.raises(elasticsearch.AuthorizationException):
        reader.index(index="tenant-events", op_type="create", document={"@timestamp": START.isoformat()})
    listed = operator.security.get_api_key(id=made["id"])["api_keys"][0]
    assert listed["name"] == "read only" and not listed["invalidated"]
    assert operator.security.invalidate_api_key(ids=[made["id"]])["error_count"] == 0
    with pytest.raises(elasticsearch.AuthenticationException):
        reader.search(index="tenant-events")


def test_other_clients_sign_in_too(secure_url, acme, operator):
    key = make_key(operator, "nine", metadata={"tenant": "acme"})
    nine = elasticsearch9.Elasticsearch(secure_url, api_key=key)
    assert nine.security.authenticate()["username"] == "elastic"
    opensearch = opensearchpy.OpenSearch(secure_url, http_auth=("acme-admin", "correct horse"))
    assert opensearch.count(index="tenant-events")["count"] >= 0
    anonymous = elasticsearch.Elasticsearch(secure_url)
    with pytest.raises(elasticsearch.AuthenticationException):
        anonymous.info()
