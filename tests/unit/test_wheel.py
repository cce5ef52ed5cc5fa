"""The wheel: what is in it, and that its commands work where there is no checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKED = "kvmodel/_data"
NEED_THE_BOOK = (["chapters"], ["scenarios"], ["run", "kv-size"], ["sweep", "kv-size", "-p", "users=1,2"], ["figures"], ["cite", "kv-by-attention"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a function that runs the unpacked wheel from an empty folder."""
    site, elsewhere = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    zipfile.ZipFile(wheel).extractall(site)

    def run(*args):
        command = [sys.executable, *(args if args[0] == "-c" else ("-m", "kvmodel", *args))]
        return subprocess.run(command, cwd=elsewhere, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=300)

    assert run("-c", "import kvmodel; print(kvmodel.__file__)").stdout.startswith(str(site))
    return run


def test_files_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        p.relative_to(ROOT).as_posix()
        for p in [ROOT / "data" / "sources.toml", *ROOT.glob("data/*.csv"), *ROOT.glob("data/*.json"), *ROOT.glob("data/traces/*")]
    }
    assert {f"{PACKED}/{n.removeprefix('data/')}" for n in data} <= names
    specs = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("kvmodel/specs/**/*") if p.is_file()}
    code = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("kvmodel/**/*.py")}
    assert specs | code <= names
    other = {n for n in names if not n.startswith(("kvmodel/", "kvmodel-"))}
    assert not other
    assert wheel.stat().st_size < 8_000_000


@pytest.mark.parametrize(
    "args",
    [
        ["size", "llama-3.3-70b"],
        ["fit", "llama-3.3-70b", "--platform", "h100-8"],
        ["cards"],
        ["tiers"],
        ["hardware"],
        ["claims"],
        ["load", "llama-3.1-8b", "--context", "1k", "--tier", "main-memory", "--platform", "h100-8"],
    ],
)
def test_commands_that_work_without_a_checkout(installed, args):
    done = installed(*args, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


@pytest.mark.parametrize("args", NEED_THE_BOOK)
def test_commands_that_need_the_book_say_so(installed, args):
    done = installed(*args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--book DIR" in done.stderr
    assert "unrecognized" not in installed(*args, "--book", "nowhere").stderr


@pytest.mark.parametrize("command", ["chapters", "scenarios", "figures"])
def test_the_book_may_be_elsewhere(installed, command):
    done = installed(command, "--book", str(ROOT), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
