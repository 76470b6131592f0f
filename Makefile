# Two commands on a machine with Python 3.11 or newer and make:
#   make demo   install what the demo needs into .venv, run it
#   make test   install what the tests need into .venv, run them
# A second run skips the installation unless the pinned requirements have changed.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: demo test docs soak matrix package sanitize zoo hf-types faults pictures networks house lint types layers bench clean

demo: .venv/core
	$(BIN)/anyseq demo
	@echo "to type anyseq yourself: source .venv/bin/activate"

# One torch thread per worker: more would fight for the same cores.
test: .venv/full
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto -m "not long"
	@echo "Left to make soak: the tests marked long, and more of what the fuzzers try."

# The documentation, in site/: pages, notebooks (run once, then kept in build/), and all its links.
docs: .venv/docs
	rm -rf site build/docs/site
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going \
		--doctree-dir build/docs/doctrees docs build/docs/site
	$(BIN)/python docs/_ext/links.py build/docs/site
	mv build/docs/site site

# What make test leaves out, then its fuzzers, many times as long: forgeries, calls, command lines,
# files, configs.
SOAK ?= 50
soak: .venv/full
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto -m long
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto --soak=$(SOAK) \
		tests/fuzz tests/construct/test_forger.py

# Other versions of torch and transformers, each in an environment of its own: gigabytes, an hour.
matrix: .venv/full
	$(BIN)/python tests/matrix.py

# The sdist and the wheel, in dist, each tried in new environments without extras. Five minutes.
package: .venv/full
	$(BIN)/python tests/package.py

# The native kernel's tests under AddressSanitizer, and under ThreadSanitizer.
sanitize: .venv/full
	$(BIN)/python tests/sanitize.py address
	$(BIN)/python tests/sanitize.py thread

# Every type of config that transformers has, read: docs/zoo.json and docs/zoo.md. Half an hour.
zoo: .venv/full
	OMP_NUM_THREADS=1 $(BIN)/python tests/zoo.py

# Every type of model that transformers has, with hf.use: docs/hf.json and the table of docs/hf.md.
hf-types: .venv/full
	OMP_NUM_THREADS=1 $(BIN)/python tests/hf_types.py

# Models with planted faults, and what an audit says of them: docs/faults.md. A minute.
faults: .venv/full
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/models/faults/page.py

# The pictures of README.
pictures: .venv/core
	$(BIN)/anyseq compare "window(2), rope" "longformer(2), urpe" --tokens 24 \
		--animate docs/anyseq.gif
	$(BIN)/anyseq check --pattern "window(2)" --position rope --tokens 8 --picture docs/ask.png
	OMP_NUM_THREADS=1 $(BIN)/anyseq demo --lecture 2 --out docs

# The networks that the page of `anyseq play` brings along. Seconds.
networks: .venv/full
	OMP_NUM_THREADS=1 $(BIN)/python -c "from anyseq.play.shipped import write; write()"

# The import graph of the floors, and of the rooms of construct: docs/house.svg and docs/rooms.svg.
house: .venv/full
	$(BIN)/python tests/house.py

lint: .venv/full
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/full
	$(BIN)/mypy

layers: .venv/full
	$(BIN)/lint-imports

# With the peers, which are among the requirements of the tests.
bench: .venv/full
	$(BIN)/anyseq bench construct
	$(BIN)/anyseq bench attention

clean:
	rm -rf .venv anyseq-demo build/docs site

KERNEL := $(wildcard src/anyseq/ops/native/*.cpp src/anyseq/ops/native/*.hpp)

.venv/core: requirements/core.txt pyproject.toml $(KERNEL)
	@echo "installing into .venv: about a minute the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -r requirements/core.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

.venv/full: .venv/core requirements/full.txt
	$(PIP) -r requirements/full.txt
	touch $@

.venv/docs: .venv/full requirements/docs.txt
	$(PIP) -r requirements/docs.txt
	touch $@
