"""Cases that only --all runs."""

import pytest


def repeated(*values):
    """Cases of which others of the same test have shown the same."""
    return [pytest.param(value, marks=pytest.mark.repeats) for value in values]
