"""Questions to a joint distribution, as people write them: ``P(safety=high, class | price=low)``.

::

    question  = "P" "(" term {"," term} [given] ")"        a probability; a bare column asks for its distribution
              | "E" "(" name [given] ")"                   expected value of a column of numbers
              | "H" "(" names [given] ")"                  entropy in nats
              | "I" "(" names ";" names [given] ")"        mutual information in nats
    given     = "|" fact {"," fact}
    term      = name | fact
    fact      = name "=" value
    names     = name {"," name}
    name, value = a word, or anything between double or single quotes (a doubled quote inside stands for itself)

A word runs up to the next of ``( ) , ; | =``, so spaces inside need no quotes: ``P(stalk root=b)``. Numbers match
categories that are numbers (``doors=4`` and ``doors=4.0``), and in a column cut into intervals the interval they fall
into. Every error points at the character.

>>> import pandas as pd
>>> from latentfit import LatentClass
>>> from latentfit.tables.estimator.query import ask
>>> joint = LatentClass(1).fit(pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})).joint_
>>> print(ask(joint, "P(rain | sky=grey)"))
rain  probability
no         0.5000
yes        0.5000
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from latentfit.core.errors import DataError, nearest
from latentfit.core.kernels import Floats
from latentfit.core.mixture.joint import JointPMF
from latentfit.core.table.table import Column

SIGNS = "(),;|="
QUOTES = "\"'"
MAX_ROWS = 100_000  # Rows of the largest answer: a person reads fewer, a program asks twice.

Kind = Literal["P", "E", "H", "I"]
BEGINNING = "a question begins with P(…), E(…), H(…) or I(…)"
UNITS: dict[str, str] = {"P": "probability", "E": "expectation", "H": "entropy", "I": "information"}


class QueryError(DataError):
    """A question that cannot be read or answered; the message points at the character.

    Parameters
    ----------
    sentence : str
        What is wrong.
    question : str
        The question.
    at : int
        Index of the character.

    Attributes
    ----------
    sentence, question, at
        As the parameters.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.tables.estimator.query import QueryError, ask
    >>> import pandas as pd
    >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(weather).joint_
    >>> try:
    ...     ask(joint, "P(snow)")
    ... except QueryError as error:
    ...     print(error.at)
    2
    """

    def __init__(self, sentence: str, question: str, at: int) -> None:
        line = question.replace("\n", " ").replace("\t", " ")
        super().__init__(f"{sentence}\n  {line}\n  {' ' * at}^")
        self.sentence, self.question, self.at = sentence, question, at


@dataclass(frozen=True)
class Question:
    """What was asked, in the model's own names and categories.

    Attributes
    ----------
    kind : {"P", "E", "H", "I"}
        Probability, expectation, entropy or mutual information.
    asked : tuple
        Columns whose distribution (P), value (E), entropy (H) or left side (I) is asked.
    event : dict
        Facts before the bar, by column.
    given : dict
        Facts after the bar, by column.
    other : tuple
        Columns on the right side of I.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.tables.estimator.query import parse
    >>> import pandas as pd
    >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(weather).joint_
    >>> asked = parse(joint, "I(rain; sky)")
    >>> asked.kind, asked.asked, asked.other
    ('I', ('rain',), ('sky',))
    """

    kind: Kind
    asked: tuple[Any, ...]
    event: dict[Any, Any]
    given: dict[Any, Any]
    other: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Numbers and what they are of: one row per combination of the asked columns, one row alone for a number.

    Attributes
    ----------
    question : str
        The question.
    kind : {"P", "E", "H", "I"}
        Probability, expectation, entropy or mutual information.
    columns : tuple of str
        The asked columns; empty where the answer is a number.
    rows : tuple of tuple
        Categories of the asked columns.
    values : ndarray of shape (n_rows,)
        The number of every row.
    notes : tuple of str
        How the question was read, where that may surprise.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.tables.estimator.query import ask
    >>> import pandas as pd
    >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(weather).joint_
    >>> ask(joint, "P(rain)").as_columns()["rain"]
    ['no', 'yes']
    """

    question: str
    kind: Kind
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    values: Floats
    notes: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        return not self.columns

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the answer as named columns.

        Returns
        -------
        columns : dict of str to list
            The asked columns, and the numbers under the name of what they are.
        """
        unit = UNITS[self.kind]
        while unit in self.columns:
            unit += "_"
        named = {name: [row[n] for row in self.rows] for n, name in enumerate(self.columns)}
        return named | {unit: self.values.tolist()}

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON holds it.

        Returns
        -------
        answer : dict
            The question with a number or with rows, and the notes.
        """
        notes = {"notes": list(self.notes)} if self.notes else {}
        if self.is_number:
            return {"question": self.question, UNITS[self.kind]: float(self.values[0]), **notes}
        columns = self.as_columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {"question": self.question, "rows": rows, **notes}

    def __str__(self) -> str:
        if self.is_number:
            return f"{self.values[0]:.6g}"
        table = [[*self.columns, UNITS[self.kind]]]
        table += [[*map(str, row), f"{value:.4f}"] for row, value in zip(self.rows, self.values, strict=True)]
        widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)),
                            line[-1].rjust(widths[-1])]) for line in table]  # fmt: skip
        return "\n".join(lines)


def ask(joint: JointPMF, question: str) -> Answer:
    """Read a question and answer it.

    Parameters
    ----------
    joint : JointPMF
        The joint distribution of a model, `LatentClass.joint_`.
    question : str
        The question; see the module for its grammar.

    Returns
    -------
    answer : Answer
        Numbers with the categories they belong to.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.tables.estimator.query import ask
    >>> import pandas as pd
    >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(weather).joint_
    >>> answer = ask(joint, "P(rain=yes | sky=grey)")
    >>> answer.is_number, bool(answer.values[0] > 0.9)
    (True, True)
    """
    parsed = parse(joint, question)
    try:
        return replace(_answer(joint, parsed, question), notes=_interval_notes(joint, parsed))
    except QueryError:
        raise
    except DataError as error:
        raise QueryError(str(error), question, 0) from None


def _interval_notes(joint: JointPMF, asked: Question) -> tuple[str, ...]:
    """A number stands for the interval that it falls into, which the answer must say."""
    notes = []
    for name, value in {**asked.event, **asked.given}.items():
        column = joint.columns[joint.index(name)]
        if column.edges is not None and not isinstance(value, str):
            interval = column.categories[column.code_of(value)]
            notes.append(f"{name}={value:g} is answered for the whole interval it falls into: {name} {interval}")
    return tuple(notes)


def _answer(joint: JointPMF, asked: Question, question: str) -> Answer:
    number: float | None = None
    if asked.kind == "E":
        number = joint.expect(asked.asked[0], asked.given)
    elif asked.kind == "H":
        number = joint.entropy(list(asked.asked), asked.given)
    elif asked.kind == "I":
        number = joint.mutual_information(list(asked.asked), list(asked.other), asked.given)
    elif not asked.asked:
        number = joint.prob(asked.event, asked.given)
    if number is not None:
        return Answer(question, asked.kind, (), (), np.array([number]))
    proportion = joint.prob(asked.event, asked.given)  # P(event, columns | given) = P(event | given) P(columns | both)
    if proportion > 0:
        table = np.asarray(joint.marginal(list(asked.asked), {**asked.given, **asked.event})) * proportion
    else:
        table = np.zeros([joint.columns[joint.index(name)].size for name in asked.asked])
    if table.size > MAX_ROWS:
        raise DataError(f"the answer has {table.size:,} rows, at most {MAX_ROWS:,} are given; ask for fewer columns")
    categories = [joint.columns[joint.index(name)].categories.tolist() for name in asked.asked]
    rows = tuple(tuple(categories[axis][code] for axis, code in enumerate(cell)) for cell in np.ndindex(*table.shape))
    return Answer(question, "P", tuple(str(name) for name in asked.asked), rows, table.reshape(-1))


# Reading: a cursor that walks the question, one method per rule of the grammar -------------------------------


@dataclass(frozen=True)
class _Token:
    """A name or value with its place."""

    text: str
    at: int
    quoted: bool


def parse(joint: JointPMF, question: str) -> Question:
    """The question in the model's names; whatever is wrong is a `QueryError` with its place.

    Parameters
    ----------
    joint : JointPMF
        The joint distribution of a model, `LatentClass.joint_`.
    question : str
        The question; see the module for its grammar.

    Returns
    -------
    parsed : Question
        Columns and facts under the model's names.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.tables.estimator.query import parse
    >>> import pandas as pd
    >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(weather).joint_
    >>> parse(joint, "P(rain | sky=grey)").given
    {'sky': 'grey'}
    """
    return _Reader(joint, question).question()


class _Reader:
    def __init__(self, joint: JointPMF, text: str) -> None:
        self.text, self.at = text, 0
        self.names = {str(column.name): column for column in joint.columns}

    def question(self) -> Question:
        kind = self._kind()
        self._expect("(")
        asked: list[Any] = []
        other: list[Any] = []
        event: dict[Any, Any] = {}
        if kind == "P":
            self._terms(asked, event)
        elif kind == "E":
            asked.append(self._name([]))
            if self._peek() == ",":
                raise self._error("E(…) takes one column; ask for each of them", self.at)
        else:
            self._names(asked)
        if kind == "I":
            self._expect(";", "I(…) wants two sides, like I(a; b)")
            self._names(other)
        given: dict[Any, Any] = {}
        if self._take("|"):
            self._facts(given, [*asked, *other, *event])
        self._expect(")")
        self._skip()
        if self.at < len(self.text):
            raise self._error("the question ends at its closing bracket; remove what follows", self.at)
        return Question(kind, tuple(asked), event, given, tuple(other))

    def _kind(self) -> Kind:
        token = self._token(BEGINNING)
        kind = token.text.upper()
        if kind not in UNITS:
            raise self._error(BEGINNING, token.at)
        return kind  # type: ignore[return-value]

    def _terms(self, asked: list[Any], event: dict[Any, Any]) -> None:
        for _ in self._between_commas():
            column = self._column([*asked, *event])
            if self._take("="):
                event[column.name] = self._value(column)
            else:
                asked.append(column.name)

    def _names(self, names: list[Any]) -> None:
        for _ in self._between_commas():
            names.append(self._name(names))

    def _name(self, taken: list[Any]) -> Any:
        at = self._skip()
        column = self._column(taken)
        if self._peek() == "=":
            raise self._error("facts come after the bar |; before it stand names of columns only", at)
        return column.name

    def _facts(self, given: dict[Any, Any], taken: list[Any]) -> None:
        for _ in self._between_commas():
            column = self._column([*taken, *given])
            self._expect("=", f"after the bar every column has a value, like {_spell(column.name)}=…")
            given[column.name] = self._value(column)

    def _column(self, taken: list[Any]) -> Column:
        token = self._token("here a column is missing")
        column = self.names.get(token.text)
        if column is None:
            near = nearest(token.text, list(self.names), "the columns are")
            raise self._error(f"there is no column {token.text!r}; {near}", token.at)
        if column.name in taken:
            raise self._error(f"column {token.text!r} stands here twice; name it once", token.at)
        return column

    def _value(self, column: Column) -> Any:
        token = self._token(f"here a category of {column.name!r} is missing")
        category = _category(column, token)
        if category is None:
            near = nearest(token.text, [str(value) for value in column.categories.tolist()], "its categories are")
            raise self._error(f"column {column.name!r} has no category {token.text!r}; {near}", token.at)
        return category

    # ---------------------------------------------------------- characters

    def _between_commas(self) -> Iterator[None]:
        """The parts of a list, one after another; whoever walks reads them."""
        yield
        while self._take(","):
            yield

    def _skip(self) -> int:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def _peek(self) -> str:
        return self.text[self._skip() : self.at + 1]

    def _take(self, sign: str) -> bool:
        matches = self._peek() == sign
        self.at += matches
        return matches

    def _expect(self, sign: str, why: str = "") -> None:
        if not self._take(sign):
            raise self._error(f"expected {sign!r} here, found {self._there()}" + (f"; {why}" if why else ""), self.at)

    def _token(self, missing: str) -> _Token:
        begin = self._skip()
        if self._peek() in QUOTES and self._peek():
            return self._quoted(begin)
        while self.at < len(self.text) and self.text[self.at] not in SIGNS:
            self.at += 1
        text = self.text[begin : self.at].rstrip()
        if not text:
            raise self._error(f"{missing}, found {self._there()}", begin)
        return _Token(text, begin, False)

    def _there(self) -> str:
        """The next sign, for a message."""
        return repr(self._peek()) if self._peek() else "the end"

    def _quoted(self, begin: int) -> _Token:
        quote, text = self.text[begin], ""
        self.at = begin + 1
        while True:
            end = self.text.find(quote, self.at)
            if end < 0:
                raise self._error(f"the quote {quote} that opens here is never closed", begin)
            text += self.text[self.at : end]
            self.at = end + 1
            if self.text[self.at : self.at + 1] != quote:
                return _Token(text, begin, True)
            text += quote
            self.at += 1

    def _error(self, sentence: str, at: int) -> QueryError:
        return QueryError(sentence, self.text, at)


def _category(column: Column, token: _Token) -> Any:
    """The category that a word means: spelled the same, the same truth value, or the same number."""
    values = column.categories.tolist()
    for value in values:
        if str(value) == token.text:
            return value
    if token.quoted and column.categories.dtype.kind == "O":
        return None
    if column.categories.dtype.kind == "b":
        return {"true": True, "false": False}.get(token.text.lower())
    try:
        number = float(token.text)
    except ValueError:
        return None
    if column.edges is not None:
        return number if np.isfinite(number) else None
    return next((value for value in values if not isinstance(value, str) and value == number), None)


def _spell(name: Any) -> str:
    text = str(name)
    return f'"{text}"' if any(sign in text for sign in SIGNS) else text
