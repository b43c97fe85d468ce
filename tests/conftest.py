"""Settings shared by the tests: hypothesis without deadlines and with fixed examples."""

from hypothesis import settings
from rendered import browser, built, chromium, context, site, visit  # noqa: F401

# Read by mypy, not run.
collect_ignore = ["properties/typed_use.py"]

settings.register_profile("mfbook", deadline=None, derandomize=True, database=None, max_examples=20)
settings.load_profile("mfbook")


def pytest_collection_modifyitems(items):
    """A test in the folder of the rendered book waits until it is built."""
    for item in items:
        if item.path.parent.name == "site" and "built" not in item.fixturenames:
            item.fixturenames.insert(0, "built")
