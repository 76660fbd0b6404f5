"""What can go wrong, as one tree.

::

    TacitError
    ├── DataError (also ValueError)        the data cannot be used as given
    ├── FileFormatError                    a file is not what its name says
    ├── ModelFileError                     a model file is damaged or not ours
    └── NotIdentifiableError (also ValueError)   no answer exists: fewer than two workers, K above the rank

    Warning
    ├── sklearn.exceptions.ConvergenceWarning    the limit of iterations came first
    ├── IdentifiabilityWarning                   an answer was given, its verdict is not ``trusted``
    └── DataWarning                              data was mended by a documented rule

Every message says what was found, where, and what to do.
"""

from __future__ import annotations


class TacitError(Exception):
    """Base of all errors raised on purpose by Tacit.

    Examples
    --------
    >>> from tacit.errors import DataError, TacitError
    >>> issubclass(DataError, TacitError)
    True
    """


class DataError(TacitError, ValueError):
    """The data cannot be used as given.

    Examples
    --------
    >>> from tacit import BernoulliMixture
    >>> from tacit.errors import DataError
    >>> try:
    ...     BernoulliMixture().fit([["yes", "maybe"], ["no", "yes"]])
    ... except DataError:
    ...     print("refused")
    refused
    """


class FileFormatError(TacitError):
    """A file is not what its name says, or is broken at a named place.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import LatentClass, scan
    >>> from tacit.errors import FileFormatError
    >>> with tempfile.NamedTemporaryFile("w", suffix=".parquet") as file:
    ...     try:
    ...         LatentClass().fit(scan(file.name))
    ...     except FileFormatError:
    ...         print("no Parquet")
    no Parquet
    """


class ModelFileError(TacitError):
    """A model file is damaged, inconsistent, or not a Tacit model.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import load
    >>> from tacit.errors import ModelFileError
    >>> with tempfile.NamedTemporaryFile("w", suffix=".tacit") as file:
    ...     try:
    ...         load(file.name)
    ...     except ModelFileError:
    ...         print("no model")
    no model
    """


class NotIdentifiableError(TacitError, ValueError):
    """No answer exists for this data, whatever the method.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tacit import DawidSkene
    >>> from tacit.errors import NotIdentifiableError
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
    >>> from tacit import TopicModel
    >>> from tacit.errors import IdentifiabilityWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", IdentifiabilityWarning)  # `report_` says it too
    ...     model = TopicModel(2, max_iter=5, tol=0).fit([["tea", "milk"], ["soup", "salt"]] * 10)
    """


class DataWarning(UserWarning):
    """The data was mended by a documented rule; the message counts the cells.

    Examples
    --------
    >>> import warnings
    >>> from tacit import LatentClass
    >>> from tacit.errors import DataWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)              # nothing is to be mended
    ...     try:
    ...         LatentClass(1).fit([["grey", None], ["blue", None]])
    ...     except DataWarning:
    ...         print("a column without a value")
    a column without a value
    """
