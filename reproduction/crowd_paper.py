"""The figures of Ibrahim & Fu 2022, "Crowdsourcing via Annotator Co-occurrence Imputation and Provable
Symmetric Nonnegative Matrix Factorization", Tables 1–7 and 9, as printed there.

Errors in percent and seconds; `None` is the paper's "N/A" or "-".
"""

from __future__ import annotations

Figure = float | None

TABLE1_COLUMNS = ("p_m = 0.3", "p_m in (0.3, 0.5), p_d = 0.8", "p_m in (0.5, 0.7), p_d = 0.8")
TABLE1: dict[str, tuple[Figure, ...]] = {  # Connect4: three settings, then seconds
    "RobSymNMF": (33.26, 33.06, 32.16, 0.142),
    "RobSymNMF-EM": (34.27, 33.20, 32.11, 0.191),
    "RobSymNMF (w = 1)": (33.14, 34.60, 33.91, 0.132),
    "DesSymNMF": (33.45, 32.18, 31.42, 0.061),
    "DesSymNMF-EM": (33.94, 32.50, 31.40, 0.128),
    "SymNMF (no imputation)": (34.87, 35.71, 32.00, 0.052),
    "MultiSPA": (47.78, 42.24, 49.54, 0.020),
    "CNMF": (36.26, 39.55, 34.70, 4.741),
    "TensorADMM": (36.20, 34.34, 35.18, 5.183),
    "Spectral-D&S": (64.28, 66.95, 71.97, 20.388),
    "MV-EM": (34.14, 34.17, 34.19, 0.107),
    "MinimaxEntropy": (36.20, 36.17, 35.46, 27.454),
    "KOS": (54.55, 43.21, 39.41, 12.798),
    "Majority Voting": (37.76, 36.88, 36.75, None),
}
TABLE2: dict[str, tuple[Figure, ...]] = {  # Credit, the same settings
    "RobSymNMF": (16.31, 13.99, 13.74, 0.152),
    "RobSymNMF-EM": (16.76, 13.96, 14.06, 0.160),
    "RobSymNMF (w = 1)": (16.32, 13.99, 13.72, 0.062),
    "DesSymNMF": (16.37, 13.83, 13.67, 0.052),
    "DesSymNMF-EM": (16.80, 14.07, 13.77, 0.059),
    "SymNMF (no imputation)": (16.51, 13.94, 13.85, 0.039),
    "MultiSPA": (16.74, 14.28, 14.60, 0.003),
    "CNMF": (16.74, 14.24, 14.40, 3.273),
    "TensorADMM": (16.70, 14.31, 13.87, 3.405),
    "Spectral-D&S": (16.98, 14.24, 14.00, 1.790),
    "MV-EM": (44.54, 26.20, 14.00, 0.007),
    "MinimaxEntropy": (17.50, 17.00, 16.78, 0.728),
    "KOS": (17.28, 14.22, 14.89, 0.009),
    "GhoshSVD": (17.07, 14.76, 14.80, 0.009),
    "EigenRatio": (17.17, 14.43, 14.44, 0.003),
    "Majority Voting": (18.22, 15.95, 14.83, None),
}
TABLE3_COLUMNS = ("Miss = 70%", "Miss = 50%", "Miss = 30%")
TABLE3: dict[str, tuple[Figure, ...]] = {  # Car: three shares of missing co-occurrences, then seconds
    "RobSymNMF": (24.01, 23.17, 22.05, 0.108),
    "RobSymNMF-EM": (24.93, 23.71, 22.03, 0.123),
    "RobSymNMF (w = 1)": (24.01, 23.40, 22.16, 0.100),
    "DesSymNMF": (24.50, 23.41, 23.00, 0.048),
    "DesSymNMF-EM": (24.91, 24.59, 23.45, 0.060),
    "SymNMF (no imputation)": (24.43, 24.03, 24.40, 0.031),
    "MultiSPA": (47.12, 47.14, 33.84, 0.002),
    "CNMF": (43.65, 41.49, 30.55, 3.666),
    "TensorADMM": (36.67, 39.32, 37.38, 4.900),
    "Spectral-D&S": (31.20, 29.67, 29.14, 47.800),
    "MV-EM": (30.27, 29.96, 29.65, 0.013),
    "MinimaxEntropy": (28.22, 25.73, 24.68, 12.664),
    "KOS": (48.87, 49.87, 41.83, 0.104),
    "Majority Voting": (43.88, 43.08, 42.40, None),
}
TABLE3_MISSING_AFTER = (17.0, 9.0, 0.0)
"""Percent of co-occurrences still missing after imputation (7)–(8), by column of Table 3."""

REAL: dict[str, dict[str, tuple[Figure, Figure]]] = {  # Tables 4, 5 and 9: (error, seconds)
    "bluebird": {
        "RobSymNMF": (11.11, 0.72),
        "RobSymNMF-EM": (11.11, 0.79),
        "RobSymNMF (w = 1)": (11.11, 0.38),
        "DesSymNMF": (10.18, 0.15),
        "DesSymNMF-EM": (10.18, 0.19),
        "SymNMF (no imputation)": (10.18, 0.12),
        "MultiSPA": (13.88, 0.10),
        "CNMF": (11.11, 6.76),
        "TensorADMM": (12.03, 85.56),
        "Spectral-D&S": (12.03, 1.97),
        "MV-EM": (12.03, 0.02),
        "MinimaxEntropy": (8.33, 3.43),
        "KOS": (11.11, 0.11),
        "GhoshSVD": (27.77, 0.02),
        "EigenRatio": (27.77, 0.03),
        "PG-TAC": (24.07, 0.04),
        "CRIA_V": (24.07, 0.05),
        "Majority Voting": (21.29, None),
    },
    "dog52": {
        "RobSymNMF": (16.10, 0.41),
        "RobSymNMF-EM": (15.86, 0.48),
        "RobSymNMF (w = 1)": (16.10, 0.38),
        "DesSymNMF": (16.35, 0.11),
        "DesSymNMF-EM": (15.86, 0.16),
        "SymNMF (no imputation)": (16.72, 0.10),
        "MultiSPA": (17.96, 0.09),
        "CNMF": (15.86, 17.14),
        "TensorADMM": (18.01, 613.93),
        "Spectral-D&S": (17.84, 43.88),
        "MV-EM": (15.86, 0.06),
        "MinimaxEntropy": (16.23, 4.6),
        "KOS": (31.84, 0.17),
        "GhoshSVD": (None, None),
        "EigenRatio": (None, None),
        "PG-TAC": (18.21, 21.11),
        "CRIA_V": (17.10, 18.48),
        "Majority Voting": (17.91, None),
    },
    "rte": {
        "RobSymNMF": (7.25, 2.31),
        "RobSymNMF-EM": (7.12, 2.4),
        "RobSymNMF (w = 1)": (7.37, 1.35),
        "DesSymNMF": (13.87, 3.32),
        "DesSymNMF-EM": (7.25, 3.43),
        "SymNMF (no imputation)": (48.75, 0.23),
        "MultiSPA": (8.37, 0.18),
        "CNMF": (7.12, 18.12),
        "TensorADMM": (None, None),
        "Spectral-D&S": (7.12, 6.34),
        "MV-EM": (7.25, 0.09),
        "MinimaxEntropy": (7.5, 6.4),
        "KOS": (39.75, 0.07),
        "GhoshSVD": (49.12, 0.06),
        "EigenRatio": (9.01, 0.07),
        "PG-TAC": (8.12, 50.41),
        "CRIA_V": (9.37, 49.04),
        "Majority Voting": (10.31, None),
    },
    "trec": {
        "RobSymNMF": (30.68, 64.99),
        "RobSymNMF-EM": (29.62, 67.39),
        "RobSymNMF (w = 1)": (33.23, 62.33),
        "DesSymNMF": (36.75, 71.31),
        "DesSymNMF-EM": (29.36, 72.13),
        "SymNMF (no imputation)": (35.47, 57.60),
        "MultiSPA": (31.56, 51.34),
        "CNMF": (29.84, 536.86),
        "TensorADMM": (None, None),
        "Spectral-D&S": (29.58, 919.98),
        "MV-EM": (30.02, 3.12),
        "MinimaxEntropy": (30.89, 356.32),
        "KOS": (51.95, 8.53),
        "GhoshSVD": (43.03, 7.18),
        "EigenRatio": (43.95, 1.87),
        "PG-TAC": (33.89, 917.21),
        "CRIA_V": (34.59, 900.34),
        "Majority Voting": (34.85, None),
    },
    "labelme": {
        "RobSymNMF": (32.10, 1.25),
        "RobSymNMF-EM": (22.10, 1.29),
        "DesSymNMF": (29.10, 0.11),
        "DesSymNMF-EM": (22.20, 0.20),
        "CrowdLayer": (20.90, 15.80),
        "DL-MV": (23.10, 14.31),
    },
}
NOT_RERUN = ("PG-TAC", "CRIA_V", "CrowdLayer", "DL-MV")
"""Methods whose code is not public, or that need the images."""
MISSING_BLOCKS: dict[str, tuple[float, float]] = {  # percent before and after imputation, section 4
    "bluebird": (2.5, 0.0),
    "dog52": (14.0, 11.34),
    "rte": (90.68, 50.15),
    "trec": (96.57, 92.18),
}

TABLE6_COLUMNS = (0.7, 0.5, 0.3)
TABLE6: dict[str, tuple[float, float, float]] = {  # mean squared error (19) by share of missing blocks
    "RobSymNMF": (4.10e-3, 1.70e-3, 3.44e-4),
    "DesSymNMF": (2.84e-4, 4.59e-4, 3.05e-4),
}
TABLE7_COLUMNS = (1_000, 5_000, 10_000)
TABLE7: dict[str, tuple[float, float, float, float]] = {  # mean squared error (19) by N, then seconds
    "RobSymNMF": (0.0099, 0.0019, 0.0012, 0.342),
    "DesSymNMF": (0.0127, 0.0038, 0.0029, 0.072),
    "MultiSPA": (0.2248, 0.1645, 0.1575, 0.0148),
    "CNMF": (0.0314, 0.0036, 0.0009, 22.475),
    "TensorADMM": (0.0218, 0.0041, 0.0011, 27.263),
    "Spectral-D&S": (0.0465, 0.0259, 0.0050, 17.492),
    "MV-EM": (0.0495, 0.0866, 0.1051, 0.055),
}

FIGURE4 = {"RobSymNMF-EM": (22.1, 0.5), "CrowdLayer": (20.9, 4.7)}
"""Mean and standard deviation of the error over 100 runs on LabelMe, section C.3."""
