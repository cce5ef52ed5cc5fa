"""The command line: values it understands, values it refuses in one line, output that other programs can read."""

import json
import subprocess
import sys

import pytest

from kvmodel.cli import main

FIT = ["fit", "llama-3.3-70b"]
SIZE = ["size", "llama-3.3-70b"]
LOAD = ["load", "llama-3.1-8b", "--tier", "main-memory", "--platform", "h100-8"]


def document(capsys, *args):
    assert main([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert not err
    return json.loads(out)


def refusal(capsys, *args):
    assert main(list(args)) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


def test_native_may_be_said(capsys):
    assert document(capsys, *SIZE, "--context", "native") == document(capsys, *SIZE)
    assert document(capsys, *FIT, "--memory", "640GB", "--context", "native") == document(capsys, *FIT, "--memory", "640GB")
    assert document(capsys, *LOAD, "--context", "native")["context_tokens"] == 131_072


@pytest.mark.parametrize(
    ("args", "key", "value"),
    [
        ([*SIZE, "--context=1.5k"], "context_tokens", 1500),
        ([*SIZE, "--users", "1e3"], "users", 1000),
        ([*SIZE, "--users", "0.5k"], "users", 500),
        ([*SIZE, "--block-tokens", "1Ki"], "block_tokens", 1024),
        ([*SIZE, "--context", "17", "--tp", "16"], "kv_bytes_per_device", 17 * 40_960),
        ([*FIT, "--memory", "640 GB"], "memory_bytes", 640 * 10**9),
        ([*FIT, "--memory", "1GB"], "max_users", 0),
        ([*FIT, "--memory", "1GB"], "max_context_tokens", 0),
        (["fit", "mamba-codestral-7b-v0.1", "--memory", "80GB", "--context", "1"], "max_context_tokens", None),
        (["fit", "llama-3.3-70b", "--platform", "gb200-nvl72", "--tp", "5"], "replicas", 14),
    ],
)
def test_values_it_understands(capsys, args, key, value):
    assert document(capsys, *args)[key] == value


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*SIZE, "--context", "-5k"], "context: '-5k'"),
        ([*SIZE, "--context", "１００"], "context: "),
        ([*SIZE, "--context", "1__000"], "context: "),
        ([*SIZE, "--users", "0.5"], "users: "),
        ([*SIZE, "--indexer-dtype", "fp4"], "nearest: 'fp8'"),
        ([*SIZE, "--params", "9.2e18"], "params: a result of 1.84e+19 bytes"),
        ([*SIZE, "--block-tokens", "1e18"], "block_tokens: a result"),
        ([*SIZE, "--contxt", "1k"], "nearest: '--context'"),
        ([*FIT, "--memory", "-640GB"], "memory: '-640GB'"),
        ([*FIT, "--memory", "", "--platform", "h100-8"], "memory: both"),
        ([*FIT, "--memory", "1GB", "--usable", "٠.٩"], "usable: "),
        ([*LOAD, "--context", "1e15"], "context: a result of"),
        (["size", ""], "model: ''"),
        (["size", "a" * 5000], "model: "),
        (["tiers", "a" * 5000], "tier: "),
        (["cards", ""], "model: ''"),
        (["size", "meta-llama/Llama-3.3-70B-Instruct"], "nearest: 'llama-3.3-70b'"),
        (["run", "kv-size", "--scenario", "a" * 5000], "File name too long"),
        (["siz"], "nearest: 'size'"),
    ],
)
def test_refused_in_one_line(capsys, args, words):
    assert words in refusal(capsys, *args)


def shell(script):
    """Run a shell line in which `kvmodel` is this package; returns the finished process."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; kvmodel() {{ "{sys.executable}" -m kvmodel "$@"; }}; {script}'], capture_output=True, text=True, timeout=60
    )


def test_a_reader_that_leaves_and_a_full_disk():
    assert (shell("kvmodel cards | true").returncode, shell("kvmodel cards --json | head -1").stderr) == (0, "")
    full = shell("kvmodel cards > /dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (2, 1)


def test_output_where_the_terminal_knows_only_ascii():
    done = shell("export PYTHONIOENCODING=ascii PYTHONUTF8=0; kvmodel chapters >/dev/null && kvmodel chapters --json")
    assert done.returncode == 0
    assert "缓存" in str(json.loads(done.stdout))
