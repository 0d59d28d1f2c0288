"""A cluster of Dask in processes of this machine."""

from __future__ import annotations

import dask
from distributed import LocalCluster


def start(workers: int) -> LocalCluster:
    """A scheduler and workers on this computer; work that ended one is not given to another."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        )
