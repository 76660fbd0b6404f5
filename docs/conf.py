"""The documentation's site: `./dev docs` builds it from these pages into site/, without the network.

Pages are plain Markdown that reads well on a code host too; what a site needs beyond it is done here: formulas become
MathML (no script from outside), and docstrings are taken as they are. The table of contents stands in index.md alone.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import latentfit
from latentfit.core.registry import FAMILIES, simulators

project = "Latentfit"
author = copyright = "The Latentfit developers"
release = version = latentfit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4  # links to headings work as they do on a code host

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True}
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_ivar = True
default_role = "code"  # docstrings say `name` where Markdown would
highlight_language = "none"

html_theme = "furo"
html_title = f"Latentfit {release}"
html_static_path = ["_static"]
html_css_files = ["latentfit.css"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(_mathml, None), block_renderers=(_mathml_block, None))
    app.connect("autodoc-skip-member", _skip_others)
    app.connect("autodoc-process-docstring", _attributes_as_definitions, priority=100)
    app.connect("source-read", _every_picture)


def _mathml(translator: Any, node: nodes.math) -> None:
    translator.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def _mathml_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(str(tex2mathml(node.astext(), as_block=True)))
    raise nodes.SkipNode


def _skip_others(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Only what Latentfit wrote: scikit-learn documents its own part of an estimator."""
    owner = getattr(getattr(thing, "fget", None) or getattr(thing, "func", None) or thing, "__module__", None)
    return True if owner is not None and not owner.startswith("latentfit") else None


def _every_picture(app: Sphinx, page: str, source: list[str]) -> None:
    """The page of pictures gets every function that draws, that of simulators everything they offer."""
    if page == "reference/plot":
        for module in (f"latentfit.{family.name}.plot" for family in FAMILIES):
            drawing = [name for name in vars(import_module(module)) if name.startswith("plot_")]
            source[0] += "".join(f"\n.. autofunction:: {module}.{name}\n" for name in drawing)
    if page == "reference/simulate":
        for module in simulators():
            for name in module.__all__:
                kind = "autoclass" if isinstance(getattr(module, name), type) else "autofunction"
                source[0] += f"\n.. {kind}:: {getattr(module, name).__module__}.{name}\n"


def _attributes_as_definitions(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """`name : what it is` under Attributes: the words are a description, not a type."""
    inside = False
    out: list[str] = []
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and set(lines[number + 1]) == {"-"}:
            inside = line.strip() == "Attributes"
        entry = re.fullmatch(r"(\w[\w, ]*) : (.*)", line) if inside else None
        out += [entry[1], f"    {entry[2]}"] if entry else [line]
    lines[:] = out
