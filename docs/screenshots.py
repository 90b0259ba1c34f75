"""Pictures of the report page for the documentation: ``python -m docs.screenshots`` from the project's root.

Trains real models on data that scikit-learn and RDKit carry, renders their reports and photographs them in a
headless Chromium.
"""

import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tests.report.browser import start_chromium
from treelu.chem import MorganFingerprint, draw_substructure
from treelu.cli.demo import molecules
from treelu.cli.pages import SUBSTRUCTURE, draw_molecule
from treelu.estimators import LCNClassifier, LCNRegressor
from treelu.report import fit_cart, render, summarize

IMAGES = Path(__file__).parent / "images"
DESKTOP = {"width": 1440, "height": 940, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
NEXT_ROW = "document.querySelector('[aria-label=\"Next row\"]').click()"
TO_TREE = "document.getElementById('tree').scrollIntoView()"


def cancer_report() -> str:
    """A tree of 16 leaves: depth 4 on scikit-learn's breast cancer table."""
    table = load_breast_cancer(as_frame=True)
    y = table.target_names[table.target]
    X_train, X_test, y_train, y_test = train_test_split(table.data, y, test_size=0.3, random_state=0, stratify=y)
    model = LCNClassifier(depth=4, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    summary = summarize(
        model.tree_,
        X=X_test,
        y=y_test,
        estimator=model,
        name="LCN",
        baselines={"CART": fit_cart(X_train, y_train, classifier=True)},
        title="Breast cancer (Wisconsin)",
        target="diagnosis",
        notes=["Table from scikit-learn; 30 % of the rows held out, stratified by class."],
    )
    return render(summary)


def molecule_report(depth: int, title: str, prune: bool) -> str:
    """A tree on Morgan fingerprints of the ChEMBL series, pruned to leaves that training molecules reach."""
    series = molecules()
    smiles, y = series["smiles"].tolist(), series["activity"].to_numpy()
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
    fingerprint = MorganFingerprint().fit([smiles[i] for i in train])
    X = fingerprint.transform(smiles)
    model = LCNRegressor(depth=depth, drop_connect=0.5, random_state=0).fit(X[train], y[train])

    def draw_feature(bit: int) -> str | None:
        found = fingerprint.examples(bit)
        return draw_substructure(found[0].smiles, found[0].atom, found[0].radius, SUBSTRUCTURE) if found else None

    tree = model.to_tree(visited_by=X[train]) if prune else model.tree_
    summary = summarize(
        replace(tree, feature_names=fingerprint.get_feature_names_out()),
        X=X[test],
        y=y[test],
        estimator=model,
        name="LCN",
        baselines={"CART": fit_cart(X[train], y[train], classifier=False)},
        title=title,
        target="activity",
        row_names=[smiles[i] for i in test],
        draw_feature=draw_feature if prune else None,
        draw_row=(lambda row: draw_molecule(smiles[test[row]])) if prune else None,
    )
    return render(summary)


class Camera:
    """A browser that opens pages given as text and saves what it shows."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.browser = start_chromium(self.folder / "profile")

    def open(self, page: str, screen: dict[str, object], theme: str = "light") -> None:
        """Show a page on a screen of the given size."""
        path = self.folder / "page.html"
        path.write_text(page, encoding="utf-8")
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.browser.get(path.as_uri())
        self.browser.execute_async_script("setTimeout(arguments[0], 1500)")  # charts take their room

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
        camera = Camera(folder)
        try:
            cancer = cancer_report()
            camera.open(cancer, DESKTOP)
            camera.take("top")
            camera.take("tree", TO_TREE)
            camera.take("scores", "document.getElementById('performance').scrollIntoView()")
            camera.open(cancer, DESKTOP, theme="dark")
            camera.take("dark", NEXT_ROW, TO_TREE)
            camera.open(cancer, PHONE)
            camera.take("phone", TO_TREE)
            camera.open(molecule_report(4, "Activity of a ChEMBL series", prune=True), DESKTOP)
            camera.take("molecules", TO_TREE)
            camera.take("leaves", "document.getElementById('leaves').scrollIntoView()")
            camera.open(molecule_report(12, "A tree of 4,096 leaves", prune=False), DESKTOP)
            camera.take("large", TO_TREE)
        finally:
            camera.browser.quit()


if __name__ == "__main__":
    main()
