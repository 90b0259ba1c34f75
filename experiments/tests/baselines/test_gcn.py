"""The graph network: its graphs against RDKit, its mathematics by hand, and the estimators around it."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils import get_tags

Chem = pytest.importorskip("rdkit.Chem")
pytest.importorskip("torch_geometric")

from experiments.baselines import GCNClassifier, GCNRegressor  # noqa: E402
from experiments.baselines._graphs import N_ATOM_FEATURES, GraphBatch, atom_features  # noqa: E402
from experiments.baselines.gcn import GraphNetwork, group_max, group_sum, read_molecules  # noqa: E402

pytestmark = pytest.mark.slow

SMILES = [
    "CCO",
    "CCN",
    "c1ccccc1O",
    "c1ccccc1N",
    "CC(C)CO",
    "CC(C)CN",
    "OCC(O)CO",
    "NCC(N)CN",
    "C1CCCCC1O",
    "C1CCCCC1N",
]
LABELS = np.array(["alcohol", "amine"] * 5)
SMALL = {"filters": (8, 8), "dense": 16, "epochs": 3, "random_state": 0}


def network(out_features: int = 1) -> GraphNetwork:
    torch.manual_seed(0)
    return GraphNetwork(N_ATOM_FEATURES, out_features, [6, 5], 4, 0.0).double()


def batch_of(smiles: list[str]) -> GraphBatch:
    batch = read_molecules(smiles).rows(np.arange(len(smiles)))
    return GraphBatch(batch.atoms.double(), batch.bonds, batch.molecule, batch.index)


def test_graphs_are_rdkits() -> None:
    table = read_molecules(SMILES)
    order = np.array([3, 0, 6])
    batch = table.rows(order)
    molecules = [Chem.MolFromSmiles(SMILES[row]) for row in order]
    assert torch.bincount(batch.molecule).tolist() == [molecule.GetNumAtoms() for molecule in molecules]
    adjacency = torch.zeros(len(batch.atoms), len(batch.atoms))
    adjacency[batch.bonds[0], batch.bonds[1]] = 1
    wanted = torch.block_diag(*(torch.tensor(Chem.GetAdjacencyMatrix(molecule)) for molecule in molecules))
    assert torch.equal(adjacency, wanted.float())
    assert batch.index is order


def test_each_feature_of_an_atom_is_one_of_its_kinds() -> None:
    features = atom_features(Chem.MolFromSmiles("[Na+].[O-]C(=O)c1cc[nH]c1[Xe]"))
    assert features.shape[1] == N_ATOM_FEATURES
    assert (features[:, :-3].sum(axis=1) == 5).all()  # element, bonds, hydrogens, hybridisation, charge
    assert features[:, -3].sum() == 5  # aromatic atoms of the pyrrole


def test_forward_is_the_formula() -> None:
    net, batch = network().eval(), batch_of(["CC(C)O", "O", "C#N"])
    neighbours = torch.zeros(len(batch.atoms), len(batch.atoms), dtype=torch.float64)
    neighbours[batch.bonds[1], batch.bonds[0]] = 1
    degree = neighbours.sum(dim=1).long()
    state = batch.atoms
    for convolution, norm in zip(net.convolutions, net.norms, strict=False):
        rows = [
            convolution.lins_l[d](neighbours[i] @ state) + convolution.lins_r[d](state[i])
            for i, d in enumerate(degree.tolist())
        ]
        state = norm(torch.relu(torch.stack(rows)))
        closed = (neighbours + torch.eye(len(state))).bool()
        state = torch.stack([state[closed[i]].max(dim=0).values for i in range(len(state))])
    state = net.norms[-1](torch.relu(net.dense(state)))
    parts = [state[batch.molecule == i] for i in range(3)]
    pooled = torch.stack([torch.cat([part.sum(dim=0), part.max(dim=0).values]) for part in parts])
    torch.testing.assert_close(net(batch), net.output(torch.tanh(pooled)))


def test_gradients_are_those_of_finite_differences() -> None:
    # Ties of maxima behind a ReLU are the rule: the gradient must be a true one there too.
    net, batch = network(), batch_of(["CC(C)(C)O", "c1ccccc1", "O", "CCBr"])
    direction = torch.randn(4, 1, dtype=torch.float64)

    def loss() -> torch.Tensor:
        return (net(batch) * direction).sum()

    loss().backward()
    for parameter in net.parameters():
        if parameter.grad is None:
            continue
        flat = parameter.data.view(-1)
        for place in range(0, len(flat), max(1, len(flat) // 3)):
            value, step = flat[place].item(), 1e-6
            with torch.no_grad():
                flat[place] = value + step
                above = loss().item()
                flat[place] = value - step
                below = loss().item()
                flat[place] = value
            assert parameter.grad.view(-1)[place].item() == pytest.approx((above - below) / (2 * step), abs=1e-4)


def test_group_maxima_and_sums() -> None:
    torch.manual_seed(0)
    lengths = [1, 4, 2, 7]
    values = torch.randint(0, 3, (14, 5)).double().requires_grad_()
    group = torch.repeat_interleave(torch.arange(4), torch.tensor(lengths))
    weight = torch.randn(4, 5, dtype=torch.float64)
    for function, oracle in ((group_max, lambda part: part.amax(dim=0)), (group_sum, lambda part: part.sum(dim=0))):
        wanted = torch.stack([oracle(part) for part in values.split(lengths)])
        torch.testing.assert_close(function(values, group), wanted)
        gradients = [torch.autograd.grad((out * weight).sum(), values)[0] for out in (function(values, group), wanted)]
        torch.testing.assert_close(*gradients)


def test_how_a_molecule_is_written_does_not_matter() -> None:
    model = GCNClassifier(**SMALL).fit(SMILES, LABELS)
    molecule = Chem.MolFromSmiles("CC(C)c1ccc(O)cc1CN")
    written = [Chem.MolToSmiles(molecule, doRandom=True) for _ in range(5)]
    assert len(set(written)) > 1
    scores = model.predict_proba(written)
    np.testing.assert_allclose(scores, np.broadcast_to(scores[0], scores.shape), rtol=1e-4)


def test_molecules_do_not_see_each_other_when_predicted() -> None:
    model = GCNRegressor(**SMALL).fit(SMILES, np.arange(10.0))
    alone = np.concatenate([model.predict([smiles]) for smiles in SMILES])
    np.testing.assert_allclose(model.predict(SMILES), alone, rtol=1e-4)


def test_it_learns_what_a_graph_shows() -> None:
    def amines_and_alcohols(lengths: range) -> tuple[list[str], list[str]]:
        return ["C" * n + end for n in lengths for end in "ON"], ["alcohol", "amine"] * len(lengths)

    model = GCNClassifier(epochs=30, batch_size=4, random_state=0).fit(*amines_and_alcohols(range(2, 12, 2)))
    assert model.score(*amines_and_alcohols(range(3, 12, 2))) == 1


def test_it_learns_solubility(shared_data) -> None:
    table = pd.read_csv(shared_data / "moleculenet" / "esol.csv.gz").sample(frac=1, random_state=0)
    smiles, y = table.iloc[:, 0].tolist(), table.iloc[:, 1].to_numpy()
    model = GCNRegressor(epochs=15, random_state=0).fit(smiles[:900], y[:900])
    assert model.score(smiles[900:], y[900:]) > 0.7


def test_several_classes_and_weights() -> None:
    y = np.array([0, 1, 2, 3, 0, 1, 0, 1, 2, 3])
    model = GCNClassifier(**SMALL).fit(SMILES, y, sample_weight=np.ones(10))
    probability = model.predict_proba(SMILES)
    assert probability.shape == (10, 4)
    np.testing.assert_allclose(probability.sum(axis=1), 1)


def test_eval_set_keeps_the_best_epoch_and_patience_stops() -> None:
    model = GCNRegressor(**SMALL | {"epochs": 40, "learning_rate": 0.05, "patience": 3})
    model.fit(SMILES, np.arange(10.0), eval_set=(SMILES[:5], np.arange(5.0)[::-1]))
    scores = model.history_["valid_score"]
    assert model.history_.ended == "early"
    assert len(scores) == model.history_.best_epoch + 3 < 40
    best = np.sqrt(np.mean((model.predict(SMILES[:5]) - np.arange(5.0)[::-1]) ** 2))
    assert best == pytest.approx(min(scores), rel=1e-4)


def test_clone_search_pickle_and_seeds() -> None:
    model = GCNClassifier(**SMALL)
    assert clone(model).get_params() == model.get_params()
    state = torch.random.get_rng_state()
    first, second = (clone(model).fit(SMILES, LABELS).predict_proba(SMILES) for _ in range(2))
    assert torch.equal(state, torch.random.get_rng_state())  # torch's own generator is left alone
    np.testing.assert_array_equal(first, second)
    fitted = model.fit(SMILES, LABELS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(SMILES), first)
    search = GridSearchCV(GCNClassifier(**SMALL), {"dense": [4, 8]}, cv=2).fit(SMILES, LABELS)
    assert search.best_params_["dense"] in (4, 8)
    assert get_tags(model).input_tags.string
    assert not get_tags(model).input_tags.two_d_array


@pytest.mark.parametrize("kind", [np.array, pd.Series, tuple, lambda smiles: pd.DataFrame({"smiles": smiles})])
def test_any_column_of_smiles_will_do(kind) -> None:
    model = GCNClassifier(**SMALL).fit(SMILES, LABELS)
    np.testing.assert_array_equal(model.predict(kind(SMILES)), model.predict(SMILES))


def test_one_atom_alone_in_a_batch() -> None:
    model = GCNRegressor(**SMALL | {"batch_size": 2}).fit(["CCO", "CCC", "O"] * 3, np.arange(9.0))
    assert np.isfinite(model.predict(["O", "CCO"])).all()


@pytest.mark.parametrize(
    ("X", "y", "settings", "error", "message"),
    [
        (["CCO", "C(("], [0, 1], {}, ValueError, r"cannot read 1 of 2 SMILES: rows 1 \('C\(\('\)"),
        (["CCO", None], [0, 1], {}, ValueError, "rows 1"),
        ("CCO", [0], {}, TypeError, "single string 'CCO'"),
        ([[1.0], [2.0]], [0, 1], {}, TypeError, "SMILES"),
        ([], [], {}, ValueError, "at least one SMILES"),
        (["CCO", "C"], [0], {}, ValueError, "inconsistent"),
        (["CCO", "C"], [0, 0], {}, ValueError, "one class only"),
        (["CCO", "C"], [0, 1], {"filters": ()}, ValueError, "filters"),
        (["CCO", "C"], [0, 1], {"filters": (0,)}, ValueError, "filters"),
        (["CCO", "C"], [0, 1], {"dropout": 1.0}, ValueError, "dropout"),
    ],
)
def test_bad_input_is_named(X, y, settings, error, message) -> None:
    with pytest.raises(error, match=message):
        GCNClassifier(**SMALL | settings).fit(X, y)


def test_a_bad_eval_set_is_named() -> None:
    with pytest.raises(ValueError, match="eval_set must be a pair"):
        GCNClassifier(**SMALL).fit(SMILES, LABELS, eval_set=SMILES)
    with pytest.raises(ValueError, match="label 'acid'"):
        GCNClassifier(**SMALL).fit(SMILES, LABELS, eval_set=(["CC"], ["acid"]))


def test_without_the_extra_it_says_what_to_install(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch_geometric"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(ImportError, match=r"\.\[experiments\]"):
        GCNClassifier(**SMALL).fit(SMILES, LABELS)


def test_bace_by_validation(bace) -> None:
    train, valid, test = bace["train"], bace["valid"], bace["test"]
    model = GCNClassifier(epochs=12, random_state=0).fit(train.smiles, train.y, eval_set=(valid.smiles, valid.y))
    assert roc_auc_score(test.y, model.predict_proba(test.smiles)[:, 1]) >= 0.75


def test_several_labels_are_outputs_of_one_network() -> None:
    y = np.column_stack([np.arange(10) % 2, np.arange(10) < 5]).astype(float)
    y[0, 0] = y[9, 1] = np.nan
    model = GCNClassifier(**SMALL | {"epochs": 60, "learning_rate": 0.01}).fit(SMILES, y, eval_set=(SMILES, y))
    assert model.network_.output.out_features == 2
    assert [classes.tolist() for classes in model.classes_] == [[0, 1], [0, 1]]
    chances = model.predict_proba(SMILES)
    assert chances.shape == (10, 2)
    np.testing.assert_array_equal(model.predict(SMILES), chances >= 0.5)
    seen = ~np.isnan(y)
    areas = [roc_auc_score(y[seen[:, label], label], chances[seen[:, label], label]) for label in (0, 1)]
    assert np.mean(areas) == pytest.approx(max(model.history_["valid_score"]))
    assert np.mean(areas) > 0.9


def test_what_was_not_observed_does_not_matter() -> None:
    y = np.column_stack([np.arange(10) % 2, np.full(10, np.nan)]).astype(float)
    y[:2, 1] = 0, 1
    batch = batch_of(SMILES)
    outputs = network(2)(batch).detach().numpy()
    targets = GCNClassifier()._targets(y, None, first=True)
    loss, gradient = targets.loss_and_gradient(outputs.T, np.arange(10))
    assert (gradient[1, 2:] == 0).all()
    signs = np.where(y == 1, 1, -1)
    losses = np.log1p(np.exp(-signs * outputs))[~np.isnan(y)]
    assert loss == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("y", "y_valid", "message"),
    [
        (np.eye(10)[:, :3], np.eye(10)[:, :2], "must have 3 columns, got 2"),
        (np.eye(10)[:, :3], np.eye(10)[:, 0], "must have 3 columns, got a vector"),
        (np.eye(10)[:, 0], np.eye(10)[:, :2], "must have one, got 2 columns"),
        (np.ones((10, 2)), None, "one class only in column 0"),
        (np.full((10, 2), 3.0), None, "must hold 0, 1 or NaN"),
    ],
)
def test_bad_labels_are_named(y, y_valid, message) -> None:
    eval_set = None if y_valid is None else (SMILES, y_valid)
    with pytest.raises(ValueError, match=message):
        GCNClassifier(**SMALL).fit(SMILES, y, eval_set=eval_set)
