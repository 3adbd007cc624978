# SPDX-License-Identifier: Apache-2.0
"""Lists the arguments in args_dump/ of a run, and writes their values as text."""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

from . import _files

# Types whose values Python can read; others are written as bytes.
_FORMATS = {
    "FLOAT32": "f", "FLOAT16": "e", "FLOAT64": "d", "INT8": "b", "UINT8": "B", "INT16": "h", "UINT16": "H",
    "INT32": "i", "UINT32": "I", "INT64": "q", "UINT64": "Q", "BOOL": "?",
}  # fmt: skip


def values(entry: dict, data: bytes) -> list:
    """The elements of a dumped tensor."""
    dtype = entry["dtype"]
    if dtype == "BFLOAT16":  # the upper half of a float
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    code = _FORMATS.get(dtype)
    if code is None:
        return list(data)
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def _head(index: int, entry: dict) -> str:
    words = [
        f"[{index}] task {entry['task_id']} func {','.join(map(str, entry['func_id']))}",
        f"arg {entry['arg_index']} {entry['role']} {entry['stage']}",
    ]
    if entry["kind"] == "tensor":
        words.append(f"{entry['dtype']}{entry['shape']} {entry['bin_size']} bytes")
        words += [word for word in ("truncated", "overwritten") if entry.get(word)]
    else:
        words.append(f"{entry.get('dtype', 'scalar')} {entry.get('value')}")
    return "  ".join(words)


def _is_wanted(index: int, entry: dict, options: argparse.Namespace) -> bool:
    return (
        (options.index is None or index == options.index)
        and (options.task is None or int(entry["task_id"], 0) == int(options.task, 0))
        and (options.stage is None or entry["stage"].startswith(options.stage))
        and (options.role is None or entry["role"] == options.role)
        and (options.arg is None or entry["arg_index"] == options.arg)
    )


def _export(folder: Path, name: str, index: int, entry: dict) -> Path:
    with (folder / name).open("rb") as dump:
        dump.seek(entry["bin_offset"])
        data = dump.read(entry["bin_size"])
    if len(data) != entry["bin_size"]:
        raise ValueError(f"{folder / name} ends before argument {index}; the run was interrupted, so repeat it")
    path = folder / f"{index}_{entry['task_id']}_arg{entry['arg_index']}_{entry['stage']}.txt"
    path.write_text("\n".join([_head(index, entry), *map(str, values(entry, data))]) + "\n")
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="dump_viewer", description=__doc__)
    parser.add_argument("dump_dir", nargs="?", help="folder args_dump of a run; by default the newest below outputs/")
    parser.add_argument("--task", "-t", help="only this task, by its id")
    parser.add_argument("--stage", "-s", choices=["before", "after"], help="only before or after the task")
    parser.add_argument("--role", "-r", choices=["input", "output", "inout"], help="only this role")
    parser.add_argument("--arg", "-a", type=int, help="only the argument with this index")
    parser.add_argument("--index", "-i", type=int, help="only this entry of the file")
    parser.add_argument("--export", "-e", action="store_true", help="write the values of each tensor to a text file")
    options = parser.parse_args(arguments)
    folder = Path(options.dump_dir) if options.dump_dir else _files.latest("args_dump")
    data = _files.load(folder / "args_dump.json", "args")
    chosen = [pair for pair in enumerate(data["args"]) if _is_wanted(*pair, options)]
    print(f"{folder}: {len(chosen)} of {len(data['args'])} arguments")
    if data.get("dropped_records"):
        print(f"{data['dropped_records']} arguments were not recorded: the dump was full")
    for index, entry in chosen:
        print(_head(index, entry))
        if options.export and entry["kind"] == "tensor" and entry.get("bin_size"):
            print(f"    wrote {_export(folder, data['bin_file'], index, entry)}")


if __name__ == "__main__":
    _files.run("dump_viewer", main)
