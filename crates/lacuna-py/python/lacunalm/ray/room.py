"""Room for workers on a cluster."""

import platform
import warnings

import ray

from ..checks import finite


class Room:
    """Room for workers with these CPUs and GPUs each, as the cluster is now, with some of its CPUs kept for other work."""

    def __init__(self, cpus: float, gpus: float, kept: int = 0) -> None:
        if finite("cpus", cpus) <= 0:
            raise ValueError(f"cpus is {cpus}, but it must be more than 0")
        if finite("gpus", gpus) < 0:
            raise ValueError(f"gpus is {gpus}, but it must be 0 or more")
        self.need = (
            f"cpus={cpus:g}" + (f" and gpus={gpus:g}" if gpus else "") + (f", beside {kept} CPU" if kept else "")
        )
        each = {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}
        nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        # A tenth of a GPU fits three times into three tenths, which are a little less.
        fits = [int(min(node["Resources"].get(name, 0) / each[name] for name in each) + 1e-9) for node in nodes]
        free = sum(node["Resources"].get("CPU", 0) for node in nodes) - kept
        self.workers = max(0, min(sum(fits), int(free / cpus + 1e-9)))
        machines = {node["NodeManagerHostname"] for node, fit in zip(nodes, fits, strict=True) if fit}
        self.elsewhere = machines != {platform.node()}
        """True if a worker may be on another machine than this one, with other files."""

    def share(self, name: str, wanted: int | None = None) -> int:
        """The number of workers that is wanted, which the argument of this name tells; else as many as there is room for."""
        if wanted is None and self.workers == 0:
            raise ValueError(
                f"the cluster has no room for a worker with {self.need}: ask for less, or give {name}= if the cluster will grow"
            )
        if wanted is None or wanted <= self.workers:
            return wanted or self.workers
        there = f"room for {self.workers} of {wanted} workers" if self.workers else "no room yet for a worker"
        warnings.warn(f"the cluster has {there} with {self.need}: the rest waits until it grows", stacklevel=3)
        return wanted
