"""The classifiers beside the joint distribution in Tables III and IV, by scikit-learn, one-hot columns."""

from __future__ import annotations

from typing import Any


def classifiers() -> dict[str, list[Any]]:
    """Row → candidates, of which the validation rows choose; the last is no row of the paper."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import RidgeClassifier
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC, LinearSVC

    return {
        "SVM": [LinearSVC(C=c, random_state=0) for c in (0.1, 1.0, 10.0)],
        "Linear Regression": [RidgeClassifier(alpha=1e-6)],
        "Neural Net": [MLPClassifier((10,), max_iter=200, random_state=0)],
        "SVM-RBF": [SVC(C=c) for c in (0.1, 1.0, 10.0)],
        "Naive Bayes": [BernoulliNB()],
        "Boosted trees": [HistGradientBoostingClassifier(random_state=0)],
    }
