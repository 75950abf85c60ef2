"""The explorer as a page: a static site, or one file, with Python from Pyodide in a worker."""

from __future__ import annotations

import gzip
import io
import zipfile
from base64 import b64encode
from html import escape
from pathlib import Path

from cute_py.errors import refusal
from cute_py.explore.controls import controls
from cute_py.viz.html import hashed, policy, script
from cute_py.viz.scenes import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PYODIDE = "314.0.7"
CDN = f"https://cdn.jsdelivr.net/npm/pyodide@{PYODIDE}/"  # the files of the npm package
# the files of the runtime, and what a browser must find in them (W3C, Subresource Integrity):
# computed from the npm package, whose own hash `tests/browser` knows
RUNTIME = {
    "pyodide.mjs": "sha384-Lp79fMwxa4n2BLtugpUAoQMlbxIdg8iCUiP1r3h7nJLkQjwlXT1JzZTeHVL+f4Dg",
    "pyodide.asm.mjs": "sha384-/2281iaC0Iimw0B3Kagy1DBfZcJG3W4KYW+EmOqhsdY3fR9BJ88FE2Zt6y0KQKpa",
    "pyodide.asm.wasm": "sha384-y++qrQ72KPA1fTjLIuGMP+jppgGxjbLCgfdb0zMrnNnQVhxRUXTOTF6rTxNzllSu",
    "python_stdlib.zip": "sha384-xW3A5jmenkrPXbsgrIaB1FCJh9OuLT7FRMagsJMgtlhVc19k/mSy3+7nMaF/d767",
    "pyodide-lock.json": "sha384-o8SQQvpVlZnOl04+3dFTJipKxul9GbViVusA379wlOrfHSgxbzt0yPiqCTxOiYES",
}
PAGE = """
:root { color-scheme: light dark; background: light-dark(#fff, #14171a); }
body { max-width: 1060px; margin: 0 auto; padding: 20px 16px 40px; }
body { font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; line-height: 1.3; margin: 0; color: light-dark(#1b1f24, #e6e9ed); }
p { margin: 2px 0 14px; color: light-dark(#57606a, #9da7b3); }
"""
OWN = Path(__file__).parents[1]  # the package cute_py
# packages that no expression reaches: only what they refuse is named in the tables of errors
WORDINGS_ALONE = ("calls", "cli", "codegen", "emulate", "kernels", "ops", "torch", "trace")
EARLIEST = (1980, 1, 1, 0, 0, 0)  # of files in a zip, which then depends on its contents alone


def sources() -> bytes:
    """Return the sources of cute_py that `answer` needs as a zip."""
    return _zip(
        {f"cute_py/{path.relative_to(OWN).as_posix()}": path.read_bytes() for path in _own()}
    )


def _own() -> Iterator[Path]:
    for path in sorted(OWN.rglob("*.py")):
        folder = path.relative_to(OWN).parts[0]
        if folder not in WORDINGS_ALONE or path.name in ("__init__.py", "wordings.py"):
            yield path


def _zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = method
            archive.writestr(entry, content)
    return made.getvalue()


def site(runtime: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files of a static site.

    Args:
        runtime: the folder of the npm package pyodide, which is copied; None: the page loads that
            version from its CDN. A browser refuses other files than those of that package.
    """
    yield "cute_py.zip", sources()
    where: dict[str, Any] = {"base": CDN, "files": RUNTIME}
    if runtime is not None:
        files = dict(_runtime(runtime))
        where = {"base": "pyodide/", "files": {name: hashed(x) for name, x in files.items()}}
        yield from ((f"pyodide/{name}", data) for name, data in files.items())
    yield "index.html", _page({**where, "sources": "cute_py.zip"}, {}).encode()


def single(runtime: Path | None) -> str:
    """Return the explorer as one file; see `site`. With a runtime it needs no network.

    >>> "<title>CuTe layout explorer</title>" in single(None)
    True
    """
    files = dict(_runtime(runtime)) if runtime is not None else {}
    where = {"files": dict.fromkeys(files, "")} if files else {"base": CDN, "files": RUNTIME}
    return _page(where, {**files, "cute_py.zip": sources()})


def local_page() -> str:
    """Return the page that asks the server that it came from."""
    return _page({"local": True}, {})


def _runtime(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files of the runtime."""
    for name in RUNTIME:
        try:
            data = (folder / name).read_bytes()
        except OSError:
            raise refusal(
                "explore-runtime",
                operation="--runtime",
                path=folder,
                missing=name,
                version=PYODIDE,
            ) from None
        yield name, data


def front_end() -> str:
    """Return the scripts that a page and a notebook share."""
    return "\n".join([script(), *map(own, ("style.js", "links.js", "explorer.js"))])


def own(name: str) -> str:
    """Return the text of a script of this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _page(where: dict[str, Any], files: dict[str, bytes]) -> str:
    """Return the page, with files as gzip in base64."""
    data = {**controls(), **where, "worker": own("worker.js")}
    program = f"{front_end()}\n{own('page.js')}"
    allowed = {
        "script-src": f"'{hashed(program.encode())}' blob: 'wasm-unsafe-eval'",
        "worker-src": "blob: data:",
        "connect-src": "'self' data: blob:" + f" {CDN}" * (where.get("base") == CDN),
    }
    body = [
        "<h1>CuTe layout explorer</h1>",
        "<p>Type a layout, an atom or an operation: cute_py answers, on this computer.</p>",
        '<div id="explorer"></div>',
        *[_element(name, content) for name, content in files.items()],
        f'<script type="application/json" id="data">{as_json(data)}</script>',
        f"<script>{program}</script>",
    ]
    return framed("CuTe layout explorer", allowed, PAGE, body)


def framed(title: str, allowed: dict[str, str], style: str, body: list[str]) -> str:
    """Return a page: what it may do, as of `policy`, its style, and its elements."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            policy(allowed),
            '<meta name="viewport" content="width=device-width">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{style}</style>",
            *body,
            "",
        ]
    )


def _element(name: str, content: bytes) -> str:
    """Return a file as gzip in base64; a zip without its own compression, which costs a fifth."""
    if name.endswith(".zip"):
        packed = zipfile.ZipFile(io.BytesIO(content))
        files = {each: packed.read(each) for each in packed.namelist()}
        content = _zip(files, zipfile.ZIP_STORED)
    encoded = b64encode(gzip.compress(content, 9, mtime=0)).decode()
    return f'<script type="application/gzip" id="{name}">{encoded}</script>'
