"""The numbers that the paper prints, to be set beside ours."""

from __future__ import annotations

# Table 1: labels and rows.
STATISTICS: dict[str, tuple[int, int]] = {
    "bace": (1, 1513),
    "hiv": (1, 41127),
    "sider": (27, 1427),
    "tox21": (12, 7831),
    "pdbbind": (1, 11908),
}

# Table 2: mean and deviation on the test part, AUC or (PDBbind) RMSE.
MAIN: dict[str, dict[str, tuple[float, float]]] = {
    "cart": {
        "bace": (0.652, 0.024),
        "hiv": (0.544, 0.009),
        "sider": (0.570, 0.010),
        "tox21": (0.651, 0.005),
        "pdbbind": (1.573, 0.000),
    },
    "hhcart": {
        "bace": (0.545, 0.016),
        "hiv": (0.636, 0.000),
        "sider": (0.570, 0.009),
        "tox21": (0.638, 0.007),
        "pdbbind": (1.530, 0.000),
    },
    "tao": {"bace": (0.734, 0.000), "hiv": (0.627, 0.000), "sider": (0.577, 0.004), "tox21": (0.676, 0.003)},
    "lcn": {
        "bace": (0.839, 0.013),
        "hiv": (0.728, 0.013),
        "sider": (0.624, 0.044),
        "tox21": (0.781, 0.017),
        "pdbbind": (1.508, 0.017),
    },
    "lln": {
        "bace": (0.818, 0.007),
        "hiv": (0.737, 0.009),
        "sider": (0.677, 0.014),
        "tox21": (0.813, 0.009),
        "pdbbind": (1.627, 0.008),
    },
    "alcn": {
        "bace": (0.854, 0.007),
        "hiv": (0.738, 0.009),
        "sider": (0.653, 0.044),
        "tox21": (0.814, 0.009),
        "pdbbind": (1.369, 0.007),
    },
    "rf": {
        "bace": (0.869, 0.003),
        "hiv": (0.796, 0.007),
        "sider": (0.685, 0.011),
        "tox21": (0.839, 0.007),
        "pdbbind": (1.256, 0.002),
    },
    "gbdt": {
        "bace": (0.859, 0.005),
        "hiv": (0.748, 0.001),
        "sider": (0.668, 0.014),
        "tox21": (0.812, 0.011),
        "pdbbind": (1.247, 0.002),
    },
    "elcn": {
        "bace": (0.874, 0.005),
        "hiv": (0.757, 0.011),
        "sider": (0.685, 0.010),
        "tox21": (0.822, 0.006),
        "pdbbind": (1.219, 0.007),
    },
    "gcn": {
        "bace": (0.783, 0.014),
        "hiv": (0.763, 0.016),
        "sider": (0.638, 0.012),
        "tox21": (0.829, 0.006),
        "pdbbind": (1.44, 0.12),
    },
}

# Table 3, for depths 8 to 12; names as in experiments.patterns.PatternAnalysis.
PATTERNS: dict[str, tuple[float, ...]] = {
    "n_possible": (256, 512, 1024, 2048, 4096),
    "n_train": (72, 58, 85, 103, 86),
    "n_test": (32, 31, 48, 49, 40),
    "n_test_only": (5, 2, 11, 8, 11),
    "unobserved_share": (0.040, 0.013, 0.072, 0.059, 0.079),
    "auc_observed": (0.8505, 0.8184, 0.8270, 0.8429, 0.8390),
    "auc_unobserved": (0.8596, 0.9145, 0.8303, 0.7732, 0.8894),
}
