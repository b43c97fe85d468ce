"""Settings shared by the tests: hypothesis without deadlines and with fixed examples."""

from hypothesis import settings

# Read by mypy, not run.
collect_ignore = ["properties/typed_use.py"]

settings.register_profile("mfbook", deadline=None, derandomize=True, database=None, max_examples=20)
settings.load_profile("mfbook")
