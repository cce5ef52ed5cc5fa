"""`make release`: a frozen copy of the built site, and the tree to serve: the latest version, with every version under `v/<version>/`."""

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from kvmodel import __version__
from kvmodel.report.lock import LOCK, base_address, derive_lock, read_lock
from kvmodel.report.publish import finish
from kvmodel.report.record import Edition, edition_here
from kvmodel.units import KvError, refuse

MANIFEST = "manifest.json"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the same site gives the same bytes


def check(root: Path, dist: Path) -> None:
    """Refuse a version that is frozen already, and a lock file that is not the one of the executed chapters."""
    if (dist / f"site-{__version__}.zip").exists():
        raise refuse("version", __version__, "a version that is not frozen yet (a frozen one is never rewritten); raise __version__ in kvmodel/__init__.py")
    if derive_lock(root) != read_lock(root):
        raise KvError(f"{LOCK}: not that of the executed chapters; write it with: make refresh")


def freeze(site: Path, dist: Path, edition: Edition) -> Path:
    """Return `dist/site-<version>.zip` of a built site, with its sha256 and manifest written beside it (the manifest is in it, too).

    Raises
    ------
    KvError : no built site, a site of another version, or a version that is frozen already
    """
    target = dist / f"site-{edition.version}.zip"
    if target.exists():
        raise refuse("version", edition.version, f"a version that is not frozen yet; {target.name} is there and is never rewritten")
    if not (site / "index.html").is_file():
        raise refuse("site", site.name, "a folder with the built book; build it with: make book")
    for path in site.glob("figures/*/figure.json"):
        if (made := json.loads(path.read_text("utf-8"))["version"]) != edition.version:
            raise refuse("site", f"figure {path.parent.name} of version {made}", f"a build of version {edition.version}; build it with: make book")
    names = sorted(p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file() and p.name != ".buildinfo")
    content = {name: (site / name).read_bytes() for name in names if name != MANIFEST}
    files = {name: {"bytes": len(data), "sha256": sha256(data).hexdigest()} for name, data in content.items()}
    manifest = json.dumps(asdict(edition) | {"files": files}, indent=1) + "\n"
    dist.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    _zip(part, content | {MANIFEST: manifest.encode()})
    digest = sha256(part.read_bytes()).hexdigest()
    part.rename(target)
    (dist / f"site-{edition.version}.zip.sha256").write_text(f"{digest}  {target.name}\n", "utf-8")
    (dist / f"site-{edition.version}.manifest.json").write_text(manifest, "utf-8")
    return target


def _zip(target: Path, content: dict[str, bytes]) -> None:
    with ZipFile(target, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(content.items()):
            entry = ZipInfo(name, FIXED_TIME)
            entry.compress_type, entry.create_system, entry.external_attr = ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, data)


def lay_out(dist: Path, root: Path) -> Path:
    """Return `dist/site`: the newest frozen version, and each version under `v/<version>/` as it was frozen.

    The landing pages of the newest list the frozen versions; the frozen pages stay as they were.
    """
    archives = sorted(dist.glob("site-*.zip"), key=lambda p: _order(_version(p)))
    if not archives:
        raise refuse("dist", dist.name, "a folder with at least one site-<version>.zip; make one with: make release")
    site, new = dist / "site", dist / ".site.new"
    shutil.rmtree(new, ignore_errors=True)
    _unpack(archives[-1], new)
    for archive in archives:
        _unpack(archive, new / "v" / _version(archive))
    for kept in site.glob("v/*"):
        if not (new / "v" / kept.name).exists():  # its archive is gone: the copy is all there is
            shutil.copytree(kept, new / "v" / kept.name)
    facts: dict[str, Any] = json.loads((new / MANIFEST).read_text("utf-8"))
    finish(new, root, Edition(**{key: facts[key] for key in Edition.__dataclass_fields__}))
    shutil.rmtree(site, ignore_errors=True)
    new.rename(site)
    return site


def _unpack(archive: Path, folder: Path) -> None:
    with ZipFile(archive) as opened:
        opened.extractall(folder)


def _version(archive: Path) -> str:
    return archive.name.removeprefix("site-").removesuffix(".zip")


def _order(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def main(argv: list[str] | None = None) -> int:
    """Freeze the built site of the checkout in the current folder and lay out `dist/site`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kvmodel.report.release", description=main.__doc__)
    parser.add_argument("--site", default="_build/html", help="the built book")
    parser.add_argument("--check", action="store_true", help="only say whether this version can be released, before the book is built")
    parser.add_argument("--layout", action="store_true", help="only lay out dist/site again from the archives in dist")
    args = parser.parse_args(argv)
    root, dist = Path.cwd(), Path.cwd() / "dist"
    try:
        if not args.layout:
            check(root, dist)
        if args.check:
            return 0
        if not args.layout:
            edition = edition_here(root, base_address(root))
            print(f"frozen: {freeze(root / args.site, dist, edition).relative_to(root)}, {edition.commit_words or 'no commit known'}")
        print(f"laid out: {lay_out(dist, root).relative_to(root)}")
    except KvError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
