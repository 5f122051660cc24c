"""State of objects that compute parts of themselves on first use."""

from functools import cached_property
from typing import Any


class Lasting:
    """Pickled without what is computed on first use: a copy computes it anew.

    So a pickle does not depend on what was called before, and neither does a fingerprint of it, as
    `datasets` takes one.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Attributes without cached properties."""
        computed = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in computed}
