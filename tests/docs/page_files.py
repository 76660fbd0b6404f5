"""Files that pages speak of and do not make themselves."""

from __future__ import annotations

FILES = {}
