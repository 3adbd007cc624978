# SPDX-License-Identifier: Apache-2.0
"""Builds distributions of the Python package (PEP 517, PEP 660) by calling make. Standard library only.

A wheel has the extension, the package, and below pto/tree what `make install` copies: library, command,
headers and examples. One wheel is for Python 3.9 and all later versions. An editable one refers to
build/python of this tree, which `make python` keeps up to date, and nothing else does.
"""

import ast
import base64
import configparser
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IGNORED = {"build", ".git", "__pycache__"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        make("python", "install", f"DESTDIR={folder}", "PREFIX=/tree")
        shutil.copytree(os.path.join(ROOT, "build", "python", "pto"), os.path.join(folder, "pto"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        os.rename(os.path.join(folder, "tree"), os.path.join(folder, "pto", "tree"))
        strip(folder)
        files = {name: path for name, path in files_below(folder)
                 if not name.startswith(("pto/tree/share/doc/", "pto/tree/share/man/man3/"))}
        return write_wheel(wheel_directory, files, patches(files))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    make("python")
    return write_wheel(wheel_directory, {}, {"pto_runtime.pth": f"{ROOT}/build/python\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    base = f"pto_runtime-{version()}"
    path = os.path.join(sdist_directory, f"{base}.tar.gz")
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in source_files():
            archive.add(os.path.join(ROOT, name), f"{base}/{name}", recursive=False, filter=anonymous)
        text = metadata().encode()
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return os.path.basename(path)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = f"pto_runtime-{version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, info))
    for name, text in {"METADATA": metadata(), "entry_points.txt": entry_points()}.items():
        with open(os.path.join(metadata_directory, info, name), "w", encoding="utf-8") as file:
            file.write(text)
    return info


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def make(*arguments):
    if sys.version_info < (3, 9):
        raise SystemExit("pto-runtime needs Python 3.9 or later")
    if shutil.which("make") is None:
        raise SystemExit("pto-runtime is built by make, which is missing; docs/internals/dependencies.md lists the requirements")
    command = ["make", "-s", f"-j{os.cpu_count() or 1}", f"PYTHON={sys.executable}", *arguments]
    # Remove pip's own Python settings from the environment of the tools that make calls.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "MAKEFLAGS")}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed; docs/internals/dependencies.md lists what is needed\n{done.stdout}")


def files_below(top):
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(n for n in inner if n not in IGNORED)
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, top), path


def source_files():
    """Lists the files of the project: those that git tracks, or all files of an unpacked archive."""
    if os.path.exists(os.path.join(ROOT, ".git")):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        return [n for n in listed.decode().split("\0") if n and os.path.lexists(os.path.join(ROOT, n))]
    return [name for name, _ in files_below(ROOT) if name != "PKG-INFO"]


def patches(files):
    """Adapts files that depend on their location: wheels hold no links and are unpacked anywhere."""
    library = next(os.path.basename(p) for p in files.values() if re.search(r"/libpto\.so\.\d+$", p))
    with open(files["pto/tree/lib/pkgconfig/pto.pc"], encoding="utf-8") as file:
        config = re.sub(r"^prefix=.*", "prefix=${pcfiledir}/../..", file.read(), flags=re.M)
    return {"pto/tree/lib/libpto.so": f"INPUT({library})\n".encode(),
            "pto/tree/lib/pkgconfig/pto.pc": config.encode()}


def strip(folder):
    """Strips debug information, which reduces the size to a fifth."""
    if shutil.which("strip"):
        for _, path in files_below(folder):
            with open(path, "rb") as file:
                is_elf = not os.path.islink(path) and file.read(4) == b"\x7fELF"
            if is_elf:
                subprocess.run(["strip", "--strip-debug", path], check=False)


def write_wheel(directory, files, contents):
    base = f"pto_runtime-{version()}"
    tag = f"cp39-abi3-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"
    info = f"{base}.dist-info"
    name = f"{base}-{tag}.whl"
    contents = {**contents,
                f"{info}/METADATA": metadata().encode(),
                f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: pto_backend\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
                f"{info}/entry_points.txt": entry_points().encode()}
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        contents[f"{info}/LICENSE"] = file.read()
    record = []
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted({*files, *contents}):
            mode = 0o644
            if path in contents:
                data = contents[path]
            else:
                mode = 0o755 if os.access(files[path], os.X_OK) else 0o644
                with open(files[path], "rb") as file:
                    data = file.read()
            add(wheel, path, data, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
        record.append(f"{info}/RECORD,,\n")
        add(wheel, f"{info}/RECORD", "".join(record).encode(), 0o644)
    return name


def add(wheel, path, data, mode):
    entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))  # makes the archive reproducible
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    wheel.writestr(entry, data)


def anonymous(info):
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def project(section="project"):
    """A section of pyproject.toml, which is also an INI file, because Python 3.9 has no module for TOML."""
    file = configparser.RawConfigParser(inline_comment_prefixes="#")
    file.read(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8")
    return {key: ast.literal_eval(re.sub(r"^{ (\w+) =", r"{ '\1':", value)) for key, value in file[section].items()}


def version():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        return re.search(r"^VERSION = (\S+)", file.read(), re.M).group(1)


def metadata():
    about = project()
    with open(os.path.join(ROOT, about["readme"]), encoding="utf-8") as file:
        text = file.read()
    return (f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {version()}\nSummary: {about['description']}\n"
            f"License: {about['license']['text']}\nRequires-Python: {about['requires-python']}\n"
            f"Description-Content-Type: text/markdown\n\n{text}")


def entry_points():
    return "[console_scripts]\n" + "".join(f"{name} = {target}\n" for name, target in project("project.scripts").items())
