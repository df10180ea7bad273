"""What tuning found: for one kernel, one class of shapes and one device, the configuration chosen and what became of the others.

Kept in the cache under a key of all that the choice follows from, the compiler and NVRTC among it, and exported as JSON, so that
another machine runs tuned without tuning. An imported entry counts for the same text of the same kernel, shapes of the same class and a
device of the same name, whichever versions it was made with; `report` says which. Where it was checked with something else than is asked
for now, it is checked again before it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from vxc.api.candidates import Config
from vxc.api.specialise import Recipe
from vxc.api.tune_schema import check_file
from vxc.cache.places import key_of, store
from vxc.cuda import included
from vxc.cuda.nvrtc import toolchain
from vxc.diag import Diagnostic, VxcError
from vxc.record import record, value
from vxc.runtime.arrays import ArrayView, write_file

FORMAT = 2  # goes up when a field changes its name or meaning


@record
class Row:
    """One configuration: its time in milliseconds where it was timed to the end, and why it was not chosen, or how it was checked."""

    config: Config
    milliseconds: float | None
    said: str


@record
class About:
    """What a choice is for. `text` is a digest of the file's text and of the files that its `extern fn`s read; `fixed` are generics and
    options that the kernel has beside the axes.
    """

    kernel: str
    text: str
    fixed: str
    shapes: str
    device: str
    arch: str


@value
class Entry:
    """`chosen` is the configuration of one row; `checked` says with what it was checked (`checked_with`). `versions` are those of vxc (of
    its code) and of NVRTC, `origin` says where it is from.
    """

    about: About
    checked: str
    versions: Mapping[str, str]
    chosen: Config
    rows: tuple[Row, ...]
    origin: str = field(default="tuned in this process", compare=False)


def digest(recipe: Recipe) -> str:
    """Of the text, and of the files that its `extern fn`s read."""
    found = hashlib.sha256(recipe.source.text.encode("utf-8", "surrogatepass"))
    for read in _read(recipe):
        found.update((read or "").encode())
    return found.hexdigest()


def keepable(recipe: Recipe) -> bool:
    """Whether all that a choice follows from is part of its key: the file imports no other, and it is known what `extern fn`s read."""
    return recipe.alone and None not in _read(recipe)


def _read(recipe: Recipe) -> list[str | None]:
    """Digests of what each `extern fn` reads."""
    if "extern" not in recipe.source.text:  # which spares the compiler
        return []
    from vxc.api.building import foreign

    return [included.digest(text) for text in foreign(recipe.source)]


def fixed_text(recipe: Recipe) -> str:
    options = {"debug": recipe.debug, "maxrregcount": recipe.maxrregcount, "reduce_chunk": recipe.reduce_chunk}
    return " ".join([f"{name}={value}" for name, value in (*recipe.defines, *options.items()) if value not in (None, False)])


def checked_with(sample: Mapping[str, Any] | None, expected: Mapping[str, np.ndarray] | None) -> str:
    """In brief, what choices are checked with: the sample, or the example line, which is part of the text; and what a reference gives
    there, or the kernel as written. A reference is known by what it gives, since the same function may give something else tomorrow.
    """
    on = "the example line" if sample is None else f"sample {_digest(sample)}"
    return f"{on}, {'the kernel as written' if expected is None else f'reference {_digest(expected)}'}"


def _digest(values: Mapping[str, Any]) -> str:
    found = hashlib.sha256()
    for name, given in values.items():
        array = np.asarray(given)
        data = repr(given).encode() if array.dtype.hasobject else array.tobytes()
        found.update(f"{name} {type(given).__name__} {array.dtype} {array.shape} {len(data)}\n".encode() + data)
    return found.hexdigest()


def shape_class(views: Mapping[str, ArrayView], strided: Sequence[str]) -> str:
    """Arrays with one tuned configuration: of the same dtypes, each extent up to the same power of two and as divisible by 16."""
    texts = {name: f"{view.dtype}[{', '.join(map(_extent, view.shape))}]" for name, view in views.items()}
    return ", ".join(f"{name}: {text}{' strided' if name in strided else ''}" for name, text in texts.items())


def _extent(size: int) -> str:
    return f"<={1 << (size - 1).bit_length() if size else 0}{'/16' if size % 16 == 0 else ''}"


# ---- the cache -------------------------------------------------------------------------------------------------------


def kept(about: About, checked: str, configs: Sequence[Config]) -> Entry | None:
    """What this or an earlier process found for just these candidates, checked with the same."""
    cache = store()
    data = cache.get(_key(about, checked, configs)) if cache else None
    return None if data is None else replace(of_plain(json.loads(data)), origin="from the cache")


def keep(entry: Entry, configs: Sequence[Config]) -> None:
    cache = store()
    if cache:
        about = entry.about
        line = f"{about.kernel} for {about.device}: {entry.chosen}"
        cache.put(_key(about, entry.checked, configs), line, json.dumps(plain(entry)).encode())


def _key(about: About, checked: str, configs: Sequence[Config]) -> str:
    return key_of("tuned", asdict(about), checked, [config.values for config in configs], toolchain())


# ---- JSON ------------------------------------------------------------------------------------------------------------


def plain(entry: Entry) -> dict[str, Any]:
    rows = [{"config": dict(row.config.values), "milliseconds": row.milliseconds, "said": row.said} for row in entry.rows]
    own = {"checked": entry.checked, "versions": dict(entry.versions), "chosen": dict(entry.chosen.values), "rows": rows}
    return {**asdict(entry.about), **own}


def of_plain(data: Mapping[str, Any]) -> Entry:
    """What `plain` was given; `tune_schema.ENTRY` holds of it."""
    about = About(**{name: data[name] for name in About.__dataclass_fields__})
    rows = tuple(Row(_config(row["config"]), row["milliseconds"], row["said"]) for row in data["rows"])
    return Entry(about, data["checked"], data["versions"], _config(data["chosen"]), rows)


def _config(values: Mapping[str, Any]) -> Config:
    return Config(tuple(values.items()))


def write(path: Path, entries: Sequence[Entry]) -> None:
    """Raises `VxcError` E0711."""
    text = json.dumps({"vxc_tuned": FORMAT, "entries": [plain(entry) for entry in entries]}, indent=1) + "\n"
    try:
        write_file(str(path), lambda file: file.write(text.encode()))
    except ValueError as error:  # no file can have such a name
        raise VxcError(Diagnostic("E0711", f"cannot write {_named(path)}: {error}", help="give the name of a file")) from None


def read(path: Path, *, begun: bool = False) -> list[Entry]:
    """Raises `VxcError` E0710 for a file that is no record of tuning; one that is to be `begun` may be missing."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for who writes it
            raise OSError("it is no file")
        data = json.loads(path.read_bytes())
        check_file(data, FORMAT)
        return [replace(of_plain(entry), origin=f"from {path}") for entry in data["entries"]]
    except FileNotFoundError as error:
        if begun:
            return []
        cause = error.strerror
    except OSError as error:
        cause = error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        cause = f"it is no record of tuned kernels ({' '.join(str(error).split())})"
    raise VxcError(Diagnostic("E0710", f"cannot read {_named(path)}: {cause}", help="give a file that `export` of a tuned kernel wrote"))


def _named(path: Path) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))
