"""Which managers there are: ours by name, others' through the entry point `gristmill.managers`.

A third party's entry point names a `Dialect` subclass: `mygrid = "mygrid.driver:MyGrid"`.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from gristmill.errors import UnknownManager
from gristmill.managers.base import Dialect
from gristmill.transports.base import Transport
from gristmill.transports.local import LocalTransport

GROUP = "gristmill.managers"

# name -> where its dialect is; the order is the order of detection
BUILT_IN = {
    "slurm": "gristmill.managers.slurm:SlurmDialect",
    "pbspro": "gristmill.managers.pbspro:PbsProDialect",
    "gridengine": "gristmill.managers.grid_engine:GridEngineDialect",  # its qsub could be Torque's
    "moab": "gristmill.managers.moab:MoabDialect",  # before Torque, over which it often sits
    "torque": "gristmill.managers.torque:TorqueDialect",
    "oar": "gristmill.managers.oar:OarDialect",
    "loadleveler": "gristmill.managers.loadleveler:LoadLevelerDialect",
    "lsf": "gristmill.managers.lsf:LsfDialect",
    "htcondor": "gristmill.managers.htcondor:HtCondorDialect",
    "local": "gristmill.managers.local:LocalDialect",
}
ALIASES = {"pbs": "pbspro", "openpbs": "pbspro", "sge": "gridengine", "condor": "htcondor"}


def names() -> tuple[str, ...]:
    """Every manager that can be asked for."""
    others = sorted(point.name for point in entry_points(group=GROUP))
    return (*BUILT_IN, *(name for name in others if name not in BUILT_IN))


def dialect(name: str) -> Dialect:
    """The driver of that name. Raises UnknownManager, listing those that there are."""
    known = ALIASES.get(name.lower(), name.lower())
    if known in BUILT_IN:
        return _load(BUILT_IN[known])
    for point in entry_points(group=GROUP, name=name):
        return _made(point.load(), point.value)
    raise UnknownManager(f"no manager is called {name!r}; there are {', '.join(names())}")


def default_transport(dialect: Dialect) -> Transport:
    """How a manager on this machine is reached."""
    return dialect.transport() or LocalTransport()


def _load(place: str) -> Dialect:
    module, _, attribute = place.partition(":")
    return _made(getattr(importlib.import_module(module), attribute), place)


def _made(kind: object, place: str) -> Dialect:
    if isinstance(kind, type) and issubclass(kind, Dialect):
        return kind()
    raise UnknownManager(f"{place} is not a subclass of gristmill.managers.base.Dialect")
