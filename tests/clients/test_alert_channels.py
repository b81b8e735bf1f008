"""Alerts arrive by e-mail at a real SMTP server with TLS and authentication, and as signed webhooks."""

import contextlib
import email
import email.policy
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult

from conftest import free_port, running

PASSWORD = "correct horse battery"
SIGNING_KEY = "webhook key"


class Mailbox:
    """Takes mails; `refuse` holds answers to the next ones."""

    def __init__(self):
        self.mails = []
        self.refuse = []

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("left@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.refuse:
            return self.refuse.pop(0)
        assert session.authenticated and session.ssl is not None
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.recipients = envelope.rcpt_tos
        return "250 OK"


class SubmissionServer(Controller):
    """SMTP that must become TLS, and asks for a password."""

    def __init__(self, mailbox, context, port):
        super().__init__(mailbox, hostname="127.0.0.1", port=port)
        self.context = context

    def factory(self):
        def authenticate(server, session, envelope, mechanism, data):
            success = (data.login, data.password) == (b"firn", PASSWORD.encode())
            return AuthResult(success=success, handled=success)

        return SMTP(self.handler, require_starttls=True, tls_context=self.context, authenticator=authenticate,
                    auth_required=True)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture()
def mail_server(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    mailbox = Mailbox()
    server = SubmissionServer(mailbox, context, free_port())
    server.start()
    yield mailbox, server.port
    server.stop()


@pytest.fixture()
def firn(tmp_path):
    """A firn whose keystore has the secrets."""
    import os

    binary = os.environ["FIRN_BINARY"]
    (tmp_path / "firn").mkdir()
    secrets = {"notify.secret.mail": PASSWORD, "notify.secret.hook": SIGNING_KEY, "notify.secret.wrong": "another"}
    subprocess.run(
        [binary, "keystore", "--data", str(tmp_path / "firn" / "data"), "add", "-x", "-f", *secrets],
        input="\n".join(secrets.values()) + "\n", text=True, check=True, capture_output=True,
    )
    with running(tmp_path / "firn", {"notify.webhook.allowed_networks": "127.0.0.1"}) as base:
        yield base


def wait_for(what, holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come within 30 s"
        time.sleep(0.02)


def raise_alerts(base, rule):
    body = {"type": "query", "name": "Logon <as> root", "query": "user.name: root", "severity": "high", **rule}
    requests.put(f"{base}/_firn/rules/root", json=body).raise_for_status()
    pipeline = {"source": {"type": "http"}, "index": "web"}
    requests.put(f"{base}/_firn/pipelines/web", json=pipeline).raise_for_status()
    wait_for("the rule", lambda: (requests.get(f"{base}/_firn/pipelines/web/stats").json().get("rules") or {}).get("evaluated") == 1)


def send_event(base, **fields):
    event = {"tenant": "alpha", "user": {"name": "root"}, **fields}
    answer = requests.post(f"{base}/_firn/pipelines/web/_events", data=json.dumps(event) + "\n",
                           headers={"content-type": "application/x-ndjson"})
    assert answer.json()["indexed"] == 1, answer.text


def test_an_alert_arrives_by_mail(firn, mail_server, authority, tmp_path):
    mailbox, port = mail_server
    certificate = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    channel = {
        "type": "email", "host": "localhost", "port": port, "certificate_authority": str(certificate),
        "username": "firn", "password": "secret:mail", "from": "firn <firn@example.com>",
        "to": ["ann@example.com", "bob@example.com"],
    }
    # Without the certificate, and with another password, nothing is sent.
    for wrong, reason in [({"certificate_authority": None}, "certificate"), ({"password": "secret:wrong"}, "535"),
                          ({"password": "secret:none"}, "notify.secret.none"), ({"tls": "tls"}, "")]:
        body = {name: value for name, value in {**channel, **wrong}.items() if value is not None}
        answer = requests.post(f"{firn}/_firn/channels/mail/_test", json=body)
        assert answer.status_code in (400, 503) and reason in answer.text, (wrong, answer.text)
    assert not mailbox.mails

    requests.put(f"{firn}/_firn/channels/mail", json=channel).raise_for_status()
    raise_alerts(firn, {"channels": ["mail"]})
    wait_for("the channel", lambda: "mail" in requests.get(f"{firn}/_firn/channels/_stats").json())
    # The mail as a whole, and then to each recipient.
    mailbox.refuse += ["451 later"] * 3
    started = time.monotonic()
    send_event(firn, host={"name": "<script>"}, message="été\r\nBcc: eve@example.com")
    wait_for("the mail", lambda: mailbox.mails)
    assert time.monotonic() - started > 0.9
    mail = mailbox.mails[0]
    assert mail["subject"] == "[high] Logon <as> root (alpha)"
    assert mailbox.recipients == ["ann@example.com", "bob@example.com"]
    assert mail["message-id"].endswith("@example.com>") and mail["auto-submitted"] == "auto-generated"
    assert mail["bcc"] is None
    plain = mail.get_body(("plain",)).get_content()
    assert "user.name: root" in plain and "message: été  Bcc: eve@example.com" in plain, plain
    html = mail.get_body(("html",)).get_content()
    assert "<script>" not in html and "&lt;script&gt;" in html, html

    # One recipient is refused, and the others get it.
    mailbox.mails.clear()
    more = {**channel, "to": ["left@example.com", "ann@example.com", "bob@example.com"]}
    answer = requests.post(f"{firn}/_firn/channels/mail/_test", json=more)
    assert answer.status_code == 503 and "not delivered to [left@example.com]" in answer.text, answer.text
    assert len(mailbox.mails) == 2
    mailbox.mails.clear()

    # Refused for good: the alert says so.
    mailbox.refuse += ["554 spam"] * 3
    send_event(firn)

    def failed():
        requests.post(f"{firn}/.alerts-alpha/_refresh")
        query = {"query": {"term": {"firn.alert.failed": "mail"}}}
        return requests.post(f"{firn}/.alerts-alpha/_search", json=query).json()["hits"]["hits"]

    wait_for("the failure", failed)
    delivery = failed()[0]["_source"]["firn"]["alert"]["deliveries"][0]
    assert "554" in delivery["reason"], delivery
    assert not mailbox.mails


def test_a_mail_server_that_never_ends_a_line_fills_no_memory(firn):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"220-")
                while True:
                    connection.sendall(b"a" * 60_000)

        threading.Thread(target=answer, daemon=True).start()
        channel = {"type": "email", "host": "127.0.0.1", "port": server.getsockname()[1], "tls": "none",
                   "from": "firn@example.com", "to": ["ann@example.com"]}
        answer = requests.post(f"{firn}/_firn/channels/mail/_test", json=channel)
        assert answer.status_code == 503 and "more than a megabyte" in answer.text, answer.text


def test_tls_from_the_first_byte(firn, authority, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    mails = []

    class Handler:
        async def handle_DATA(self, server, session, envelope):
            mails.append(envelope)
            return "250 OK"

    server = Controller(Handler(), hostname="127.0.0.1", port=free_port(), ssl_context=context)
    server.start()
    try:
        certificate = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(certificate))
        channel = {"type": "email", "host": "localhost", "port": server.port, "tls": "tls", "from": "firn@example.com",
                   "to": ["ann@example.com"], "certificate_authority": str(certificate)}
        answer = requests.post(f"{firn}/_firn/channels/mail/_test", json=channel)
        assert answer.status_code == 200, answer.text
        assert len(mails) == 1
        for wrong in ["/dev/zero", "/nowhere"]:
            answer = requests.post(f"{firn}/_firn/channels/mail/_test", json={**channel, "certificate_authority": wrong})
            assert answer.status_code == 400 and "certificate_authority" in answer.text, answer.text
    finally:
        server.stop()


def test_a_webhook_is_signed(firn):
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.headers, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        channel = {
            "type": "webhook", "url": f"http://127.0.0.1:{server.server_port}/", "signing_key": "secret:hook",
            "headers": {"authorization": "secret:mail"}, "body": '{"text": "{{summary}}", "who": ["{{user.name}}"]}',
        }
        requests.put(f"{firn}/_firn/channels/hook", json=channel).raise_for_status()
        raise_alerts(firn, {"channels": ["hook"]})
        send_event(firn, user={"name": ["root", 'a "quoted" one']})
        wait_for("the webhook", lambda: received)
    finally:
        server.shutdown()
    headers, body = received[0]
    parts = dict(part.split("=", 1) for part in headers["firn-signature"].split(","))
    signed = f"{parts['t']}.".encode() + body
    assert hmac.compare_digest(hmac.new(SIGNING_KEY.encode(), signed, hashlib.sha256).hexdigest(), parts["v1"])
    assert abs(int(parts["t"]) - time.time()) < 60
    assert headers["authorization"] == PASSWORD
    assert json.loads(body) == {"text": "[high] Logon <as> root (alpha)", "who": ['root, a "quoted" one']}
    assert requests.get(f"{firn}/_firn/channels/hook").json()["hook"]["signing_key"] == "secret:hook"
