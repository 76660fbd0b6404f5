"""Stores one model per version with its predictions: every later version must load it and predict the same.

    python tests/files/models/make.py      # run once per release, never for an old version again
"""

from __future__ import annotations

import json
from pathlib import Path

import tacit
from tacit.simulate import crowd

HERE = Path(__file__).parent


def main() -> None:
    stem = HERE / f"DawidSkene-{tacit.__version__}"
    settings = {"n_tasks": 40, "n_workers": 6, "n_classes": 3, "labels_per_task": 4, "random_state": 0}
    made = crowd(**settings)
    labels = made.labels.to_pandas().replace({"label": {0: "ant", 1: "bee", 2: "crow"}})
    model = tacit.DawidSkene().fit(labels)
    model.save(stem.with_suffix(f"{stem.suffix}.tacit"))
    rows = labels.to_dict("list")
    beliefs = model.predict_proba(labels).tolist()
    expected = {"labels": rows, "probabilities": beliefs, "predicted": model.predict(labels).tolist()}
    Path(f"{stem}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
