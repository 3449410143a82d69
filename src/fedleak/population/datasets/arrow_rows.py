"""Rows of Parquet and Arrow files, read by pyarrow, which is an extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedleak.errors import DataError

__all__ = ["KINDS", "read"]

KINDS = (".parquet", ".arrow", ".feather")


def read(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give every row with its number, from 1, one batch in memory at a time."""
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError:
        raise DataError(
            f"{file}: reading {file.suffix} files needs pyarrow; install fedleak[arrow], or save the table as CSV"
        ) from None
    number = 0
    try:
        with file.open("rb") as raw:
            if file.suffix.lower() == ".parquet":
                source = parquet.ParquetFile(raw)
                columns, batches = source.schema_arrow.names, source.iter_batches()
            else:
                columns, batches = _arrow(ipc, raw)
            twice = sorted({name for name in columns if columns.count(name) > 1})
            if twice:
                raise DataError(f"{file}: column '{twice[0]}' appears twice; rename one of them")
            for batch in batches:
                for values in batch.to_pylist():
                    number += 1
                    yield number, values
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{file}: cannot be read ({why})") from error


def _arrow(ipc: Any, raw: Any) -> tuple[list[str], Iterator[Any]]:
    """Open an Arrow file, or a stream where it is none: both go by the name .arrow."""
    try:
        source = ipc.open_file(raw)
    except ValueError:  # ArrowInvalid, of which ValueError is a base
        raw.seek(0)
        stream = ipc.open_stream(raw)
        return stream.schema.names, iter(stream)
    return source.schema.names, (source.get_batch(i) for i in range(source.num_record_batches))
