"""Where a pass over the data runs. Two verbs, ``sums`` and ``rows``; nothing else knows where."""
