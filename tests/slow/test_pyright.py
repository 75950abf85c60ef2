"""What an editor with pyright completes, by its language server, where that is installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cute_py as cute
from tests.pure.test_public_types import names_of, public, spelled
from tests.stubs import PACKAGES

ROOT = Path(cute.__file__).parents[1]


class Server:
    """A language server that is asked in turn."""

    def __init__(self, path, folder):
        self.process = subprocess.Popen(
            [path, "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.count, self.folder = 0, folder
        self.ask(
            "initialize",
            processId=os.getpid(),
            rootUri=folder.as_uri(),
            workspaceFolders=[{"uri": folder.as_uri(), "name": "x"}],
            capabilities={"workspace": {"configuration": True}},
        )
        self.send(method="initialized", params={})

    def send(self, **message):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def read(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length"):
                length = int(line.partition(b":")[2])
        return json.loads(self.process.stdout.read(length))

    def ask(self, method, **params):
        """Return the result of a request; answer what the server asks meanwhile."""
        self.count += 1
        self.send(id=self.count, method=method, params=params)
        while True:
            said = self.read()
            if "method" not in said and said.get("id") == self.count:
                return said.get("result")
            if "method" in said and "id" in said:
                own = {"analysis": {"extraPaths": [str(ROOT)]}, "pythonPath": sys.executable}
                items = said.get("params", {}).get("items", [])
                self.send(id=said["id"], result=[own for _ in items])

    def completed(self, name):
        """Return what completes `name.`."""
        uri = (self.folder / f"{name}.py").as_uri()
        text = f"import cute_py as cute\n{name}."
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})
        place = {"line": 1, "character": len(name) + 1}
        found = self.ask("textDocument/completion", textDocument={"uri": uri}, position=place)
        return {item["label"] for item in (found or {}).get("items", [])}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = shutil.which("pyright-langserver")
    if path is None:
        pytest.skip("needs pyright: pip install pyright")
    made = Server(path, tmp_path_factory.mktemp("editor"))
    yield made
    made.process.kill()
    made.process.wait()
    made.process.stdin.close()
    made.process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_editor_with_pyright_completes_the_public_names_alone(package, server):
    assert public(server.completed(spelled(package))) == public(names_of(package))
