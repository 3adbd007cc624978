# SPDX-License-Identifier: Apache-2.0
"""The code of an object for a chip's cores: its section .text."""

from __future__ import annotations

import struct
from pathlib import Path

from simpler._guard import refuse

_SECTION = struct.Struct("<IIQQQQIIQQ")


def extract_text_section(obj_input: str | Path | bytes) -> bytes:
    """The bytes of .text of a 64-bit ELF object, given as a path or as bytes."""
    is_bytes = isinstance(obj_input, bytes)
    data = obj_input if is_bytes else Path(obj_input).read_bytes()
    name = "the object" if is_bytes else str(obj_input)
    if len(data) < 64 or data[:5] != b"\x7fELF\x02":
        raise ValueError(f"{name} is not a 64-bit ELF object")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if size < _SECTION.size or table + size * count > len(data) or names >= count:
        raise ValueError(f"{name} has a damaged table of sections")
    sections = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
    texts = data[sections[names][4] : sections[names][4] + sections[names][5]]
    for section in sections:
        text = texts[section[0] : texts.find(b"\0", section[0])]
        if text == b".text":
            if section[4] + section[5] > len(data) or section[5] == 0:
                raise ValueError(f"{name} has an empty or damaged section .text")
            return data[section[4] : section[4] + section[5]]
    raise ValueError(f"{name} has no section .text")


def __getattr__(name: str):
    raise refuse("simpler_setup.elf_parser", name)
