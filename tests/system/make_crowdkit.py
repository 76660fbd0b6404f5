"""Makes crowdkit_dawid_skene.json: crowd-kit's maximum-likelihood Dawid–Skene fits of simulated crowds.

    pip install ".[bench]" && python tests/system/make_crowdkit.py

The file holds the crowds' settings (latentfit.simulate makes the same labels again), crowd-kit's version and what its
EM converged to. Latentfit must reach the same optimum from the same start.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from crowdkit.aggregation import DawidSkene

from latentfit.simulate import crowd

CROWDS = [
    {"n_tasks": 400, "n_workers": 12, "n_classes": 2, "labels_per_task": 6, "random_state": 1},
    {"n_tasks": 500, "n_workers": 15, "n_classes": 3, "labels_per_task": 7, "random_state": 2},
    {"n_tasks": 600, "n_workers": 10, "n_classes": 4, "labels_per_task": 8, "random_state": 3},
]


def main() -> None:
    fits = []
    for settings in CROWDS:
        labels = crowd(**settings).labels.to_pandas()
        model = DawidSkene(n_iter=20_000, tol=1e-13).fit(labels)
        errors = model.errors_.sort_index()  # index (worker, given label), columns true
        fits.append(
            {
                "settings": settings,
                "prior": model.priors_.sort_index().tolist(),
                "errors": errors[sorted(errors.columns)].to_numpy().tolist(),
                "index": [[int(worker), int(label)] for worker, label in errors.index],
                "labels": model.labels_.sort_index().tolist(),
            }
        )
    out = {"made_by": f"crowd-kit {version('crowd-kit')}", "fits": fits}
    (Path(__file__).parent / "crowdkit_dawid_skene.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
