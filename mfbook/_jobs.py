"""joblib's parallel calls, with two gaps closed: what a Dask cluster loses."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import CancelledError

from joblib import Parallel
from joblib.parallel import get_active_backend


def run(tasks: Iterable, **options):
    """Run delayed calls on the backend that ``joblib.parallel_config`` names."""
    _report_lost_tasks(get_active_backend()[0])
    return Parallel(**options)(tasks)


def gather(tasks: list, **options) -> list:
    """:func:`run`, for the results in a list; what a Dask cluster was sent and lost is sent again.

    ``scatter`` sends data to every worker, but Dask soon keeps one copy only, to save memory, and
    that goes with its worker. Each attempt here is for one such loss.
    """
    for _ in range(3):
        try:
            return run(tasks, **options)
        except CancelledError:
            if not _sent_again(get_active_backend()[0]):
                raise
    return run(tasks, **options)


def _sent_again(backend) -> bool:
    """Scatter again what joblib's backend had scattered; was there anything?"""
    data = getattr(backend, "_scatter", [])
    if data:
        futures = backend.client.scatter(data, broadcast=True)
        backend.data_futures = dict(zip(map(id, data), futures, strict=True))
    return bool(data)


def _report_lost_tasks(backend) -> None:
    """Let Dask's errors about a task, rather than in it, end the call.

    Dask gives up a task whose workers died several times, and cancels what a lost scheduler knew.
    joblib (1.6) marks the future in the first case without telling the call, which then waits for
    ever; in the second case it takes the error for the result.
    """
    if type(backend).__name__ != "DaskDistributedBackend" or "submit" in vars(backend):
        return
    submit, retrieve = backend.submit, backend.retrieve_result_callback

    def reporting(task, callback=None):
        job = submit(task, callback)

        def finished(done):
            if not done.cancelled() and done.exception() is not None:
                callback(done.exception())

        job.add_done_callback(finished)
        return job

    def checked(result):
        if isinstance(result, BaseException):
            raise result
        return retrieve(result)

    backend.submit, backend.retrieve_result_callback = reporting, checked
