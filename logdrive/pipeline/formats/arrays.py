"""Columns as numpy sees them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def to_booleans(values: pa.BooleanArray) -> Booleans:
    """Return *values*, of which none is null."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def to_integers(values: pa.Array) -> Integers:
    """Return *values*, of which none is null."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
