"""A firn of the session's own for the client tests, one that asks who comes, and an S3 server."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest


OPERATOR = ("elastic", "correct horse")


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("firn")
    with running(folder, {"path.repo": folder / "repositories"}) as base:
        yield base


@pytest.fixture(scope="session")
def secure_url(tmp_path_factory):
    environment = {"FIRN_OPERATOR_PASSWORD": OPERATOR[1]}
    with running(tmp_path_factory.mktemp("firn-secure"), {"xpack.security.enabled": "true"}, environment) as base:
        yield base


class Bucket:
    """A bucket of a real S3 server (versitygw over a folder), and what a firn needs to use it."""

    name = "events"
    environment = {"AWS_ACCESS_KEY_ID": "firn-test", "AWS_SECRET_ACCESS_KEY": "firn-test-secret"}

    def __init__(self, port):
        self.port = port

    def repository(self, base_path, **settings):
        """The body that registers a part of it."""
        own = {"bucket": self.name, "base_path": base_path, "endpoint": f"http://127.0.0.1:{self.port}"}
        return {"type": "s3", "settings": {**own, **settings}}


@pytest.fixture(scope="session")
def bucket(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s3")
    (folder / Bucket.name).mkdir()
    port = free_port()
    keys = Bucket.environment
    process = subprocess.Popen(
        [versitygw(), "--port", f"127.0.0.1:{port}", "--access", keys["AWS_ACCESS_KEY_ID"],
         "--secret", keys["AWS_SECRET_ACCESS_KEY"], "--keep-alive", "--quiet", "posix", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while not is_open(port):
            assert process.poll() is None, "versitygw ended before it answered"
            assert time.monotonic() < deadline, "versitygw did not answer"
            time.sleep(0.02)
        yield Bucket(port)
    finally:
        process.kill()
        process.wait()


def versitygw():
    """On the path, or where Go puts what it installs (`scripts/setup.sh test` has it installed)."""
    folders = [os.environ.get("GOBIN"), *(f"{path}/bin" for path in os.environ.get("GOPATH", "").split(":") if path)]
    folders = [folder for folder in folders if folder] + [str(pathlib.Path.home() / "go" / "bin")]
    found = shutil.which("versitygw") or shutil.which("versitygw", path=os.pathsep.join(folders))
    assert found, "versitygw is not installed: `scripts/setup.sh test` installs it"
    return found


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(folder, settings=None, environment=None):
    port = free_port()
    binary = os.path.abspath(os.environ["FIRN_BINARY"])
    # The default is a share of the disk, and the disk of a machine that runs tests may be nearly full.
    flood_stage = {"cluster.routing.allocation.disk.watermark.flood_stage": "100mb"}
    settings = {"http.port": port, "path.data": folder / "data", **flood_stage, **(settings or {})}
    arguments = [part for name, value in settings.items() for part in ("-E", f"{name}={value}")]
    with open(folder / "firn.log", "wb") as log:
        process = subprocess.Popen(
            [binary, "serve", *arguments], stdout=log, stderr=log, env={**os.environ, **(environment or {})},
        )
    base = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while not answers(base):
        assert process.poll() is None, (folder / "firn.log").read_text()
        assert time.monotonic() < deadline, "firn did not answer"
        time.sleep(0.05)
    yield base
    process.terminate()
    assert process.wait(timeout=60) == 0, (folder / "firn.log").read_text()


def answers(base):
    try:
        urllib.request.urlopen(base, timeout=5).read()
    except urllib.error.HTTPError as error:
        # Where requests have to sign in, that is an answer.
        return error.code == 401
    except OSError:
        return False
    return True
