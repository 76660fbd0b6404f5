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
    """Base of all errors raised on purpose by Tacit."""


class DataError(TacitError, ValueError):
    """The data cannot be used as given."""


class FileFormatError(TacitError):
    """A file is not what its name says, or is broken at a named place."""


class ModelFileError(TacitError):
    """A model file is damaged, inconsistent, or not a Tacit model."""


class NotIdentifiableError(TacitError, ValueError):
    """No answer exists for this data, whatever the method."""


class IdentifiabilityWarning(UserWarning):
    """An answer was given although the data does not determine it well."""


class DataWarning(UserWarning):
    """The data was mended by a documented rule; the message counts the cells."""
