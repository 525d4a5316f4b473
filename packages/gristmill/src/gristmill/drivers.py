"""The seed's classes: `Slurm()` is a `ResourceManager` for the Slurm installed here."""

from __future__ import annotations

from gristmill import registry
from gristmill.service import ResourceManager


class Slurm(ResourceManager):
    dialect_name = "slurm"


class PbsPro(ResourceManager):
    dialect_name = "pbspro"


Pbs = PbsPro


class Torque(ResourceManager):
    dialect_name = "torque"


class Moab(ResourceManager):
    dialect_name = "moab"


class Oar(ResourceManager):
    dialect_name = "oar"


class LoadLeveler(ResourceManager):
    dialect_name = "loadleveler"


class Lsf(ResourceManager):
    dialect_name = "lsf"


class GridEngine(ResourceManager):
    dialect_name = "gridengine"


class HtCondor(ResourceManager):
    dialect_name = "htcondor"


class Local(ResourceManager):
    dialect_name = "local"


_CLASSES: dict[str, type[ResourceManager]] = {
    kind.dialect_name: kind
    for kind in (Slurm, PbsPro, Torque, Moab, Oar, LoadLeveler, Lsf, GridEngine, HtCondor, Local)
}


def get_driver(name: str) -> type[ResourceManager]:
    """The class for a manager, also for one of a third party. Raises UnknownManager."""
    known = registry.dialect(name).name
    if known not in _CLASSES:
        _CLASSES[known] = type(known.title(), (ResourceManager,), {"dialect_name": known})
    return _CLASSES[known]
