"""What the command line imports, and what it need not."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from anyseq.cli.main import _COMMANDS
from anyseq.verdicts import SECONDS


def imported(code: str) -> set[str]:
    """The modules that are there after some code, in a process of its own."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def running(*arguments: str) -> str:
    return (
        "from anyseq.cli import main\n"
        f"try: main({list(arguments)})\n"
        "except SystemExit as stopped: assert stopped.code == 0"
    )


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help")], ids=" ".join)
def test_help_needs_no_torch(arguments: tuple[str, ...]) -> None:
    found = imported(running(*arguments))
    assert "anyseq.cli.main" in found
    assert found.isdisjoint({"torch", "numpy", "scipy", "transformers", "matplotlib"})


def test_a_config_needs_the_base_of_models_and_its_own_model(tmp_path: Path) -> None:
    """Nothing of torch and transformers is imported beyond what a model of that type needs."""
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    ours = imported(running("check", str(file)))
    needed = imported("import transformers.models.llama.modeling_llama")
    heavy = {"torch", "transformers", "sympy", "matplotlib", "networkx", "pandas"}
    more = {name for name in ours - needed if name.split(".")[0] in heavy}
    parts = {".".join(name.split(".")[:2]) for name in more}
    assert "torch._inductor" not in parts
    assert parts.isdisjoint({"sympy", "matplotlib", "networkx", "pandas"})
    assert len(more) < 20, sorted(more)


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_the_help_of_a_command_is_its_own_description(command: str) -> None:
    """It stands in two places, since --help imports no command."""
    module = importlib.import_module(f"anyseq.cli.{command}")
    described = inspect.getdoc(getattr(module, command)) or ""
    assert " ".join(described.split("Parameters")[0].split()) == " ".join(
        _COMMANDS[command].split()
    )


def test_the_time_is_that_of_check() -> None:
    from anyseq.cli.check import check

    assert inspect.signature(check).parameters["seconds"].default == SECONDS


@pytest.mark.parametrize("command", ["check", "audit", "compare"])
def test_without_transformers_the_extra_is_named(command: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    code = (
        "import sys\nsys.modules['transformers'] = None\n"
        f"from anyseq.cli import main\nmain({[command, str(config)]!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "anyseq[hf]"' in done.stderr
    assert "Traceback" not in done.stderr
