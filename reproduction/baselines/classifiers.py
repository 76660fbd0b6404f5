"""The classifiers beside the joint distribution in Tables III and IV, by scikit-learn.

The paper does not say how they were given the categories. *One-hot* is how it is done today; *as numbers* hands over
the codes 0, 1, … of the sorted categories, one number a column, which comes near to what is printed for Mushroom.
"""

from __future__ import annotations

from typing import Any

ONE_HOT, AS_NUMBERS = "one-hot", "as numbers"


def classifiers() -> dict[tuple[str, str], list[Any]]:
    """(row, coding) → candidates, of which the validation rows choose; boosted trees are no row of the paper."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import RidgeClassifier
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC, LinearSVC

    found: dict[tuple[str, str], list[Any]] = {}
    for coding in (ONE_HOT, AS_NUMBERS):
        found["SVM", coding] = [LinearSVC(C=c, random_state=0) for c in (0.1, 1.0, 10.0)]
        found["Linear Regression", coding] = [RidgeClassifier(alpha=1e-6)]
        found["Neural Net", coding] = [MLPClassifier((10,), max_iter=200, random_state=0)]
        found["SVM-RBF", coding] = [SVC(C=c) for c in (0.1, 1.0, 10.0)]
    found["Naive Bayes", ONE_HOT] = [BernoulliNB()]
    found["Boosted trees", ONE_HOT] = [HistGradientBoostingClassifier(random_state=0)]
    return found
