"""Every planted fault, and what an audit says of it: `make faults` writes docs/faults.md."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers

import anyseq as aq
from anyseq.base import layers_named
from anyseq.models import Audit, Fault
from models.faults.planted.every import KINDS, PLANTED
from models.faults.planted.fault import Planted

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
MADE_WITH = (
    f"torch {torch.__version__.partition('+')[0]} and transformers {transformers.__version__}"
)
INTRODUCTION = f"""# Planted faults

Each of these models has a fault that was put into it on purpose, of a kind that has been reported; many name a public thread about one of the kind. The table gives what `aq.audit` finds: the rule, the layers, a pair of tokens (output, token) that is wrong, and the size of the effect. A fault may bring others with it: a layer that gets no mask ignores padding, too.

Folded under each is code that shows it on the model, named `model`, without anyseq, and what it prints with and without the fault. The models are tiny and have the weights that they are initialised with, which is why some effects are small. [audit.md](audit.md) says what is checked, and how.

`make faults` writes this page; this one was made with {MADE_WITH}. The models are in `tests/models/faults/planted`. In the tests a twin of each without the fault is audited, and passes.
"""  # noqa: E501


def planted_fault(planted: Planted, found: Audit) -> Fault:
    """The fault that was planted, among those found."""
    here = [one for one in found.faults if (one.rule, one.layers) == (planted.rule, planted.layers)]
    assert here, [(one.rule, one.layers, one.says) for one in found.faults]
    return here[0]


def printed(snippet: str, model: Any) -> float:
    """The number that a snippet prints of a model."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        exec(snippet, {"model": model})
    return float(out.getvalue())


def row(planted: Planted, fault: Fault) -> str:
    """The line of the table."""
    where = layers_named(fault.layers) if fault.layers else fault.module or "the model"
    pair = "-" if fault.pair is None else str(fault.pair)
    effect = "-" if fault.pair is None else f"{fault.size:.2g}"
    cells = (planted.name, planted.family, fault.rule, where, pair, effect)
    return f"| {' | '.join(cells)} |"


def section(planted: Planted, found: Audit, faulty: float, healthy: float) -> str:
    """What was planted, what the audit says, and the lines that show it."""
    thread = f" A thread of this kind: {planted.thread}." if planted.thread else ""
    answer, _, _ = str(found).partition("\n  declared ")
    return f"""### {planted.family}: {planted.name}

{planted.planted}{thread}

```text
{answer.rstrip()}
```

<details><summary>Lines that show it</summary>

```python
{planted_fault(planted, found).snippet.rstrip()}
```

This prints {faulty:.2g}; without the fault, {healthy:.2g}.

</details>
"""


def looked_at(planted: Planted) -> tuple[str, str]:
    """The line of the table and the section of one planted fault."""
    model, declared = planted.make()
    found = aq.audit(model, declared)
    fault = planted_fault(planted, found)
    faulty = printed(fault.snippet, planted.make()[0])
    healthy = printed(fault.snippet, planted.healthy()[0])
    return row(planted, fault), section(planted, found, faulty, healthy)


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    done = {planted: looked_at(planted) for planted in PLANTED}
    table = ["| fault | family | rule | where | pair | effect |", "|---|---|---|---|---|---|"]
    parts = [INTRODUCTION, "\n".join([*table, *(line for line, _ in done.values())]) + "\n"]
    for kind in KINDS:
        parts.append(f"## {str(kind.__doc__).rstrip('.')}\n")
        parts += [done[planted][1] for planted in kind.FAULTS]
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
