"""The tables of docs/speed.md and of the notes on it, from the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.report import HEADS, amount, cells, comparisons, digits, fill, markdown

ON_PAGE = ("machine", "training", "small", "memory", "predict", "start")  # the other parts are in the notes


def refresh(page: Path, notes: Path, results: Mapping[str, Any]) -> None:
    """Write the results between the marks of page and notes; parts that were not run keep what stands there."""
    found = blocks(results)
    for path, here in ((page, True), (notes, False)):
        shown = {name: block for name, block in found.items() if (name in ON_PAGE) == here}
        path.write_text(fill(path.read_text(encoding="utf-8"), shown), encoding="utf-8")


def blocks(results: Mapping[str, Any]) -> dict[str, str]:
    """All tables, by the name of their marks."""
    found = {part: _comparison_table(comparisons(results, part)) for part in results["parts"]}
    found["machine"] = _machine(results["machine"])
    for part, describe in (("growth", _sweeps), ("complexity", _depths), ("limits", _limits)):
        if part in results["parts"]:
            found[f"{part} details"] = describe(results["parts"][part]["details"])
    return found


def _comparison_table(found: list[Comparison]) -> str:
    """Comparisons without the targets that the benchmark holds them against, which are for its own check."""
    lines = [cells(replace(comparison, met=None)) for comparison in found]
    exponents = [line[-1] if line[-1].startswith("exponent") else "" for line in lines]
    if not any(exponents):
        return markdown(HEADS[:-1], [line[:-1] for line in lines])
    return markdown(
        (*HEADS[:-1], "exponent"),
        [(*line[:-1], text.removeprefix("exponent ")) for line, text in zip(lines, exponents, strict=True)],
    )


def _machine(machine: Mapping[str, Any]) -> str:
    vectors = " and ".join(machine["vectors"]) or "none noted"
    packages = ", ".join(f"{name} {machine[name]}" for name in list(machine)[list(machine).index("python") :])
    return (
        f"{machine['system']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['cpu_flags']} CPU flags "
        f"(vectors: {vectors}), load {machine['load_before']} before the run; {packages}."
    )


def _sweeps(details: Mapping[str, Any]) -> str:
    """Each sweep's sizes, times and peaks."""
    tables = []
    for name, sweep in details["sweeps"].items():
        word = name.replace("_", " ").replace("nonzeros", "non-zeros a row")
        lines = [
            (f"{value:,}", amount(seconds, "s"), amount(peak, "MB"), amount(table, "MB"))
            for value, seconds, peak, table in zip(
                sweep["values"], sweep["seconds"], sweep["peak_mb"], sweep["table_mb"], strict=True
            )
        ]
        exponents = (
            "**exponent (by count)**",
            f"**{sweep['time_exponent']:.2f} ({sweep['time_expected']:.2f})**",
            f"**{sweep['memory_exponent']:.2f} ({sweep['memory_expected']:.2f})**",
            "",
        )
        tables.append(markdown((word, "an epoch", "peak beyond the table", "the table"), [*lines, exponents]))
    return "\n\n".join(tables)


def _depths(details: Mapping[str, Any]) -> str:
    """Seconds of each form at each depth."""
    forms = list(details["seconds"])
    lines = [
        (str(depth), *(amount(details["seconds"][form][place], "s") for form in forms))
        for place, depth in enumerate(details["depths"])
    ]
    exponents = (f"**{found['measured']:.2f} ({found['by_count']:.2f})**" for found in details["exponents"].values())
    sizes = details["sizes"]
    note = (
        f"{sizes['batch']} rows of {sizes['features']} features, {sizes['nonzeros']} of them non-zero; all forms agree "
        f"within {details['largest_difference']:.0e} of the largest output."
    )
    return markdown(("depth", *forms), [*lines, ("**exponent (by count)**", *exponents)]) + "\n\n" + note


def _limits(details: Mapping[str, Any]) -> str:
    """The rates, and the step's pieces beside the least time of its work."""
    rates, step, fit = details["rates"], details["step"], details["fit"]
    rows = [
        ("matrix product, one thread", f"{rates['flops_one_thread'] / 1e9:.0f} GFLOP/s"),
        ("matrix product, all threads", f"{rates['flops'] / 1e9:.0f} GFLOP/s"),
        ("copying in memory", f"{rates['memory_bytes'] / 1e9:.1f} GB/s"),
        ("copying in the cache, one thread", f"{rates['cache_bytes'] / 1e9:.1f} GB/s"),
        ("DropConnect hashes, one thread", f"{rates['hashes'] / 1e9:.1f} G/s"),
    ]
    bounds = [(name, amount(seconds, "s")) for name, seconds in step["roofline"].items()]
    pieces = [(name, amount(seconds, "s")) for name, seconds in step["pieces"].items()]
    pieces.append(("a step, many of them in one call", amount(step["measured"], "s")))
    total, least = step["measured"], sum(step["roofline"].values())
    largest = max(step["roofline"], key=step["roofline"].__getitem__)
    outside = max(0.0, 1 - fit["seconds_in_steps"] / fit["seconds"])
    sample = details["samples"]
    words = (
        f"A sample of {details['data']} costs {digits(sample['operations'])} operations and {digits(sample['bytes'])} "
        f"bytes, its share of the step's included. The largest item of the estimate is {largest}. A step takes "
        f"{digits(total / least)} times the estimate's {amount(least, 's')}; of a fit ({amount(fit['seconds'], 's')}) "
        f"{outside:.0%} passes outside the steps: validation after each epoch, reading the table, the copy in float64."
    )
    return "\n\n".join(
        [
            markdown(("this machine", "measured rate"), rows),
            markdown(("least time of a step's counted work", "one thread"), bounds),
            markdown(("piece of a step, each called from Python", "measured"), pieces),
            words,
        ]
    )
