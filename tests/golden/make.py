"""Writes golden models of the current format: python -m tests.golden.make.

Those that are there stay as they are: that they still load is what the test is for. So a kind of model that is new gets
its golden file, and a new version of the format a folder.
"""

import json
from pathlib import Path
from typing import Any

from tests.persistence.models import every_model, outputs
from treelu.persistence import FORMAT_VERSION, save

FOLDER = Path(__file__).parent


def main() -> None:
    """Save one small model of each kind that has none, with what it predicts."""
    folder = FOLDER / f"version-{FORMAT_VERSION}"
    predictions = folder / "expected.json"
    expected: dict[str, Any] = json.loads(predictions.read_text()) if predictions.exists() else {}
    for name, model in every_model().items():
        if name in expected or name == "lcn_deep":  # which is large, and nothing new
            continue
        save(model, folder / name)
        expected[name] = [result.tolist() for result in outputs(model)]
    predictions.write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
