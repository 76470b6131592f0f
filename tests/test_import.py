"""What importing anyseq does, and does not."""

import json
import subprocess
import sys

import anyseq


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_everything_public_is_there() -> None:
    for name in anyseq.__all__:
        assert getattr(anyseq, name) is not None
    assert len(set(anyseq.__all__)) == len(anyseq.__all__)


def test_plotting_terminal_and_transformers_load_when_used() -> None:
    loaded = json.loads(
        run(
            "import json, sys, anyseq; "
            "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
        )
    )
    for heavy in ("matplotlib", "rich", "cyclopts", "scipy", "transformers"):
        assert heavy not in loaded


def test_importing_adds_little_to_importing_torch() -> None:
    """Under 0.3 s: the best of three, since another process may be in the way."""
    code = (
        "import torch, time; start = time.process_time(); import anyseq; "
        "print(time.process_time() - start)"
    )
    assert min(float(run(code)) for _ in range(3)) < 0.3


def test_nothing_global_is_set() -> None:
    code = (
        "import torch; a = (torch.get_default_dtype(), torch.get_num_threads(), "
        "torch.initial_seed()); import anyseq as aq; "
        "aq.approximate(aq.functions['sort'], aq.Design(2), features=1, tol=0.2, lipschitz=1.0); "
        "b = (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed()); "
        "print(a == b)"
    )
    assert run(code).strip() == "True"


def test_a_missing_extra_names_the_command() -> None:
    code = (
        "import importlib.util as util; found = util.find_spec; "
        "util.find_spec = lambda name, *a: None if name == 'matplotlib' else found(name, *a)\n"
        "import anyseq as aq\n"
        "try: aq.show\n"
        "except aq.errors.MissingExtra as problem: print(problem)"
    )
    assert 'pip install "anyseq[plots]"' in run(code)
