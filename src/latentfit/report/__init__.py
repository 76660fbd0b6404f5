"""One self-contained page per result: what was found, and what the checks say.

`page.py` says what a page is made of, `render.py` turns it into HTML, `charts.py` builds the pictures, and every door
has a module that makes a `Page` of its fitted model (`doors.py` leads from the model to it).
"""
