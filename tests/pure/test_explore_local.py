"""`cute-py explore`: a server on this computer, for one page that only it knows."""

import json
import threading
import webbrowser
from http.client import HTTPConnection

import pytest

from cute_py.cli.explore_command import LONGEST, Local
from cute_py.cli.main import main
from cute_py.explore import answer


@pytest.fixture(scope="module")
def server():
    with Local() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def sent(server, method, path, body=None, **headers):
    """Return the status and the body of a request."""
    connection = HTTPConnection(server.host, timeout=10)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_the_page_asks_the_process_that_it_came_from(server):
    status, page = sent(server, "GET", server.path)
    assert status == 200
    assert '"local":true' in page
    assert "cdn.jsdelivr" not in page
    state = {"v": 1, "e": "(4,8):(8,1)"}
    status, text = sent(server, "POST", f"{server.path}answer", json.dumps(state))
    assert (status, json.loads(text)) == (200, json.loads(json.dumps(answer(state))))


@pytest.mark.parametrize("body", ["", "{", "null", "\x00", '{"v": 1, "e": 5}'])
def test_what_is_no_state_is_refused_in_words(server, body):
    status, text = sent(server, "POST", f"{server.path}answer", body)
    assert status == 200
    assert json.loads(text)["error"]["code"]


def test_others_get_nothing(server):
    for method, path in (
        ("GET", "/"),
        ("GET", "/x/"),
        ("POST", "/answer"),
        ("POST", f"{server.path}x"),
    ):
        assert sent(server, method, path, "{}") == (404, "")
    elsewhere = {"Host": "evil.example"}  # a name that was made to lead here
    assert sent(server, "GET", server.path, **elsewhere) == (404, "")
    assert sent(server, "POST", f"{server.path}answer", "{}", **elsewhere) == (404, "")
    assert sent(server, "POST", f"{server.path}answer", "x" * (LONGEST + 1))[0] == 404


def test_the_command_opens_a_browser_until_an_interrupt(monkeypatch, capsys):
    opened = []

    def ended(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(Local, "serve_forever", ended)
    assert main(["explore"]) == 0
    (address,) = opened
    assert address.startswith("http://127.0.0.1:")
    assert capsys.readouterr().out == f"The explorer is at {address}; Ctrl-C ends it.\n"
