"""Pictures, drawn with matplotlib (extra ``plot``), which is imported only when one is asked for.

Functions take a fitted estimator, draw on the axes given or make a figure, and return the axes:
``ax.figure.savefig(…)`` keeps the picture.
"""
