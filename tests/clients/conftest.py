"""A firn of the session's own for the client tests."""

import os
import socket
import subprocess
import time
import urllib.request

import pytest


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("firn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = os.path.abspath(os.environ["FIRN_BINARY"])
    with open(folder / "firn.log", "wb") as log:
        process = subprocess.Popen(
            [binary, "serve", "-E", f"http.port={port}", "-E", f"path.data={folder / 'data'}"],
            stdout=log, stderr=log,
        )
    base = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(base, timeout=5).read()
            break
        except OSError:
            assert process.poll() is None, (folder / "firn.log").read_text()
            assert time.monotonic() < deadline, "firn did not answer"
            time.sleep(0.05)
    yield base
    process.terminate()
    assert process.wait(timeout=60) == 0, (folder / "firn.log").read_text()
