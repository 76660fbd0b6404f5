"""The figures of Ibrahim & Fu 2021, "Recovering Joint PMF from Pairwise Marginals", Tables I–IV, as printed there."""

from __future__ import annotations

SIZES = (1_000, 10_000, 100_000, 1_000_000)
"""Rows S of Table I."""
TABLE1: dict[str, dict[str, tuple[float, ...]]] = {  # measure, method: one figure per S
    "MSE": {
        "CNMF-SPA": (0.0702, 0.0257, 0.0211, 0.0204),
        "CNMF-SPA-EM": (0.0560, 0.0230, 0.0207, 0.0204),
        "RAND-EM": (0.0855, 0.0405, 0.0298, 0.0502),
        "CTD": (0.1589, 0.0260, 0.0211, 0.0205),
        "CTD-EM": (0.1196, 0.0233, 0.0208, 0.0204),
    },
    "MRE": {
        "CNMF-SPA": (0.8084, 0.3228, 0.1137, 0.0356),
        "CNMF-SPA-EM": (0.6922, 0.2077, 0.0682, 0.0219),
        "RAND-EM": (0.8285, 0.3399, 0.2226, 0.3931),
        "CTD": (0.9237, 0.3081, 0.0955, 0.0309),
        "CTD-EM": (0.8312, 0.2180, 0.0681, 0.0220),
    },
}
TABLE2: dict[str, tuple[float, float, float | None]] = {  # RMSE, MAE, seconds
    "CNMF-SPA": (0.8536, 0.6679, 0.029),
    "CNMF-SPA-EM": (0.7761, 0.5936, 2.554),
    "CTD": (0.8792, 0.6640, 17.808),
    "CTD-EM": (0.7872, 0.6038, 20.578),
    "BMF": (0.8020, 0.6268, 45.967),
    "Global Average": (0.9471, 0.6954, None),
    "User Average": (0.8960, 0.6834, None),
    "Movie Average": (0.8844, 0.6979, None),
}
TABLE3: dict[str, tuple[float, float]] = {  # Car: accuracy %, seconds
    "CNMF-SPA": (69.26, 0.007),
    "CNMF-SPA-EM": (86.61, 0.018),
    "CTD": (83.47, 0.845),
    "CTD-EM": (85.72, 0.955),
    "SVM": (83.65, 0.147),
    "Linear Regression": (80.68, 0.029),
    "Neural Net": (85.00, 0.193),
    "SVM-RBF": (76.22, 0.793),
    "Naive Bayes": (83.42, 0.026),
}
TABLE4: dict[str, tuple[float, float]] = {  # Mushroom: accuracy %, seconds
    "CNMF-SPA": (92.23, 0.025),
    "CNMF-SPA-EM": (99.47, 0.242),
    "CTD": (96.40, 13.695),
    "CTD-EM": (97.18, 13.931),
    "SVM": (97.47, 37.213),
    "Linear Regression": (93.38, 0.040),
    "Neural Net": (98.98, 1.036),
    "SVM-RBF": (98.89, 2.291),
    "Naive Bayes": (94.84, 0.048),
}
