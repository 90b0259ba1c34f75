"""Writes the golden models: python -m tests.golden.make. Only for a new version of the format.

The models of earlier versions stay as they are: that they still load is what the test is for.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.persistence.models import every_model, outputs
from treelu.persistence import FORMAT_VERSION, save

FOLDER = Path(__file__).parent


def main() -> None:
    """Save one small model of each kind, with what it predicts."""
    folder = FOLDER / f"version-{FORMAT_VERSION}"
    if folder.exists():
        shutil.rmtree(folder)
    expected: dict[str, Any] = {}
    for name, model in every_model().items():
        if name == "lcn_deep":
            continue  # large, and nothing new
        save(model, folder / name)
        expected[name] = [result.tolist() for result in outputs(model)]
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
