"""What can go wrong, as one tree.

::

    LatentfitError
    ├── DataError (also ValueError)        the data cannot be used as given
    ├── FileFormatError                    a file is not what its name says
    ├── ModelFileError                     a model file is damaged or not ours
    └── NotIdentifiableError (also ValueError)   no answer exists: fewer than two workers, K above the rank

    Warning
    ├── sklearn.exceptions.ConvergenceWarning    the limit of iterations came first
    ├── IdentifiabilityWarning                   an answer was given, its verdict is not ``ok``
    └── DataWarning                              data was mended by a documented rule

Every message says what was found, where, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def reason_of(error: BaseException) -> str:
    """What another library says, as a part of our sentence: one line, printable, not too long.

    Parameters
    ----------
    error : BaseException
        The other library's error.

    Returns
    -------
    str
        Its message, shortened.

    Examples
    --------
    >>> from latentfit.core.errors import reason_of
    >>> reason_of(ValueError("two\\nlines."))
    'two lines'
    """
    words = " ".join(str(error).split()).rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:200]


LONGEST_MESSAGE = 1_300
"""Characters of a message; a broken file may have a column name of a megabyte."""
MOST_NAMED = 12
"""Names listed in a message; a table may have thousands of columns."""


def nearest(word: str, known: Sequence[str], listing: str) -> str:
    """The suggestion for an unknown word: the known one most like it, in any case, or else a list of those known.

    Parameters
    ----------
    word : str
        The unknown word.
    known : sequence of str
        The known words.
    listing : str
        How a list of them begins, such as ``"the columns are"``.

    Returns
    -------
    str
        The end of an error message.

    Examples
    --------
    >>> from latentfit.core.errors import nearest
    >>> nearest("Lable", ["task", "label"], "the columns are")
    "did you mean 'label'?"
    >>> nearest("zzz", ["task", "label"], "the columns are")
    'the columns are task, label'
    """
    lowered = {str(name).strip().lower(): str(name) for name in reversed(known)}
    close = difflib.get_close_matches(str(word).strip().lower(), lowered, 1)
    if close:
        return f"did you mean {lowered[close[0]]!r}?"
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"{listing} {', '.join(str(name) for name in known[:MOST_NAMED])}{more}"


class LatentfitError(Exception):
    """Base of all errors raised on purpose by Latentfit: printable and not too long, whatever cells it quotes.

    Examples
    --------
    >>> from latentfit.core.errors import DataError, LatentfitError
    >>> issubclass(DataError, LatentfitError)
    True
    """

    def __init__(self, message: object = "", *more: object) -> None:
        text = "".join(sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in str(message))
        cut = len(text) > LONGEST_MESSAGE
        super().__init__(f"{text[:800]} … {text[-400:]}" if cut else text, *more)


class DataError(LatentfitError, ValueError):
    """The data cannot be used as given.

    Examples
    --------
    >>> from latentfit import BernoulliMixture
    >>> from latentfit.core.errors import DataError
    >>> try:
    ...     BernoulliMixture().fit([["yes", "maybe"], ["no", "yes"]])
    ... except DataError:
    ...     print("refused")
    refused
    """


class FileFormatError(LatentfitError):
    """A file is not what its name says, or is broken at a named place.

    Examples
    --------
    >>> import tempfile
    >>> from latentfit import LatentClass, scan
    >>> from latentfit.core.errors import FileFormatError
    >>> with tempfile.NamedTemporaryFile("w", suffix=".parquet") as file:
    ...     try:
    ...         LatentClass().fit(scan(file.name))
    ...     except FileFormatError:
    ...         print("no Parquet")
    no Parquet
    """


class ModelFileError(LatentfitError):
    """A model file is damaged, inconsistent, or not a Latentfit model.

    Examples
    --------
    >>> import tempfile
    >>> from latentfit import load
    >>> from latentfit.core.errors import ModelFileError
    >>> with tempfile.NamedTemporaryFile("w", suffix=".latent") as file:
    ...     try:
    ...         load(file.name)
    ...     except ModelFileError:
    ...         print("no model")
    no model
    """


class NotIdentifiableError(LatentfitError, ValueError):
    """No answer exists for this data, whatever the method.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from latentfit import DawidSkene
    >>> from latentfit.core.errors import NotIdentifiableError
    >>> try:
    ...     DawidSkene().fit(pa.table({"task": ["a", "b"], "worker": ["x", "x"], "label": [0, 1]}))
    ... except NotIdentifiableError:
    ...     print("agreement needs two")
    agreement needs two
    """


class IdentifiabilityWarning(UserWarning):
    """An answer was given although the data does not determine it well.

    Examples
    --------
    >>> import warnings
    >>> from latentfit import TopicModel
    >>> from latentfit.core.errors import IdentifiabilityWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", IdentifiabilityWarning)  # `report_` says it too
    ...     model = TopicModel(2, max_iter=5, tol=0).fit([["tea", "milk"], ["soup", "salt"]] * 10)
    """


class DataWarning(UserWarning):
    """The data was mended by a documented rule; the message counts the cells.

    Examples
    --------
    >>> import warnings
    >>> from latentfit import LatentClass
    >>> from latentfit.core.errors import DataWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)              # nothing is to be mended
    ...     try:
    ...         LatentClass(1).fit([["grey", None], ["blue", None]])
    ...     except DataWarning:
    ...         print("a column without a value")
    a column without a value
    """
