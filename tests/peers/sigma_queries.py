"""Sigma rules on firn, and the same rules as queries on OpenSearch, over the same Windows events.

pySigma translates each rule to a Lucene query (its backend for OpenSearch, its pipelines for Windows and Sysmon). OpenSearch runs the
queries over the events, `firn detect run` evaluates the rules on them, and the script compares the pairs of rule and event. Of each
pair that differs, a plain interpreter of pySigma's own syntax tree says what the rule asks for, without an index and without a query.

    sigma_queries.py --firn target/debug/firn --url http://127.0.0.1:9200 --rules DIR… --events FILE.ndjson.gz

Exits with 1 if a pair differs for a reason that is not known.
"""

import argparse
import collections
import gzip
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

from sigma.backends.opensearch import OpensearchLuceneBackend
from sigma.collection import SigmaCollection
from sigma.conditions import ConditionAND, ConditionFieldEqualsValueExpression, ConditionNOT, ConditionOR
from sigma.exceptions import SigmaFeatureNotSupportedByBackendError, SigmaPlaceholderError, SigmaTransformationError
from sigma.pipelines.sysmon import sysmon_pipeline
from sigma.pipelines.windows import windows_audit_pipeline, windows_logsource_pipeline
from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
from sigma.processing.transformations import FieldMappingTransformation
from sigma.types import (
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaFieldReference,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaString,
    SpecialChars,
)

INDEX = "firn-sigma-peer"
# Longer values do not fit into a term of Lucene.
TERM_BYTES_MAX = 8_000
BUSY_RETRIES = 60
# Events with the fields of Windows' audit: (event id, categories of rules that pySigma's pipeline maps to it).
AUDIT = {"4688", "4657"}


def pipelines():
    """The pipelines by which a rule becomes queries: its own log source, and Windows' audit in its place."""
    # The events name the provider so; pySigma leaves the name of the field to its user.
    names = ProcessingPipeline(
        name="names of the events",
        priority=50,
        items=[ProcessingItem(transformation=FieldMappingTransformation({"Provider_Name": "SourceName"}))],
    )
    own = sysmon_pipeline() + windows_logsource_pipeline() + names
    audit = windows_audit_pipeline() + windows_logsource_pipeline() + names
    return [("own", own), ("audit", audit)]


class Search:
    """OpenSearch behind a URL."""

    def __init__(self, url):
        self.url = url

    def call(self, method, path, body=None, content_type="application/json"):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers={"content-type": content_type})
        for attempt in range(BUSY_RETRIES + 1):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                # A small heap is full until the next collection.
                if error.code != 429 or attempt == BUSY_RETRIES:
                    raise
                time.sleep(1)

    def index_events(self, events):
        """Indexes the events under the numbers of their lines. Case is ignored, and all values are compared as text."""
        names, long_names = set(), set()
        for event in events:
            for name, value in event.items():
                names.add(name)
                if any(len(str(one).encode()) > TERM_BYTES_MAX for one in values(event, name)):
                    long_names.add(name)
        try:
            self.call("DELETE", f"/{INDEX}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        of = {False: {"type": "keyword", "normalizer": "lower"}, True: {"type": "wildcard", "normalizer": "lower"}}
        self.call(
            "PUT",
            f"/{INDEX}",
            {
                "settings": {
                    "number_of_replicas": 0,
                    "refresh_interval": -1,
                    "index.max_result_window": 1_000_000,
                    "index.mapping.total_fields.limit": 5_000,
                    "analysis": {"normalizer": {"lower": {"type": "custom", "filter": ["lowercase"]}}},
                },
                "mappings": {"dynamic": "strict", "properties": {name: of[name in long_names] for name in sorted(names)}},
            },
        )
        for start in range(0, len(events), 500):
            lines = []
            for number, event in enumerate(events[start : start + 500], start):
                present = {name: value for name, value in event.items() if value is not None}
                lines.append(json.dumps({"index": {"_id": str(number)}}))
                lines.append(json.dumps({name: stored(value) for name, value in present.items()}))
            answer = self.call("POST", f"/{INDEX}/_bulk", ("\n".join(lines) + "\n").encode(), "application/x-ndjson")
            if answer["errors"]:
                failed = next(item for item in answer["items"] if "error" in item["index"])
                raise SystemExit(f"OpenSearch refuses an event: {failed}")
        self.call("POST", f"/{INDEX}/_refresh")

    def matches(self, query):
        """Numbers of the events that a query finds."""
        body = {
            "query": {"query_string": {"query": query, "analyze_wildcard": True}},
            "_source": False,
            "size": 200_000,
            "sort": ["_doc"],
        }
        return {int(hit["_id"]) for hit in self.call("POST", f"/{INDEX}/_search", body)["hits"]["hits"]}


def stored(value):
    """Numbers and booleans as the text that the event has."""
    if isinstance(value, list):
        return [stored(one) for one in value]
    return value if isinstance(value, str) else json.dumps(value)


def values(event, name):
    value = event.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]


# What a rule asks for, without a query.


def holds(node, event):
    """Whether a condition of pySigma's syntax tree holds for an event."""
    if isinstance(node, ConditionAND):
        return all(holds(one, event) for one in node.args)
    if isinstance(node, ConditionOR):
        return any(holds(one, event) for one in node.args)
    if isinstance(node, ConditionNOT):
        return not holds(node.args[0], event)
    if isinstance(node, ConditionFieldEqualsValueExpression):
        found = values(event, node.field)
        if isinstance(node.value, SigmaNull):
            return not found
        if isinstance(node.value, SigmaExists):
            return bool(found) == bool(node.value)
        if isinstance(node.value, SigmaFieldReference):
            others = [str(one).lower() for one in values(event, node.value.field)]
            return any(refers(node.value, str(one).lower(), other) for one in found for other in others)
        return any(passes(node.value, stored(one)) for one in found)
    # Keywords: the text is somewhere in the event.
    texts = [one for name in event for one in values(event, name) if isinstance(one, str)]
    return any(passes(node.value, one, part=True) for one in texts)


def refers(reference, one, other):
    if reference.starts_with and reference.ends_with:
        return other in one
    if reference.starts_with:
        return one.startswith(other)
    return one.endswith(other) if reference.ends_with else one == other


def passes(value, text, part=False):
    if isinstance(value, SigmaExpansion):
        return any(passes(one, text, part) for one in value.values)
    if isinstance(value, SigmaNumber):
        return number(text) == float(value.number) if not part else str(value.number) in text
    if isinstance(value, SigmaBool):
        return text.lower() == str(value.boolean).lower()
    if isinstance(value, SigmaCompareExpression):
        found, operator = number(text), value.op.name
        wanted = float(value.number.number)
        return found is not None and {"LT": found < wanted, "LTE": found <= wanted, "GT": found > wanted, "GTE": found >= wanted}[operator]
    if isinstance(value, SigmaCIDRExpression):
        try:
            return ipaddress.ip_address(text) in value.network
        except ValueError:
            return False
    if isinstance(value, SigmaRegularExpression):
        flags = 0
        for flag in value.flags:
            flags |= {"IGNORECASE": re.I, "MULTILINE": re.M, "DOTALL": re.S}[flag.name]
        # pySigma keeps the pattern as the rule has it, as a text.
        return re.search(str(value.regexp), text, flags) is not None
    if isinstance(value, SigmaString):
        parts = (
            ".*" if one == SpecialChars.WILDCARD_MULTI else "." if one == SpecialChars.WILDCARD_SINGLE else re.escape(one)
            for one in value.s
        )
        pattern, flags = "".join(parts), re.S if isinstance(value, SigmaCasedString) else re.S | re.I
        return re.search(pattern, text, flags) is not None if part else re.fullmatch(pattern, text, flags) is not None
    raise TypeError(f"values of the type {type(value).__name__}")


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


class Rule:
    """A rule with its translations."""

    def __init__(self, identifier, path):
        self.id = identifier
        self.path = path
        self.queries = []
        self.is_translated = True
        # The conditions of the translations, as pySigma's pipelines leave them.
        self.conditions = []
        self.text = path.read_text()

    def matches(self, search, events, failures):
        """Numbers of the events that the queries find; by the interpreter if there is no query for the rule."""
        if self.is_translated:
            try:
                return set().union(*(search.matches(query) for query in self.queries))
            except urllib.error.HTTPError as error:
                failures[json.load(error)["error"]["root_cause"][0]["reason"][:90]].append(self.id)
                self.is_translated = False
        return {number for number, event in enumerate(events) if self.asks_for(event)}

    def asks_for(self, event):
        return any(holds(condition, event) for condition in self.conditions)


def translate(path, failures):
    """Returns the rule of a file with its queries; None if pySigma has none."""
    rule = None
    for name, pipeline in pipelines():
        collection = SigmaCollection.from_yaml(path.read_text())
        parsed = collection.rules[0]
        categories = {"process_creation", "registry_event", "registry_set", "registry_add"}
        if name == "audit" and parsed.logsource.category not in categories:
            continue
        rule = rule or Rule(str(parsed.id), path)
        try:
            backend = OpensearchLuceneBackend(processing_pipeline=pipeline)
            rule.queries.extend(backend.convert(collection))
            rule.conditions.extend(condition.parsed for condition in parsed.detection.parsed_condition)
        except (SigmaFeatureNotSupportedByBackendError, SigmaPlaceholderError) as error:
            # The pipelines were applied before.
            failures[str(error).split("\n")[0][:90]].append(rule.id)
            rule.is_translated = False
            rule.conditions.extend(condition.parsed for condition in parsed.detection.parsed_condition)
        except SigmaTransformationError:
            # A field that audit events lack: the translation of the rule's own log source stays.
            assert name == "audit", path
    return rule


def by_firn(firn, rules, events):
    """Pairs of rule and event that firn finds, and the ids of the rules that it does not evaluate."""
    paths = [str(path) for path in rules]
    run = subprocess.run([firn, "detect", "run", "--rules", *paths, "--pack", "windows", "--events", str(events)], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"firn detect run: {run.stderr[-2000:]}")
    found = collections.defaultdict(set)
    for line in run.stdout.splitlines():
        match = json.loads(line)
        found[match["rule"]].add(match["event"])
    check = subprocess.run([firn, "detect", "check", "--unusable", "--rules", *paths, "--pack", "windows"], capture_output=True, text=True)
    unusable = set()
    for line in check.stdout.splitlines():
        if identifier := re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", line):
            unusable.add(identifier.group(0))
    return found, unusable


def cause(rule, event, is_in_firn):
    """Why a pair differs; None if it is not known."""
    kind = str(event.get("EventID"))
    if kind in AUDIT and str(event.get("Channel", "")).lower() == "security" and not is_in_firn:
        return "a field that the rule excludes by is unknown in events of Windows' audit, and firn does not match there"
    if rule.asks_for(event) != is_in_firn:
        return None
    if "|re" in rule.text:
        return "regular expressions: those of Lucene are anchored, have no classes such as \\s, and see the lower-case text of the index"
    if "|cidr" in rule.text:
        return "networks: the query asks for a field of the type ip, and the index has the text"
    if re.search(r"\|cased", rule.text):
        return "case: the index has the text in lower case"
    return "the query differs from the rule that pySigma read (its interpreter agrees with firn)"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--firn", required=True)
    arguments.add_argument("--url", required=True, help="OpenSearch, in which the index %s is made and deleted" % INDEX)
    arguments.add_argument("--rules", required=True, nargs="+", type=pathlib.Path)
    arguments.add_argument("--events", required=True, type=pathlib.Path)
    arguments.add_argument("--examples", type=int, default=3, help="pairs that are printed for each cause")
    arguments = arguments.parse_args()

    with gzip.open(arguments.events, "rt") as lines:
        events = [json.loads(line) for line in lines]
    search = Search(arguments.url)
    search.index_events(events)
    print(f"{len(events)} events are indexed", file=sys.stderr, flush=True)

    failures = collections.defaultdict(list)
    rules = []
    for path in sorted(path for folder in arguments.rules for path in folder.rglob("*.yml")):
        if "product: windows" in path.read_text() and (rule := translate(path, failures)):
            rules.append(rule)
    print(f"{len(rules)} rules are translated", file=sys.stderr, flush=True)
    found, unusable = by_firn(arguments.firn, arguments.rules, arguments.events)

    print(f"firn has found {sum(map(len, found.values()))} pairs", file=sys.stderr, flush=True)

    compared = pairs = 0
    differences = collections.defaultdict(list)
    refused = collections.defaultdict(list)
    for rule in rules:
        if rule.id in unusable:
            refused["firn"].append(rule.id)
            continue
        by_query = rule.matches(search, events, failures)
        compared += 1
        pairs += len(by_query & found[rule.id])
        for number in sorted(by_query ^ found[rule.id]):
            is_in_firn = number in found[rule.id]
            differences[cause(rule, events[number], is_in_firn)].append((rule.id, number, is_in_firn, rule.path.name))

    search.call("DELETE", f"/{INDEX}")
    print(f"events: {len(events)}; rules for Windows that both evaluate: {compared}; equal pairs of rule and event: {pairs}")
    print(f"rules that firn does not evaluate: {len(refused['firn'])}")
    for reason, identifiers in sorted(failures.items()):
        print(f"compared with the interpreter, since there is no query ({reason}): {len(identifiers)} rules")
    for reason, differing in sorted(differences.items(), key=lambda item: str(item[0])):
        of_rules = len({identifier for identifier, *_ in differing})
        print(f"{'NOT KNOWN' if reason is None else reason}: {len(differing)} pairs of {of_rules} rules")
        for identifier, number, is_in_firn, name in differing[: arguments.examples if reason else 50]:
            print(f"  {name} [{identifier}] event {number}: {'firn' if is_in_firn else 'OpenSearch'} alone")
    if compared == 0:
        raise SystemExit("no rule was compared")
    return 1 if None in differences else 0


if __name__ == "__main__":
    sys.exit(main())
