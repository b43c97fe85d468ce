"""Settings shared by the tests: hypothesis without deadlines and with fixed examples."""

import pytest
from hypothesis import settings
from rendered import browser, context, site, visit  # noqa: F401

# Read by mypy, not run.
collect_ignore = ["properties/typed_use.py"]

settings.register_profile("mfbook", deadline=None, derandomize=True, database=None, max_examples=20)
settings.load_profile("mfbook")


def pytest_collection_modifyitems(items):
    """Refuse a test of the rendered book that stands elsewhere: it would run before it is built."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()) and item.path.parent.name != "site":
            raise pytest.UsageError(f"{item.nodeid}: belongs in tests/book/site")
