"""Pictures of the report page for the documentation: ``python -m docs.screenshots`` from the project's root.

Fits real models on data that scikit-learn and RDKit carry, as ``treelu fit`` does, and photographs their reports in a
headless Chromium.
"""

import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.model_selection import train_test_split

from tests.report.browser import open_report, start_chromium
from treelu.chem import MolecularFeatures
from treelu.cli import main as treelu
from treelu.cli.demo import molecules, tumours
from treelu.estimators import LCNRegressor
from treelu.report import fit_cart, render, summarize

IMAGES = Path(__file__).parent / "images"
DESKTOP = {"width": 1440, "height": 940, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
NEXT_ROW = "document.querySelector('[aria-label=\"Next row\"]').click()"
TO_TREE = "document.getElementById('tree').scrollIntoView()"
TUMOURS = ("--target", "diagnosis", "--leaves", "8", "--terms", "3")
MOLECULES = ("--smiles", "smiles", "--target", "activity", "--method", "tree", "--leaves", "8", "--terms", "3")


def fitted(folder: Path, name: str, *options: str) -> Path:
    """The report of a small tree on one of the demo's tables, as a user gets it."""
    table = {"tumours": tumours, "molecules": molecules}[name]()
    table.to_csv(folder / f"{name}.csv", index=False)
    words = ["fit", str(folder / f"{name}.csv"), "--out", str(folder / name), "--no-compare", "--quiet", *options]
    if treelu(words) != 0:
        raise RuntimeError(f"treelu {' '.join(words)} failed")
    return folder / name / "report.html"


def large_report(folder: Path) -> Path:
    """A tree of 4,096 leaves on the substructures of the ChEMBL series."""
    series = molecules()
    smiles, y = series["smiles"].tolist(), series["activity"].to_numpy()
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
    features = MolecularFeatures().fit([smiles[i] for i in train])
    X = features.transform(smiles)
    model = LCNRegressor(depth=12, drop_connect=0.5, random_state=0).fit(X[train], y[train])
    summary = summarize(
        replace(model.tree_, feature_names=features.get_feature_names_out()),
        X=X[test],
        y=y[test],
        estimator=model,
        name="LCN",
        baselines={"CART": fit_cart(X[train], y[train], classifier=False)},
        title="A tree of 4,096 leaves",
        target="activity",
        row_names=[smiles[i] for i in test],
    )
    path = folder / "large.html"
    path.write_text(render(summary), encoding="utf-8")
    return path


class Camera:
    """A browser that opens pages given as text and saves what it shows."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.browser = start_chromium(self.folder / "profile")

    def open(self, page: Path, screen: dict[str, object], theme: str = "light") -> None:
        """Show a page on a screen of the given size."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        open_report(self.browser, page)

    def take(self, name: str, *steps: str) -> None:
        """Run some JavaScript, then save the screen."""
        for step in steps:
            self.browser.execute_script(step)
        self.browser.execute_async_script("setTimeout(arguments[0], 300)")
        picture = Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")
        picture.save(IMAGES / f"report-{name}.png", optimize=True)


def main() -> None:
    """Take every picture anew."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        camera = Camera(folder)
        try:
            tumour_page = fitted(home, "tumours", *TUMOURS)
            camera.open(tumour_page, DESKTOP)
            camera.take("top")
            camera.take("scores", "document.getElementById('performance').scrollIntoView()")
            camera.open(tumour_page, DESKTOP, theme="dark")
            camera.take("dark", NEXT_ROW, TO_TREE)
            camera.open(tumour_page, PHONE)
            camera.take("phone", TO_TREE)
            camera.open(fitted(home, "molecules", *MOLECULES), DESKTOP)
            camera.take("molecules", TO_TREE)
            camera.take("leaves", "document.getElementById('leaves').scrollIntoView()")
            camera.open(large_report(home), DESKTOP)
            camera.take("large", TO_TREE)
        finally:
            camera.browser.quit()


if __name__ == "__main__":
    main()
