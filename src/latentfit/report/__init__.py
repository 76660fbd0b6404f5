"""One self-contained page per result: what was found, and what the checks say.

`page.py` says what a page is made of, `render.py` turns it into HTML, `charts.py` builds the charts. Every family has a
module `page` that makes a `Page` of its fitted model; `assemble.py` finds it through the registry.
"""
