"""A firn of the session's own for the client tests, and one that asks who comes."""

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest


OPERATOR = ("elastic", "correct horse")


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    with running(tmp_path_factory.mktemp("firn")) as base:
        yield base


@pytest.fixture(scope="session")
def secure_url(tmp_path_factory):
    environment = {"FIRN_OPERATOR_PASSWORD": OPERATOR[1]}
    with running(tmp_path_factory.mktemp("firn-secure"), {"xpack.security.enabled": "true"}, environment) as base:
        yield base


@contextlib.contextmanager
def running(folder, settings=None, environment=None):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = os.path.abspath(os.environ["FIRN_BINARY"])
    settings = {"http.port": port, "path.data": folder / "data", **(settings or {})}
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
