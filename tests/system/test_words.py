"""The field's words: what a reader of scikit-learn or hmmlearn knows, and no name or phrase of a private dialect.

Left in `IDENTIFIERS` and `PHRASES` is what must not be written, right what to write instead. Identifiers are compared
part by part (`n_gaps` has the parts n and gaps), so that ordinary English in comments and documents is left alone;
phrases are looked for in all text of the source (docstrings, comments, messages) and of the documentation.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src" / "latentfit").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted(path for kind in ("md", "rst") for path in (ROOT / "docs").rglob(f"*.{kind}"))]

IDENTIFIERS = {
    r"climb(s|ed|ing)?": "EM run",
    r"leaps?": "extrapolation",
    r"entrants?|race|raced": "candidate, selection",
    r"halve": "successive halving",
    r"begun|stood": "solver state, resume_from",
    r"polish(ed)?": "refine",
    r"belie(f|fs|ved)": "posterior",
    r"cooled|calm": "tempered",
    r"told|tell": "report, callback",
    r"talk": "console",
    r"meetings": "co-annotation",
    r"corners?": "anchors",
    r"gaps?": "missing values",
    r"silent|speaking": "noninformative, informative",
    r"charges?": "penalty",
    r"shares?": "proportions",
    r"chances?": "probability",
    r"beside": "auxiliary array",
    r"doors?": "model family",
    r"story": "fit history",
    r"doubt(s|ed)?": "finding",
    r"cures?": "suggestion",
    r"strangers?": "unseen annotator",
    r"lease": "file handle",
}
"""Parts of identifiers, and what to write instead."""
PUBLIC = {
    "spectral_gap": "the spectral gap of a Markov chain, a term of the field",
    "eigenvalue_gap": "the distance of eigenvalues, a term of the field",
    "eigengap": "the distance of eigenvalues, a term of the field",
    "belief": "the belief-propagation kernels: the algorithm's name",
    "pseudo_shares_": "attribute of TopicModel that stored fits name",
    "pseudo_shares": "entry of the model files of TopicModel",
    "chance_accuracy": "accuracy at chance level, a term of the field",
    "chance_margin": "what chance alone gives, a term of the field",
    "by_chance": "what chance alone gives, a term of the field",
    "gain_by_chance": "what chance alone gives, a term of the field",
    "belief_sums": "a belief-propagation kernel",
    "belief_sweeps": "a belief-propagation kernel",
    "silent": "argument of click",
    "gap": "an eigengap, or the option --gap of the command hmm",
}
"""Identifiers that may stay, each with the reason."""
PHRASES = {
    r"\bclimb(s|ed|ing)?\b": "EM run",
    r"\bleaps?\b": "extrapolation",
    r"\bentrants?\b": "candidate",
    r"\bstood still\b": "converged",
    r"\bpolish(es|ed|ing)?\b": "refine by EM",
    r"\bbeliefs\b|\bbelieved\b|\bbelief\b(?!.propagation|\.cpp| import|_|$)": "posterior",
    r"\bcooled\b|\bcalm(er)?\b": "tempered",
    r"\bmeetings\b|\bmet whom\b": "co-annotation",
    r"\bmixing law": "mixing distribution",
    r"\bnear.cop(y|ies)\b": "near-duplicate columns",
    r"\b(nats|bits|seconds) an? (row|task|label|word|document|cell|token|step|symbol|item)\b": "per",
    r"\b(\d+|two|three|four|five|few|fewer|many|more) labels a (task|row|worker)\b": "labels per task",
    r"\b(in|with|without|has|have|its|no|of|allows?|for|the) gaps\b": "missing values",
    r"\bspeaking columns?\b|\bsilent columns?\b": "(non)informative variables",
    r"\bcharge[sd]?\b": "penalty",
    r"\bchances? (of|that|to)\b": "probability",
    r"\bRaggedCells\b": "CSR rows",
    r"\bstrangers?\b": "unseen annotator",
    r"\bleases?\b": "file handle",
    r"\bpass(es)? of EM\b|\bEM pass(es)?\b": "iteration",
    r"\bevery door\b|\ball doors\b|\bits door\b": "model family",
    r"\bthe cure\b": "suggestion",
    r"\bis not there\b|\bare not there\b": "does not exist",
}
"""Phrases in text, and what to write instead."""


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Every name of a module and its line."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def offending_identifiers(path: Path) -> list[str]:
    found = []
    for line, name in identifiers(path):
        if name in PUBLIC:
            continue
        parts = [part for word in name.split("_") for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word)]
        for banned, instead in IDENTIFIERS.items():
            if any(re.fullmatch(banned, part, re.I) for part in parts):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name} ({instead})")
    return found


def offending_phrases(path: Path) -> list[str]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for banned, instead in PHRASES.items():
            match = re.search(banned, line, re.I)
            if match is not None:
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()!r} ({instead})")
    return found


@pytest.mark.parametrize("package", sorted({path.relative_to(ROOT / "src" / "latentfit").parts[0] for path in SOURCE}))
def test_names_of_the_source_are_words_of_the_field(package):
    paths = [path for path in SOURCE if path.relative_to(ROOT / "src" / "latentfit").parts[0] == package]
    found = [line for path in paths for line in dict.fromkeys(offending_identifiers(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", sorted({path.relative_to(ROOT / "src" / "latentfit").parts[0] for path in SOURCE}))
def test_texts_of_the_source_are_words_of_the_field(package):
    paths = [path for path in SOURCE if path.relative_to(ROOT / "src" / "latentfit").parts[0] == package]
    found = [line for path in paths for line in offending_phrases(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_in_words_of_the_field(page):
    found = offending_phrases(page)
    assert not found, "\n".join(found)
