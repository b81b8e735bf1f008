"""The benchmarks of Elasticsearch and of OpenSearch, unmodified, run a small track of ours against firn to its end.

Each stands in an environment of its own, because they need other versions of their clients (`scripts/clients.sh`).
"""

import csv
import json
import os
import pathlib
import subprocess

from conftest import running

# Those that reports tell of; of the others a failure ends the run (`--on-error=abort`).
OPERATIONS = ["bulk", "index-stats", "node-stats", "hosts", "words"]
DOCUMENTS = 1000


def test_esrally_runs_a_track_to_its_end(tmp_path):
    with running(folder(tmp_path, "firn")) as url:
        report = run(
            tmp_path, url, "esrally", ["race"], {"RALLY_HOME": str(tmp_path)},
            [f"--track-path={track(tmp_path)}", "--report-format=csv", f"--report-file={tmp_path / 'report.csv'}",
             "--telemetry=node-stats,shard-stats"],
        )
    check(report)


def test_opensearch_benchmark_runs_a_workload_to_its_end(tmp_path):
    with running(folder(tmp_path, "firn")) as url:
        report = run(
            tmp_path, url, "opensearch-benchmark", ["run"], {"BENCHMARK_HOME": str(tmp_path)},
            [f"--workload-path={track(tmp_path)}", "--results-format=csv", f"--results-file={tmp_path / 'report.csv'}",
             "--telemetry=node-stats"],
        )
    check(report)


def folder(tmp_path, name):
    made = tmp_path / name
    made.mkdir()
    return made


def track(tmp_path):
    """A track, which is a workload too: both read the same keys."""
    made = folder(tmp_path, "events")
    search = {"operation-type": "search", "index": "events"}
    definition = {
        "version": 2,
        "description": "a few events",
        "indices": [{"name": "events", "body": "index.json"}],
        "corpora": [{"name": "events", "documents": [
            {"source-file": "documents.json", "document-count": DOCUMENTS, "target-index": "events"}]}],
        "schedule": [
            {"operation": {"operation-type": "delete-index"}},
            {"operation": {"operation-type": "create-index"}},
            {"operation": {"operation-type": "cluster-health", "index": "events",
                           "request-params": {"wait_for_status": "green", "wait_for_no_relocating_shards": "true"}}},
            {"operation": {"name": "bulk", "operation-type": "bulk", "bulk-size": 100}, "clients": 2},
            {"operation": {"name": "refresh", "operation-type": "refresh"}},
            {"operation": {"name": "force-merge", "operation-type": "force-merge", "max-num-segments": 1}},
            {"operation": {"name": "index-stats", "operation-type": "index-stats", "index": "events",
                           "condition": {"path": "_all.total.merges.current", "expected-value": 0}},
             "iterations": 2},
            {"operation": {"name": "node-stats", "operation-type": "node-stats"}, "iterations": 2},
            {"operation": {"name": "hosts", **search, "body": {
                "size": 0, "aggs": {"hosts": {"terms": {"field": "host"}}}}}, "warmup-iterations": 2, "iterations": 5},
            {"operation": {"name": "words", **search, "detailed-results": True, "body": {
                "query": {"match": {"message": "started"}}}}, "iterations": 5, "target-throughput": 20},
        ],
    }
    index = {
        "settings": {"index.number_of_shards": 2, "index.number_of_replicas": 0},
        "mappings": {"properties": {
            "@timestamp": {"type": "date"}, "host": {"type": "keyword"}, "message": {"type": "text"}}},
    }
    for name in ("track.json", "workload.json"):
        (made / name).write_text(json.dumps(definition))
    (made / "index.json").write_text(json.dumps(index))
    with open(made / "documents.json", "w") as documents:
        for number in range(DOCUMENTS):
            event = {"@timestamp": 1_700_000_000_000 + number, "host": f"h{number % 7}",
                     "message": f"started job {number}"}
            documents.write(json.dumps(event) + "\n")
    return made


def run(tmp_path, url, tool, command, environment, arguments):
    """Its report: rows of metric, task, value, unit."""
    binary = pathlib.Path(os.environ["FIRN_BENCHMARKS"]) / tool / "bin" / tool
    assert binary.exists(), f"{tool} is not installed: `scripts/clients.sh` installs it"
    done = subprocess.run(
        [binary, *command, "--pipeline=benchmark-only", "--offline", "--on-error=abort",
         f"--target-hosts={url.removeprefix('http://')}", *arguments],
        env={**os.environ, **environment}, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=300,
    )
    logs = "".join(log.read_text()[-20_000:] for log in tmp_path.rglob("logs/*.log"))
    assert done.returncode == 0, f"{tool} failed:\n{done.stdout}\n{logs}"
    # What the tools themselves report as an error and go on after.
    assert "Traceback" not in done.stdout + logs, f"{tool} met an error:\n{done.stdout}\n{logs}"
    assert "KeyError" not in logs, logs
    with open(tmp_path / "report.csv") as report:
        return [row for row in csv.reader(report) if row]


def check(report):
    rows = {(row[0], row[1]): row[2] for row in report}
    metrics = {metric for metric, _ in rows}
    # Made of `_nodes/stats` and `_stats`: a section that lacks leaves its rows out.
    for metric in ("Total Young Gen GC time", "Total Old Gen GC count", "Store size", "Translog size", "Segment count",
                   "Cumulative merge time of primary shards", "Cumulative refresh time of primary shards",
                   "Cumulative flush time of primary shards", "Cumulative indexing throttle time of primary shards"):
        assert metric in metrics, f"{metric} is not in {sorted(metrics)}"
    for operation in OPERATIONS:
        assert float(rows[("error rate", operation)]) == 0.0, f"{operation}: {rows}"
        assert float(rows[("Mean Throughput", operation)]) > 0.0, operation
