"""A browser and the rendered book, for tests here only: elsewhere they run before it is built."""

from rendered import browser, context, site, visit  # noqa: F401
