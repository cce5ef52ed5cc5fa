# Every verb sets up what it needs: `make book` and `make test` work in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BUILD = rm -rf _build && $(BIN)/jb build . --all --quiet

.PHONY: book test strict serve refresh cards data bench release clean lint unit notebooks browser

book: $(READY)  ## the book, in _build/html; chapters are always executed: package or data may have changed
	$(BUILD)

test: lint unit notebooks strict browser  ## everything

strict: $(READY)  ## the book again, where a warning is an error
	$(BUILD) -W -n --keep-going

serve: book  ## the book, on http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

refresh: $(READY)  ## run every chapter again and keep its outputs; then what is made from them
	$(BIN)/python -m kvmodel.report.refresh

cards: $(READY)  ## model cards, from data/configs
	$(BIN)/python -m kvmodel.report.build_cards

data: $(READY)  ## every table of data/, from data/raw
	$(BIN)/python -m kvmodel.report.tables

bench: $(READY)  ## speed against its limits, as ratios
	set -e; for script in benchmarks/bench_*.py; do $(BIN)/python $$script; done

release: $(READY)  ## dist/site-<version>.zip, and dist/site with every version
	$(BIN)/python -m kvmodel.report.release --check
	$(MAKE) strict
	$(BIN)/python -m kvmodel.report.release

clean:  ## all that is made, but for .venv/ and dist/
	rm -rf _build _figures runs book/_assets/vendor .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest tests kvmodel --ignore tests/book -n 2 --dist loadfile

notebooks: $(READY)  ## every chapter says what it said when it was committed
	$(BIN)/pytest -o addopts= -q --nbval -n 2 --dist loadscope book/*.ipynb

browser: $(READY)  ## every page of the built book, in chromium
	$(BIN)/pytest tests/book -n 2 --dist worksteal -rs

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name it with: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	touch $@
