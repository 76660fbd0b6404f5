"""The paper index (docs/algorithms/index.md) and the docstrings say the same.

The rule:

1. *Targets.* `folder/file.py: name` in the last column of a paper's table is importable under `latentfit`; `latentfit
reproduce
   key` is a key of the command, and its function stands in the same row.
2. *Named back.* The own docstring of every target of a row (a file's: its module docstring) names every item of the
   row, and it or its module names the paper by one of the names in "Docstrings call it". An item is named by itself, by
   a range or list that holds it, (13a) also by (13), and (13) by one of its parts.
3. *Nothing forgotten.* Every item under "Numbered in the paper" stands in the table or under "Not used", not in both.
   Rows may also hold sections and appendices, which no paper is asked for in full.
4. *No drift.* What a module of moments/, factor/, refine/ or diagnose/ names under `Paper` of one of the five stands in
   that paper's table; each clause (between ";" and full stops) belongs to the last of the five named so far, unless it
   names somebody else's year.
5. *Heads.* Every module of factor/ and moments/, and every module of refine/ and diagnose/ that holds an item, cites a
   year, has one of the five lines or defines a class `…Steps`, opens with Paper, Needs, Promises, Differs, Symbols in
   this order.
6. *Others.* The last table names every module with a `Paper` line that cites somebody outside the five, and each row's
   authors and year stand in that module's docstring.
"""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from latentfit.core.registry import FAMILIES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "latentfit"
PAGE = (ROOT / "docs" / "algorithms" / "index.md").read_text(encoding="utf-8")
HEAD = ("Paper", "Needs", "Promises", "Differs", "Symbols")
WORDS = (
    "theorem|lemma|proposition|corollary|definition|assumption|claim|table|figure|remark|example|algorithm|"
    "section|appendix"
)
PRINTED = ("table", "figure")
UNCOUNTED = ("section", "appendix")
YEAR = r"\b(?:19|20)\d\d\b"
ROMAN = {"I": "1", "II": "2", "III": "3", "IV": "4"}

# ------------------------------------------------------------------ items

Item = tuple[str, str]
"""Kind and number: ("equation", "13a"), ("lemma", "A.1"), ("condition", "1") for (I)."""

_NUMBER = r"(?:[A-F]\.)?\d{1,2}(?:\.\d{1,2})?"
_EQUATION = re.compile(rf"(?<![\w\])])\(({_NUMBER}[a-c]?|I{{1,2}})\)(?:\s*[–-]\s*\(({_NUMBER}[a-c]?|I{{1,2}})\))?")
_LABEL = rf"(?:{_NUMBER}|[IV]+\b|[A-N]\b)"
_NAMED = re.compile(
    rf"\b(?i:({WORDS}|corollarie|lemmata)s?)\s+({_LABEL}(?:(?:\s*[–-]\s*|,\s+|\s+and\s+|,\s+and\s+){_LABEL})*)"
)


def items_in(text: str) -> set[Item]:
    """Every numbered item a text names; ranges and lists are taken apart."""
    found: set[Item] = set()
    for match in _EQUATION.finditer(text):
        kind = "condition" if match[1] in ROMAN else "equation"
        found |= {(kind, number) for number in _range(match[1], match[2] or match[1])}
    for match in _NAMED.finditer(text):
        kind = {"corollarie": "corollary", "lemmata": "lemma"}.get(match[1].lower(), match[1].lower())
        for part in re.split(r",\s+and\s+|,\s+|\s+and\s+", match[2]):
            ends = re.split(r"\s*[–-]\s*", part)
            found |= {(kind, number) for number in _range(ends[0], ends[-1])}
    return found


def _range(first: str, last: str) -> list[str]:
    first, last = ROMAN.get(first, first), ROMAN.get(last, last)
    if first == last:
        return [first]
    begin, end = (re.fullmatch(r"((?:[A-F]\.)?(?:\d+\.)?)(\d+)([a-c]?)", number) for number in (first, last))
    if begin is None or end is None or begin[1] != end[1]:
        raise ValueError(f"{first} to {last} is no range")
    if begin[2] == end[2]:
        return [f"{begin[1]}{begin[2]}{chr(letter)}" for letter in range(ord(begin[3]), ord(end[3]) + 1)]
    return [f"{begin[1]}{number}" for number in range(int(begin[2]), int(end[2]) + 1)]


def whole(item: Item) -> Item:
    """(13) of (13a)."""
    return item[0], item[1].rstrip("abc")


def is_named(item: Item, named: set[Item]) -> bool:
    return item in named or whole(item) in named or (item == whole(item) and item in {whole(one) for one in named})


# ------------------------------------------------------------------- page


@dataclass(frozen=True)
class Row:
    item: str
    targets: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    title: str
    names: tuple[str, ...]
    numbered: str
    rows: tuple[Row, ...]
    unused: str


def _rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:]]


def _bullet(section: str, begin: str) -> str:
    found = re.search(rf"^- {begin}:(.*?)(?=^- |^$)", section, re.S | re.M)
    assert found, f"no line '- {begin}:'"
    return " ".join(found[1].split())


def _paper(section: str) -> Paper:
    rows = []
    for item, _, where in _rows(section):
        quoted = re.findall(r"`([^`]+)`", where)
        commands = tuple(one.removeprefix("./dev reproduce ") for one in quoted if one.startswith("./dev "))
        rows.append(Row(item, tuple(one for one in quoted if not one.startswith("./dev ")), commands))
    names = tuple(name.strip().removeprefix("the ") for name in _bullet(section, "Docstrings call it").split(";"))
    unused = "\n".join(line for line in section.split("Not used:")[1].splitlines() if line.startswith("- "))
    return Paper(section.splitlines()[0], names, _bullet(section, "Numbered in the paper"), tuple(rows), unused)


_SECTIONS = re.split(r"^## ", PAGE, flags=re.M)[1:]
PAPERS = [_paper(section) for section in _SECTIONS[:-1]]
OTHERS = _rows(_SECTIONS[-1])
EVERY_ROW = [(paper, row) for paper in PAPERS for row in paper.rows]


# ------------------------------------------------------------------- code


def module_of(path: str) -> Any:
    name = path.removesuffix(".py").replace("/", ".")
    return importlib.import_module(name if name.startswith("reproduction.") else f"latentfit.{name}")


def found(target: str) -> Any:
    path, _, name = target.partition(": ")
    thing = module_of(path)
    for part in name.split(".") if name else ():
        thing = getattr(thing, part)
    return thing


@cache
def head_of(path: str) -> str:
    """The docstring of a module, and the comments that open its further parts."""
    text = ((ROOT if path.startswith("reproduction/") else SOURCE) / path).read_text(encoding="utf-8")
    parts = re.findall(r"^# -{70,}\n((?:#.*\n)+)", text, re.M)
    openings = [re.sub(r"^# ?", "", part, flags=re.M) for part in parts]
    return "\n".join([ast.get_docstring(ast.parse(text)) or "", *openings])


def block(docstring: str, key: str) -> str | None:
    """The lines under a key of a module's head; None without it."""
    there = re.search(rf"^{key}s?(?: {{2,}}|$)(.*?)(?=^\S|\Z)", docstring, re.S | re.M)
    return there[1] if there else None


def modules() -> list[str]:
    """Modules of the families and of what they share; those of kernels hold no algorithm."""
    folders = ("core", *(family.name for family in FAMILIES))
    return sorted(
        path.relative_to(SOURCE).as_posix()
        for folder in folders
        for path in (SOURCE / folder).rglob("*.py")
        if path.name != "__init__.py" and "kernels" not in path.parts
    )


def names_paper(text: str, paper: Paper) -> bool:
    return any(name in " ".join(text.split()) for name in paper.names)


def clauses_of(cited: str) -> list[tuple[Paper | None, str]]:
    """The clauses of a `Paper` block, each with the one of the five it speaks of."""
    out: list[tuple[Paper | None, str]] = []
    now: Paper | None = None
    for clause in re.split(r";|(?<!et al)\.\s", cited):
        spoken = next((paper for paper in PAPERS if names_paper(clause, paper)), None)
        foreign = spoken is None and re.search(YEAR, clause)
        now = spoken or (None if foreign else now)
        out.append((now, clause))
    return out


# ------------------------------------------------------------------ tests


def _title(case: tuple[Paper, Row]) -> str:
    return f"{case[0].title.split(':')[0]} {case[1].item}".replace(" ", "_").replace("–", "-")


@pytest.mark.parametrize("case", EVERY_ROW, ids=_title)
def test_targets_exist_and_name_their_items(case):
    paper, row = case
    items = items_in(row.item)
    assert items, f"no item in {row.item!r}"
    assert row.targets, f"{row.item} has no target"
    for target in row.targets:
        docstring = found(target).__doc__ or ""
        named = items_in(docstring)
        missing = sorted(number for number in items if not is_named(number, named))
        assert not missing, f"the docstring of {target} does not name {missing}"
        path = target.partition(": ")[0]
        assert names_paper(docstring + head_of(path), paper), f"{target} does not say that it is of {paper.names[0]}"


@pytest.mark.parametrize("case", [case for case in EVERY_ROW if case[1].commands], ids=_title)
def test_commands_are_keys_of_their_functions(case):
    from reproduction import KEYS

    for key in case[1].commands:
        assert key in KEYS, f"./dev reproduce {key} is no command"
        functions = [target.split(": ")[-1] for target in case[1].targets if target.startswith("reproduction/")]
        assert key.split(":")[1] in functions, f"{key} is not made by {functions}"


def test_every_printed_table_and_figure_has_its_command():
    for paper, row in EVERY_ROW:
        wanted = any(kind in PRINTED for kind, _ in items_in(row.item)) and row.item != "Table 8"  # a list, not results
        assert bool(row.commands) or not wanted, f"{paper.title}: {row.item} names no command"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.title.split(":")[0].replace(" ", "_"))
def test_every_item_is_used_or_said_not_to_be(paper):
    numbered = items_in(paper.numbered)
    used = {whole(item) for row in paper.rows for item in items_in(row.item) if item[0] not in UNCOUNTED}
    unused = {item for line in paper.unused.splitlines() for item in items_in(line.split(": ")[0])}
    assert not used & unused, f"both used and not: {sorted(used & unused)}"
    assert not numbered - used - unused, f"said nothing of: {sorted(numbered - used - unused)}"
    assert not (used | unused) - numbered, f"not in the paper: {sorted((used | unused) - numbered)}"


@pytest.mark.parametrize("path", modules())
def test_what_a_module_cites_is_in_the_index(path):
    for paper, clause in clauses_of(block(head_of(path), "Paper") or ""):
        if paper is not None:
            used = {item for row in paper.rows for item in items_in(row.item)}
            cited = {item for item in items_in(clause) if item[0] not in UNCOUNTED}
            missing = sorted(item for item in cited if not is_named(item, used))
            assert not missing, f"{path} cites {missing} of {paper.title}, which the index does not have"


def _with_heads() -> list[str]:
    return [path for path in modules() if block(head_of(path), "Paper") is not None or _has_steps(path)]


def _has_steps(path: str) -> bool:
    return re.search(r"^class \w*Steps\b", (SOURCE / path).read_text(encoding="utf-8"), re.M) is not None


@pytest.mark.parametrize("path", _with_heads())
def test_algorithm_modules_open_with_the_same_head(path):
    head = head_of(path)
    places = [re.search(rf"^{key}s?(?: {{2,}}|$)", head, re.M) for key in HEAD]
    missing = [key for key, place in zip(HEAD, places, strict=True) if place is None]
    assert not missing, f"{path} has no {missing}"
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts), f"{path}: the order is {HEAD}"


def _cites_others(path: str) -> bool:
    cited = block(head_of(path), "Paper") or ""
    return any(paper is None and re.search(YEAR, clause) for paper, clause in clauses_of(cited))


def test_papers_by_others_are_listed():
    listed = [row[0].strip("`") for row in OTHERS]
    assert listed == sorted(set(listed)), "the last table is in the order of the modules, each once"
    citing = {path for path in modules() if _cites_others(path)}
    assert not citing - set(listed), f"not in the last table: {sorted(citing - set(listed))}"


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row[0].strip("`"))
def test_papers_by_others_stand_in_their_modules(row):
    head = " ".join(head_of(row[0].strip("`")).split())
    for cited in row[1].split("; "):
        authors, year = re.match(r"([^\d]*?),? \(?((?:18|19|20)\d\d)", cited).groups()  # type: ignore[union-attr]
        surname = re.split(r",| & | et al", authors)[0]
        assert surname in head, f"{row[0]} does not name {surname}"
        assert year in head, f"{row[0]} does not name {year}"


# ------------------------------------------------------- the reader itself


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("alternate (13a)–(13c)", {("equation", "13a"), ("equation", "13b"), ("equation", "13c")}),
        ("(7)–(8), (A.17)", {("equation", "7"), ("equation", "8"), ("equation", "A.17")}),
        ("Theorems 2.1 and 2.2", {("theorem", "2.1"), ("theorem", "2.2")}),
        ("Lemmas 4.1–4.2, A.1 and A.3", {("lemma", "4.1"), ("lemma", "4.2"), ("lemma", "A.1"), ("lemma", "A.3")}),
        ("Tables I–III", {("table", "1"), ("table", "2"), ("table", "3")}),
        ("definitions 1–2", {("definition", "1"), ("definition", "2")}),
        ("Corollaries 1.5 and 1.7", {("corollary", "1.5"), ("corollary", "1.7")}),
        ("condition (II), Appendix J", {("condition", "2"), ("appendix", "J")}),
        ("Claim\n          3.8", {("claim", "3.8")}),
        ("LatentClass(2), weights (2,), in 2018 (ICML 2018), Algorithm 1's", {("algorithm", "1")}),
    ],
)  # fmt: skip
def test_items_are_read_from_words(text, items):
    assert items_in(text) == items
