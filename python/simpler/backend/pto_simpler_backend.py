# SPDX-License-Identifier: Apache-2.0
"""Builds the distribution pto-simpler (PEP 517, 660): files in Python, nothing to compile, nothing to download."""

from __future__ import annotations

import ast
import base64
import configparser
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ["_task_interface.py", "pto_simpler_pytest.py"]
FOLDERS = ["simpler", "simpler_setup"]


def _project(section: str = "project") -> dict:
    """A section of pyproject.toml, which is also an INI file, because Python 3.9 has no module for TOML."""
    file = configparser.RawConfigParser(inline_comment_prefixes="#")
    file.read(ROOT / "pyproject.toml", encoding="utf-8")
    return {key: ast.literal_eval(re.sub(r"^{ (\w+) =", r"{ '\1':", value)) for key, value in file[section].items()}


def _name() -> str:
    project = _project()
    return f"{project['name'].replace('-', '_')}-{project['version']}"


def _metadata() -> str:
    project = _project()
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"License: {project['license']['text']}"]
    lines += [f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    return "\n".join(lines) + "\n"


def _entry_points() -> str:
    names = _project("project.entry-points.pytest11")
    return "\n".join(["[pytest11]", *(f"{name} = {target}" for name, target in names.items())]) + "\n"


def _sources() -> list[Path]:
    found = [ROOT / name for name in FILES] + [p for name in FOLDERS for p in sorted((ROOT / name).rglob("*.py"))]
    return [path for path in found if "__pycache__" not in path.parts]


def _write_wheel(folder: str, files: dict[str, bytes]) -> str:
    info = f"{_name()}.dist-info"
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/entry_points.txt"] = _entry_points().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: pto\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{_name()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(zipfile.ZipInfo(name), data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {str(p.relative_to(ROOT)): p.read_bytes() for p in _sources()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {"pto_simpler.pth": f"{ROOT}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    archive = f"{_name()}.tar.gz"
    metadata = _metadata().encode()
    with tarfile.open(Path(sdist_directory) / archive, "w:gz") as out:
        for path in [*_sources(), ROOT / "pyproject.toml", Path(__file__)]:
            out.add(path, f"{_name()}/{path.relative_to(ROOT)}")
        entry = tarfile.TarInfo(f"{_name()}/PKG-INFO")
        entry.size = len(metadata)
        out.addfile(entry, io.BytesIO(metadata))
    return archive
