"""The figures of `anyseq bench` as text, 80 columns wide at most."""

from __future__ import annotations

from typing import Any

from anyseq.base import table


def construct_text(figures: dict[str, Any]) -> str:
    fused, deep = figures["yun_fused"], figures["yun_deep"]
    rows = [
        (f"yun, {fused['layers']:,} layers, layer by layer", time(fused["layer_by_layer_seconds"])),
        ("the same, fused", time(fused["fused_seconds"])),
        ("ratio", f"{fused['ratio']:,.0f} x"),
        ("largest difference", f"{fused['largest_difference']:.1g}"),
        (f"yun, {deep['layers']:,} layers, build", time(deep["build_seconds"])),
        ("the same, save", f"{time(deep['save_seconds'])}, {deep['megabytes']:.0f} MB"),
        ("the same, load", time(deep["load_seconds"])),
    ]
    return "\n\n".join([table(("construct, batch 512", "median"), rows), _sizes(figures["sizes"])])


def adaptive_text(figures: dict[str, Any]) -> str:
    def fewer(row: dict[str, Any], what: str) -> tuple[str, str]:
        ratio = row[f"even_{what}"] / row[what]
        return f"{row[what]:,}", f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"

    rows = [
        (
            f"{row['function']}, {row['tokens']} token{'s' * (row['tokens'] > 1)}",
            {"sup": "sup", "lp": "L^2"}[row["norm"]],
            f"{row['error']:.4f}",
            f"{row['even_nodes']:,}",
            *fewer(row, "nodes"),
            *fewer(row, "parameters"),
        )
        for row in figures["rows"]
    ]
    head = (
        "equal proven error",
        "norm",
        "error",
        "even nodes",
        "nodes",
        "fewer",
        "param.",
        "fewer",
    )
    return table(head, rows)


def _sizes(by_method: dict[str, Any]) -> str:
    """Time and memory to build the look-up and the module, and how fast the look-up is."""
    rows = []
    for method, series in by_method.items():
        for row in series:
            slower = series[0]["evaluations_per_second"] / row["evaluations_per_second"]
            rows.append(
                (
                    f"{method}, {row['cells']:,} cells",
                    time(row["build_seconds"]),
                    f"{row['evaluations_per_second'] / 1e6:.1f}",
                    f"{slower:.2f} x",
                    _millions(row["parameters"]),
                    *_module(row),
                )
            )
    head = ("look-up", "built in", "10⁶/s", "slower", "weights", "module", "peak")
    return table(head, rows)


def _millions(count: int) -> str:
    return f"{count / 1e6:,.{1 if count < 1e8 else 0}f} M"


def _module(row: dict[str, Any]) -> tuple[str, str]:
    if row["model_seconds"] is None:  # too large to be made
        return "-", "-"
    return time(row["model_seconds"]), f"{row['model_bytes'] / 1e6:,.0f} MB"


def attention_text(figures: dict[str, Any]) -> str:
    parts = (_training, _shapes, _forward_and_urpe, _growth, _short, _decoding)
    return "\n\n".join(part(figures) for part in parts)


def check_text(figures: dict[str, Any]) -> str:
    answers = {True: "yes", False: "no", None: "unknown"}
    rows = [
        (
            f"{row['pattern']}, {row['tokens']:,} tokens",
            answers[row["universal"]],
            "-" if row["layers"] is None else f"{row['layers']:,}",
            answers[row["path"]] if row["pattern"] == "arbitrary mask" else "",
            time(row["seconds"]),
            f"{row['extra_bytes'] / 1e6:,.0f} MB",
        )
        for row in figures["verdicts"]
    ]
    return table(("verdict", "universal", "s", "path", "time", "extra memory"), rows)


def fit_text(figures: dict[str, Any]) -> str:
    rows = [
        (
            f"{row['function']}, {row['tokens']} x {row['features']}",
            f"{row['tol']:g}",
            f"{row['error']:.4f}",
            f"{row['linear']:.4f}",
            f"{row['constant']:.4f}",
            f"{row['steps']:,}",
            f"{row['seconds']:.0f} s",
            f"{row['cpu_seconds']:.0f} s",
        )
        for row in figures["fits"]
    ]
    head = ("mean absolute error", "asked", "fit", "linear", "constant", "steps", "time", "CPU")
    return table(head, rows)


def _training(figures: dict[str, Any]) -> str:
    rows, pattern = [], ""
    for row in figures["training"]:
        if row["pattern"] != pattern:
            pattern = row["pattern"]
            rows.append((_short_name(pattern), *[""] * 5))
        rows.append(
            (
                f"  {row['contestant']}",
                time(row["seconds"]),
                f"{row['slower']:.1f} x",
                f"{row['of_dense_rate']:.2f}",
                "" if row["of_dense_rate_cpu"] is None else f"{row['of_dense_rate_cpu']:.2f}",
                {True: "yes", False: "NO", None: "own mask"}[row["matches"]],
            )
        )
    head = (
        f"training step, {figures['tokens']:,} tokens",
        "time",
        "to anyseq",
        "of dense",
        "CPU",
        "formula",
    )
    return table(head, rows)


def _forward_and_urpe(figures: dict[str, Any]) -> str:
    forward, urpe = figures["forward"], figures["urpe"]
    flex = forward["flex"]
    rows = [
        (f"forward, {figures['tokens']:,} tokens, {_short_name(forward['pattern'])}", "", ""),
        ("  anyseq", time(forward["anyseq"]), "1.0 x"),
        (
            "  FlexAttention, compiled",
            "no compiler" if flex is None else time(flex),
            "" if flex is None else f"{flex / forward['anyseq']:.1f} x",
        ),
        (f"training step, {urpe['tokens']:,} tokens, URPE with RelativeBias", "", ""),
    ]
    ours = urpe["seconds"]["anyseq"]
    rows += [
        (f"  {name}", time(taken), f"{taken / ours:.1f} x")
        for name, taken in urpe["seconds"].items()
    ]
    rows.append(("  extra memory at 4 times the length", "", f"{urpe['memory_growth_4x']:.1f} x"))
    return table(("", "time", "to anyseq"), rows)


def _growth(figures: dict[str, Any]) -> str:
    rows = [
        (
            f"{_short_name(case['pattern'])}, {step['tokens']:,} tokens",
            time(step["seconds"]),
            f"{step['extra_bytes'] / 1e6:,.0f} MB",
            f"{step['seconds'] / case['steps'][0]['seconds']:.1f} x",
            f"{step['extra_bytes'] / case['steps'][0]['extra_bytes']:.1f} x",
        )
        for case in figures["growth"]
        for step in case["steps"]
    ]
    return table(("training step, anyseq", "time", "extra memory", "time", "memory"), rows)


def _short(figures: dict[str, Any]) -> str:
    ways = ("auto", "SDPA, mask", "native", "formula")
    rows = [
        (
            f"{_short_name(case['what'])}, {case['batch']} x {case['tokens']}",
            *(time(case["seconds"][way]) if way in case["seconds"] else "" for way in ways),
            f"{case['auto_over_best']:.2f} x",
            f"{case['forward_over_best']:.2f} x",
        )
        for case in figures["short"]
    ]
    return table(("short training step", *ways, "to best", "forward"), rows)


def _shapes(figures: dict[str, Any]) -> str:
    """Beside others: against its own quiet time, and against dense SDPA beside the same."""
    rows, shape = [], None
    for row in figures["shapes"]:
        if row["shape"] != shape:
            shape = row["shape"]
            batch, heads, groups, tokens = shape
            shared = f" on {groups}" if groups != heads else ""
            dense = time(row["dense_seconds"])
            name = f"{batch} x {heads}{shared} heads x {tokens:,}, dense SDPA"
            rows.append((name, dense, "1.0 x", "", *_beside(row, "dense")))
        rows.append(
            (
                f"  {_plain_name(row['pattern'])}",
                time(row["seconds"]),
                f"{row['faster']:.1f} x",
                f"{row['worth']:.2f}",
                *_beside(row, "ours"),
            )
        )
    beside = f"beside {figures['shapes'][0]['beside']}" if figures["shapes"] else "beside"
    return table(("training step", "quiet", "faster", "worth", beside, "slower"), rows)


def _beside(row: dict[str, Any], whose: str) -> tuple[str, str]:
    """Time, and how much slower than quiet."""
    own = {
        "ours": ("beside_seconds", "seconds"),
        "dense": ("beside_dense_seconds", "dense_seconds"),
    }
    crowded, quiet = (row[name] for name in own[whose])
    return ("", "") if crowded is None else (time(crowded), f"{crowded / quiet:.1f} x")


def _decoding(figures: dict[str, Any]) -> str:
    rows = [
        (
            f"{_plain_name(row['pattern'])}, attends to {row['visible']:,}",
            time(row["seconds"]["anyseq"]),
            time(row["seconds"]["SDPA"]),
            f"{row['seconds']['anyseq'] / row['seconds']['SDPA']:.2f} x",
        )
        for row in figures["decoding"]
    ]
    keys = figures["decoding"][0]["keys"]
    return table((f"one token after {keys:,}", "anyseq", "SDPA on these", "ratio"), rows)


def _plain_name(pattern: str) -> str:
    """Window(4) & Causal, for an intersection too."""
    if not pattern.startswith("Intersection"):
        return _short_name(pattern)
    parts = pattern.removeprefix("Intersection(parts=(").removesuffix("))").split("), ")
    names = [part if part.endswith(")") else f"{part})" for part in parts]
    return " & ".join(_short_name(name).removesuffix("()") for name in names)


def _short_name(pattern: str) -> str:
    """BigBird(block=64, window=3) -> BigBird(64, 3), without a seed; a plain name as it is."""
    if "(" not in pattern:
        return pattern
    name, _, inside = pattern[:-1].partition("(")
    values = [part.partition("=")[2] for part in inside.split(", ") if not part.startswith("seed")]
    return f"{name}({', '.join(values)})"


def time(taken: float) -> str:
    """0.25 s, or 12.30 ms."""
    return f"{taken:.2f} s" if taken >= 0.1 else f"{1000 * taken:.2f} ms"
