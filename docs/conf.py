"""The documentation site: `sphinx-build -W --keep-going -c docs . build/site`, as in .ci/run.

The sources are the pages and lessons where GitHub shows them, so a link works in both places. This
file adds what only the site has: toctrees, the reference from docstrings, the pictures of `picture`
blocks, the outputs of the lessons, which it runs, and the explorer.
"""

import ast
import inspect
import re
import sys
from html import escape
from operator import attrgetter
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.inspect import stringify_signature

import cute_py as cute
from cute_py.explore.pages import site as explorer_files
from cute_py.explore.states import link_of
from cute_py.expression import evaluate
from cute_py.trace.kernel import trace

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import lessons  # noqa: E402

project = "cute_py"
author = copyright = "the cute_py authors"
version = release = cute.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
smartquotes = False
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".ipynb": "markdown"}  # `read` makes Markdown of a notebook
include_patterns = ["docs/**", "notebooks/*.ipynb", "*.md", "*/README.md"]
exclude_patterns = [".*", "build", "dist", "tests"]
html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files, html_js_files = ["site.css"], ["site.js"]
html_title = f"cute_py {release}"
html_show_sphinx = html_copy_source = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nitpicky = True
# A name in a docstring becomes a link where the site has it, which it must for `cute.name`.
default_role = "py:obj"
nitpick_ignore_regex = [("py:class", ".*"), ("py:obj", r"(?!cute_py\.).*")]
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
napoleon_use_ivar = True

OF_TORCH = ("gemm", "Linear", "register")
# packages that are functions as well
CALLED = {
    "trace": trace,
    "emulate": cute.emulate.emulate,
    "explore": cute.explore.explore,
    "see": cute.see.see,
}

# caption -> pages, in the order of the sidebar
CONTENTS = {
    "Tutorials": "install ../notebooks/* write_a_gemm",
    "How-to guides": "how_to epilogues coming_from torch pictures see follow explorer command_line",
    "Explanation": """algebra emulator orders performance model figures faq architecture
        measurements""",
    "Reference": """kernels operators attention convolution glossary errors gallery differences
        coverage files""",
    "Reference: API": """api/layouts api/algebra api/swizzles api/dtypes api/tensors api/atoms
        api/tiling api/kernels api/emulate api/operators api/pictures api/errors""",
    "Project": """README<../README> ../CONTRIBUTING ../CHANGELOG ../changelog.d/README
        ../benchmarks/README""",
}

# what readers type into the search -> the heading that they look for, which is found first
SOUGHT = {
    "docs/install": {
        "# Install, and your first kernel": "install, installation, setup, requirements, pip",
        "## Your first kernel": "quickstart, getting started, hello world, first kernel, example",
        "## With an NVIDIA GPU": "cuda, gpu",
        "## When something fails": "troubleshooting, doctor, driver",
    },
    "docs/how_to": {
        "# How to ...": "how to, howto, recipe, recipes, cookbook, examples",
        "## Element by element": "elementwise, element-wise, vector add",
        "## A stencil with a halo": "stencil, halo, convolution",
        "## A sum: shuffles, then one atomic for each block": "reduction, sum, atomics, shuffle",
        "## A transpose without bank conflicts": "transpose",
        "## Softmax, a warp for each row": "softmax",
        "## Many small matrix products on tensor cores": "batched, tensor core, tensor cores",
        "## A matrix product with bias and SwiGLU": "swiglu",
        "## A ring of TMA loads, with roles": "tma, warp specialization, producer, pipeline",
        "## Find out why a kernel is wrong, or slow": (
            "debug, debugging, print, profile, profiling, timeline, sass"
        ),
    },
    "docs/attention": {"# Attention": "attention, flash attention"},
    "docs/model": {"# The analytic model": "roofline, analytic model, bandwidth, latency"},
    "docs/figures": {"# Figures": "figures, plots, charts"},
    "docs/coverage": {"# Coverage": "coverage, features"},
    "docs/epilogues": {"# Epilogues": "epilogue, epilogues, fusion, bias, residual"},
    "docs/coming_from": {
        "# Coming from CuTe C++, CuTe DSL or Triton": "migration, porting",
        "## CuTe C++": "cutlass",
        "## CuTe DSL": "cute dsl",
        "## Triton": "triton",
    },
    "docs/torch": {
        "# torch": "pytorch, torch",
        "## Gradients": "gradient, gradients, autograd, backward",
        "## Your own kernels": "custom operator, custom op, register",
    },
    "docs/emulator": {
        "# The emulator": "emulator",
        "## What it finds": "race, races, race condition, deadlock, out of bounds, sanitizer",
    },
    "docs/orders": {"# Every order": "order, orders, interleaving, model checking"},
    "docs/follow": {"# The way of one element": "follow, trace an element, dataflow, provenance"},
    "docs/kernels": {"# Kernels": "kernel, kernels, language", "## Loops": "loop, loops"},
    "docs/performance": {"# Performance": "performance, benchmark, benchmarks, speed, cublas"},
    "docs/write_a_gemm": {"# Write a GEMM": "gemm, matmul, matrix multiplication"},
    "docs/see": {"# See a kernel": "layouts, thread-value, partition, who holds what, inspect"},
    "docs/explorer": {"# The explorer": "explorer, playground, visualize"},
    "docs/faq": {"# Questions and limitations": "faq, limitations, limits, license"},
    "docs/errors": {"# Errors": "error, errors, error code"},
    "notebooks/01_layouts": {"# Lesson 1: layouts": "tutorial, lesson, lessons, layout"},
    "notebooks/03_swizzles_and_banks": {
        "# Lesson 3: banks, swizzles and the solver": "swizzle, bank conflict, bank conflicts"
    },
}


def toctrees():
    """Return the sidebar as Markdown."""
    for caption, pages in CONTENTS.items():
        lines = "\n".join(pages.split())
        yield f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n{lines}\n```\n"


def lesson(path):
    """Return a lesson as Markdown, with what its cells show."""
    for cell, printed, text, page in lessons.outputs(path):
        source = "".join(cell["source"])
        yield fenced("python", source) if cell["cell_type"] == "code" else source
        if printed:
            yield fenced("text", printed)
        if text:
            yield fenced("{raw} html", page) if page else fenced("text", text)
    yield f"{{download}}`This lesson as a notebook <{path.name}>`"


def fenced(language, lines):
    """Return a fenced block that may hold fences."""
    return f"``````{language}\n{''.join(lines)}\n``````"


def homes():
    """Return the public names by the module or package that a `names` block lists."""
    found = {module: names(defined) for module, defined in cute._HOME.items()}
    top = {id(getattr(cute, name)) for each in found.values() for name in each}
    for package in (*cute._PACKAGES, "analysis.model"):
        module = attrgetter(package)(cute)
        listed = [name for name in getattr(module, "__all__", ()) if name not in CALLED]
        new = [name for name in listed if id(getattr(module, name)) not in top]
        found[package] = [package] * (package in CALLED) + [f"{package}.{name}" for name in new]
    return found | {"math": list(cute.math.PUBLIC), "torch": [f"torch.{each}" for each in OF_TORCH]}


def names(defined):
    """Return the names of an entry of `_HOME`."""
    return [name.partition("=")[0] for name in defined.split()]


def reference(match):
    """Return the documentation of the names of a `names` block."""
    text = [".. py:currentmodule:: cute_py", ""]
    for module in match[2].split():
        for name in homes()[module]:
            text += described(name)
    return fenced("{eval-rst}", "\n".join(text))


def value_of(name):
    """Return the value of a public name, such as `Layout` or `analysis.wave`."""
    return attrgetter(name)(cute)


def unloaded(name):
    """Return the directive of a name of `cute_py.torch` from its source, which needs no torch."""
    for path in (ROOT / "cute_py" / "torch").glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if getattr(node, "name", "") == name:
                is_class = isinstance(node, ast.ClassDef)
                named = [x for x in node.body if getattr(x, "name", "") == "__init__"]
                takes = "".join(ast.unparse(x.args) for x in (named if is_class else [node]))
                kind = "class" if is_class else "function"
                head = f"{kind}:: {name}({takes.removeprefix('self, ')})"
                said = ast.get_docstring(node).replace("*", r"\*")
                return written(head, said, "cute_py.torch")
    return written(f"data:: {name}", "", "cute_py.torch")


def written(head, docstring, module="cute_py"):
    """Return a directive with a docstring."""
    lines = str(GoogleDocstring(docstring)).splitlines()
    prose(None, "", "", None, None, lines)
    return [f".. py:{head}", f"   :module: {module}", "", *(f"   {line}" for line in lines), ""]


def described(name):
    """Return the directive that documents a public name."""
    if name.startswith("torch."):
        return unloaded(name.removeprefix("torch."))
    if name in CALLED:
        takes = stringify_signature(inspect.signature(CALLED[name]))
        return written(f"function:: {name}{takes}", inspect.getdoc(CALLED[name]))
    package, _, last = name.rpartition(".")
    value = value_of(name)
    place = f"cute_py.{package}::{last}" if package else f"cute_py::{last}"
    if inspect.isclass(value):
        return [f".. autoclass:: {place}", "   :members:", SPECIAL, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {place}", ""]
    home = ["   :module: " + f"cute_py.{package}".rstrip("."), f"   :value: {value!r}"]
    return [f".. py:data:: {last}", *home[: 2 if len(home[1]) < 400 else 1], ""]


def picture(match):
    """Return the picture of the expression of a `picture` block, and its link to the explorer."""
    options = dict(each.split("=") for each in match[1].split())
    if "bits" in options:
        options["bits"] = int(options["bits"])
    state = {"v": 1, "e": " ".join(match[2].split()), **options}
    value = evaluate(state["e"])
    if options or not hasattr(value, "_repr_html_"):
        value = cute.show(value, **options)
    link = f'<p><a href="../explorer/index.html{escape(link_of(state))}">Explore it</a></p>'
    parts = fenced("text", match[2]), fenced("{raw} html", value._repr_html_() + link)
    return "\n\n".join(parts)


BLOCKS = {"names": reference, "picture": picture}


def filled(text):
    """Return the text of a page with its blocks filled in."""
    for block, shown in BLOCKS.items():
        text = re.sub(rf"(?ms)^```{{{block}}}(.*?)$\n(.*?)^```$", shown, text)
    return text


def sought(docname, text):
    """Return the text of a page with what readers search for, as entries of the index."""
    for heading, words in SOUGHT.get(docname, {}).items():
        parts = text.partition(f"{heading}\n")
        assert parts[1], f"{docname} has no heading {heading!r}"
        main = ", ".join(f"! {word}" for word in words.split(", "))  # found before all else
        text = f"{parts[0]}{parts[1]}\n```{{index}} {main}\n```\n{parts[2]}"
    return text


def read(app, docname, content):
    """Change the source of a page into what the site shows."""
    path = app.env.doc2path(docname)
    if path.suffix == ".ipynb":
        content[0] = "\n\n".join(lesson(path))
    content[0] = sought(docname, filled(content[0]))
    if docname == root_doc:
        content[0] += "".join(toctrees())
    if docname == "docs/explorer":
        title, _, rest = content[0].partition("\n")
        link = '<p><a href="../explorer/index.html">Open the explorer</a>, in this browser.</p>'
        content[0] = f"{title}\n\n{link}\n{rest}"


# what begins a part of a docstring; methods that are shown though their names are not public
HEADS = re.compile(r"(?<!\S)(Law:|Source:|Raises(?= \w|$))")
SPECIAL = "   :special-members: __call__, __getitem__"


def prose(app, what, name, value, options, lines):
    """Make heads bold, and keep what is no markup: `Noun: text` of a property, |x|, `Name`s."""
    if what == "property":
        lines[:] = [*str(GoogleDocstring(inspect.getdoc(value))).splitlines(), ""]
    code = False
    for i, line in enumerate(lines):
        code = bool(line) and (code or line.lstrip().startswith(">>>"))
        if not code:
            line = HEADS.sub(r"**\1**", line.replace("|", r"\|"))
            line = re.sub(r"(`[\w.]+`)(?=\w)", r"\1\\ ", line)
            line = re.sub(r"`cute\.([\w.]+)`", r":py:obj:`cute.\1 <cute_py.\1>`", line)
            lines[i] = re.sub(r"^:ivar .*?:", lambda names: names[0].replace(", ", ","), line)


def mathml(block):
    """Return what renders formulas without a script, as inline text or as a block."""

    def render(translator, node):
        formula = tex2mathml(node.astext(), as_block=block)
        translator.body.append(f"<p>{formula}</p>" if block else formula)
        raise SkipNode

    return render, None


def drawn(app, env, added, changed, removed):
    """Return the pages to read again: what they show is not in files that Sphinx watches."""
    return [name for name in env.found_docs if name.startswith(("notebooks/", "docs/gallery"))]


def complete(app, error):
    """Add the explorer and the address of the site without a path."""
    if error:
        return
    (app.outdir / "explorer").mkdir(exist_ok=True)
    for name, data in explorer_files(None):
        (app.outdir / "explorer" / name).write_bytes(data)
    start = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
    (app.outdir / "index.html").write_text(start, encoding="utf-8")


def setup(app):
    """Connect what this file adds."""
    app.add_html_math_renderer("mathml", mathml(False), mathml(True))
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", prose, priority=900)
    app.connect("env-get-outdated", drawn)
    app.connect("build-finished", complete)
