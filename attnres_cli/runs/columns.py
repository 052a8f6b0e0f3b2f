"""The columnar cache of metrics.jsonl: what hundreds of long runs are read from in seconds.

Parsing ten thousand rows of JSON takes a tenth of a second a run; reading the same numbers from `.metrics.npz`, in the
run directory, a few milliseconds. metrics.jsonl stays the truth. The cache names the file it was made from (size,
times, inode); it is believed only while that file is unchanged, and whatever is wrong with it, metrics.jsonl is read
instead. It may be deleted at any time, and where it cannot be written there is none.

It holds the rows of kind `train` and `eval` as `metrics.rows_of_kind` gives them, value for value (numbers, booleans,
null and absent told apart), and how many lines were torn. Events are left out: reports do not read them.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from attnres_cli.runs import metrics
from attnres_cli.runs.files import Row, Rows, read_rows, write_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = "attnres.columns/1"
FILE_NAME = ".metrics.npz"
KINDS = ("train", "eval")
WORTH_KEEPING_BYTES = 256 * 1024  # below, JSON is parsed in a few milliseconds, and a cache is only clutter
SETTLED_NANOSECONDS = 2 * 10**9  # as coarse as a file system's clock may be

# What a cell of the table of values stands for.
ABSENT, NULL, FLOAT, INTEGER, BOOLEAN, OTHER = range(6)
MIXED = -1  # a column with cells of several types: they are listed one by one
MISSING = object()
LARGEST_INTEGER = 2**53  # beyond, a float64 cannot hold every integer


class ColumnRows(Sequence[Row]):
    """Rows of one kind, kept as columns and made into dictionaries as they are asked for.

    values: [columns, rows] float64. types: one per column, MIXED where `cells` [columns, rows] says it cell by cell.
    others: (column, row) -> a value that is no number, boolean or null.
    """

    def __init__(
        self,
        kind: str,
        names: Sequence[str],
        values: NDArray[np.float64],
        types: Sequence[int],
        cells: Mapping[int, NDArray[np.uint8]],
        others: Mapping[tuple[int, int], Any],
    ) -> None:
        self.kind, self.names, self.values = kind, tuple(names), values
        self.types, self.cells, self.others = tuple(types), cells, others

    def __len__(self) -> int:
        return int(self.values.shape[1])

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        row: Row = {"kind": self.kind}
        for column, name in enumerate(self.names):
            if (type_of := self._type(column, at)) != ABSENT:
                row[name] = self._value(type_of, column, at)
        return row

    def __iter__(self) -> Iterator[Row]:
        if MIXED in self.types:
            yield from (self[index] for index in range(len(self)))
            return
        columns = [self._whole(column) for column in range(len(self.names))]
        names = ("kind", *self.names)
        for cells in zip([self.kind] * len(self), *columns, strict=True):
            yield dict(zip(names, cells, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ColumnRows({self.kind!r}, {len(self)} rows)"

    def column(self, name: str) -> NDArray[np.float64]:
        """[rows] the numbers of one field; nan where metrics.number finds none."""
        import numpy as np

        if name not in self.names:
            return np.full(len(self), math.nan)
        column = self.names.index(name)
        if self.types[column] == MIXED:
            is_number = (self.cells[column] == FLOAT) | (self.cells[column] == INTEGER)
        else:
            is_number = np.full(len(self), self.types[column] in (FLOAT, INTEGER))
        values = self.values[column]
        return np.where(is_number & np.isfinite(values), values, math.nan)

    def _type(self, column: int, row: int) -> int:
        return int(self.cells[column][row]) if self.types[column] == MIXED else self.types[column]

    def _value(self, type_of: int, column: int, row: int) -> Any:
        if type_of == NULL:
            return None
        if type_of == OTHER:
            return self.others[column, row]
        value = float(self.values[column, row])
        return {FLOAT: float, INTEGER: int, BOOLEAN: bool}[type_of](value)

    def _whole(self, column: int) -> list[Any]:
        type_of = self.types[column]
        if type_of == NULL:
            return [None] * len(self)
        dtype = {FLOAT: "float64", INTEGER: "int64", BOOLEAN: "bool"}[type_of]
        cells: list[Any] = self.values[column].astype(dtype).tolist()
        return cells


@dataclass(frozen=True)
class Logged:
    """What a run logged: `train` and `eval` rows by step, and how many lines of the file were torn."""

    train: Sequence[Row]
    evaluations: Sequence[Row]
    torn: int


def read_logged(path: Path, *, may_keep: Callable[[], bool]) -> Logged:
    """The rows of a metrics.jsonl, from its cache where that is up to date.

    Where it is not, the file is parsed, and cached if it is long enough and `may_keep()`: whether its run has ended.
    A file that does not exist has no rows. Raises OSError for one that cannot be read; never for a cache.
    """
    stamp = _stamp(path)
    if stamp is not None and (found := _read(path, stamp)) is not None:
        return found
    rows = read_rows(path)
    # The same stamp before and after reading: what was read is what the stamp stands for.
    if stamp is not None and stamp["size"] >= WORTH_KEEPING_BYTES and _settled(stamp) and may_keep():
        _keep(path, rows, stamp)
    return _logged(rows)


def keep(path: Path) -> None:
    """Cache a metrics.jsonl that nobody writes any more, if it is long enough; for the run itself, at its end.

    A cache that cannot be written is no error.
    """
    with suppress(OSError):
        stamp = _stamp(path)
        if stamp is not None and stamp["size"] >= WORTH_KEEPING_BYTES:
            _keep(path, read_rows(path), stamp)


def numbers(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    """[rows] one field of any rows as float64, nan where metrics.number finds none; at once from a cache."""
    import numpy as np

    if isinstance(rows, ColumnRows):
        return rows.column(name)
    found = (metrics.number(row, name) for row in rows)
    return np.array([math.nan if value is None else value for value in found], dtype=np.float64)


def cache_path(path: Path) -> Path:
    """Where the cache of this metrics.jsonl is."""
    return path.with_name(FILE_NAME)


def _logged(rows: Rows) -> Logged:
    return Logged(metrics.rows_of_kind(rows.rows, "train"), metrics.rows_of_kind(rows.rows, "eval"), rows.torn)


# ---------------------------------------------------------------------- what the cache was made from


def _stamp(path: Path) -> dict[str, int] | None:
    """Changes whenever the file does: appending changes the size, replacing the inode, editing in place the times."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return {
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
        "inode": found.st_ino,
    }


def _settled(stamp: Mapping[str, int]) -> bool:
    """Whether a later edit is sure to get another time: a file written just now could change within one tick."""
    return time.time_ns() - max(stamp["mtime_ns"], stamp["ctime_ns"]) > SETTLED_NANOSECONDS


# ---------------------------------------------------------------------- reading


def _read(path: Path, stamp: Mapping[str, int]) -> Logged | None:
    """What the cache holds, or None where there is none of this very file."""
    import numpy as np

    try:
        with np.load(cache_path(path), allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            if header["schema"] != SCHEMA or header["stamp"] != stamp:
                return None
            return Logged(_rows(header, stored, "train"), list(_rows(header, stored, "eval")), int(header["torn"]))
    except Exception:  # whatever is wrong with a cache (torn, foreign, forbidden), the file it was made from is here
        return None


def _rows(header: Mapping[str, Any], stored: Any, kind: str) -> ColumnRows:
    about = header["kinds"][kind]
    names, types, values = about["names"], about["types"], stored[f"{kind}.values"]
    mixed = [column for column, type_of in enumerate(types) if type_of == MIXED]
    cells = dict(zip(mixed, stored[f"{kind}.cells"], strict=True))
    if values.shape != (len(names), about["rows"]) or len(types) != len(names) or values.dtype != "float64":
        raise ValueError("the columns are not those of the header")
    others = {(column, row): value for column, row, value in about["others"]}
    return ColumnRows(kind, names, values, types, cells, others)


# ---------------------------------------------------------------------- writing


def _keep(path: Path, rows: Rows, stamp: Mapping[str, int]) -> None:
    """Write the cache whole. Not when the file has changed since `stamp`, and silently not where it cannot be."""
    import numpy as np

    logged = _logged(rows)
    arrays: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    for kind, found in zip(KINDS, (logged.train, logged.evaluations), strict=True):
        kinds[kind] = _columns(kind, found, arrays)
    header = {"schema": SCHEMA, "stamp": dict(stamp), "torn": rows.torn, "kinds": kinds}
    content = io.BytesIO()
    arrays["header"] = np.frombuffer(json.dumps(header).encode("utf-8"), dtype=np.uint8)
    np.savez(content, **arrays)
    with suppress(OSError):
        if _stamp(path) == stamp:
            write_whole(cache_path(path), content.getvalue())


def _columns(kind: str, rows: Sequence[Row], arrays: dict[str, Any]) -> dict[str, Any]:
    """The header's entry for these rows; their arrays go into `arrays`."""
    import numpy as np

    names = list(dict.fromkeys(name for row in rows for name in row if name != "kind"))
    values = np.zeros((len(names), len(rows)), dtype=np.float64)
    types: list[int] = []
    mixed: list[list[int]] = []
    others: list[tuple[int, int, Any]] = []
    for column, name in enumerate(names):
        found = [row.get(name, MISSING) for row in rows]
        type_of = _type_of_all(found)
        types.append(type_of)
        if type_of != MIXED:
            if type_of != NULL:
                values[column] = found
            continue
        cells = [_type_of(value) for value in found]
        mixed.append(cells)
        for row, (value, cell) in enumerate(zip(found, cells, strict=True)):
            if cell == OTHER:
                others.append((column, row, value))
            elif cell not in (ABSENT, NULL):
                values[column, row] = value
    arrays[f"{kind}.values"] = values
    arrays[f"{kind}.cells"] = np.array(mixed, dtype=np.uint8).reshape(len(mixed), len(rows))
    return {"names": names, "types": types, "rows": len(rows), "others": others}


def _type_of_all(values: Sequence[object]) -> int:
    """The type of a whole column, found quickly where it is one and the same: almost always."""
    classes = set(map(type, values))
    if classes == {float}:
        return FLOAT
    if len(classes) > 1 or classes == {int}:
        cells = set(map(_type_of, values))
        return cells.pop() if cells == {INTEGER} else MIXED
    only = _type_of(values[0])
    return only if only in (NULL, BOOLEAN) else MIXED


def _type_of(value: object) -> int:
    if value is MISSING:
        return ABSENT
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, float):
        return FLOAT
    return INTEGER if isinstance(value, int) and abs(value) <= LARGEST_INTEGER else OTHER
