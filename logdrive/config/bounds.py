"""Types of configuration values that several programs' tables have, with their bounds."""

from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
"""A number above 0, mostly of seconds or days."""
Count = Annotated[int, msgspec.Meta(ge=1)]
"""A whole number of at least 1."""
