# Every verb sets up what it needs: `make book` and `make test` work in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CHAPTERS = $(wildcard book/*.ipynb)

.PHONY: book test strict serve refresh cards data bench release clean lint unit notebooks browser

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed')"
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	touch $@

book: $(READY)  ## the book, in _build/html
	mkdir -p _figures/figures
	KVMODEL_BUILD="$(CURDIR)" $(BIN)/jb build . --all --quiet

strict: $(READY)  ## a clean build; warnings are errors, a failing cell too
	rm -rf _build _figures && mkdir -p _figures/figures
	KVMODEL_BUILD="$(CURDIR)" $(BIN)/jb build . --all --quiet -W -n --keep-going

test: lint unit notebooks strict browser  ## everything

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest tests kvmodel --ignore tests/book -n 2 --dist loadfile

notebooks: $(READY)  ## strict: every chapter says what it said when it was committed
	$(BIN)/pytest --nbval $(CHAPTERS) -n 2 --dist loadscope -p no:doctest

browser: $(READY)  ## every page of the strict build, in chromium
	$(BIN)/pytest tests/book

refresh: $(READY)  ## run every chapter again and keep its outputs; then what is made from them
	$(BIN)/python -m kvmodel.report.refresh

cards: $(READY)  ## model cards from data/configs
	$(BIN)/python -m kvmodel.report.build_cards

data: $(READY)  ## every table of data/ from data/raw
	$(BIN)/python -m kvmodel.report.tables

bench: $(READY)  ## speed against its limits, as ratios
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

release: strict  ## dist/site-<version>.zip, and dist/site with every version
	$(BIN)/python -m kvmodel.report.release

serve: book
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:  ## all that is made, but for dist/
	rm -rf _build _figures runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
