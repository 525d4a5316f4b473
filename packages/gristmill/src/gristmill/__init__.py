"""Submit jobs, job graphs and arrays to any batch system."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

# name -> module; each is loaded when it is first asked for, so that `import gristmill` is quick
_PLACES = {
    "Accounting": "records",
    "ArraySpec": "arrays",
    "AsyncResourceManager": "service",
    "BadValue": "errors",
    "Cause": "records",
    "Change": "service",
    "Dependency": "jobs",
    "DependencyNeverSatisfied": "errors",
    "GridEngine": "drivers",
    "GristmillError": "errors",
    "GroupOfJobs": "jobs",
    "Hold": "jobs",
    "HtCondor": "drivers",
    "Job": "jobs",
    "JobGroup": "jobs",
    "JobHandle": "service",
    "JobState": "jobs",
    "LoadLeveler": "drivers",
    "Local": "drivers",
    "Lsf": "drivers",
    "Moab": "drivers",
    "Oar": "drivers",
    "Outcome": "records",
    "Pbs": "drivers",
    "PbsPro": "drivers",
    "Record": "records",
    "Relation": "jobs",
    "ResourceManager": "service",
    "Run": "service",
    "Site": "site",
    "Slurm": "drivers",
    "SubmitFailed": "errors",
    "SystemHold": "jobs",
    "Torque": "drivers",
    "Unsupported": "errors",
    "UserHold": "jobs",
    "WaitTimeout": "errors",
    "Why": "records",
    "aconnect": "connecting",
    "connect": "connecting",
    "create_job": "jobs",
    "get_driver": "drivers",
}

if TYPE_CHECKING:
    from gristmill.arrays import ArraySpec as ArraySpec
    from gristmill.connecting import aconnect as aconnect
    from gristmill.connecting import connect as connect
    from gristmill.drivers import GridEngine as GridEngine
    from gristmill.drivers import HtCondor as HtCondor
    from gristmill.drivers import LoadLeveler as LoadLeveler
    from gristmill.drivers import Local as Local
    from gristmill.drivers import Lsf as Lsf
    from gristmill.drivers import Moab as Moab
    from gristmill.drivers import Oar as Oar
    from gristmill.drivers import Pbs as Pbs
    from gristmill.drivers import PbsPro as PbsPro
    from gristmill.drivers import Slurm as Slurm
    from gristmill.drivers import Torque as Torque
    from gristmill.drivers import get_driver as get_driver
    from gristmill.errors import BadValue as BadValue
    from gristmill.errors import DependencyNeverSatisfied as DependencyNeverSatisfied
    from gristmill.errors import GristmillError as GristmillError
    from gristmill.errors import SubmitFailed as SubmitFailed
    from gristmill.errors import Unsupported as Unsupported
    from gristmill.errors import WaitTimeout as WaitTimeout
    from gristmill.jobs import Dependency as Dependency
    from gristmill.jobs import GroupOfJobs as GroupOfJobs
    from gristmill.jobs import Hold as Hold
    from gristmill.jobs import Job as Job
    from gristmill.jobs import JobGroup as JobGroup
    from gristmill.jobs import JobState as JobState
    from gristmill.jobs import Relation as Relation
    from gristmill.jobs import SystemHold as SystemHold
    from gristmill.jobs import UserHold as UserHold
    from gristmill.jobs import create_job as create_job
    from gristmill.records import Accounting as Accounting
    from gristmill.records import Cause as Cause
    from gristmill.records import Outcome as Outcome
    from gristmill.records import Record as Record
    from gristmill.records import Why as Why
    from gristmill.service import AsyncResourceManager as AsyncResourceManager
    from gristmill.service import Change as Change
    from gristmill.service import JobHandle as JobHandle
    from gristmill.service import ResourceManager as ResourceManager
    from gristmill.service import Run as Run
    from gristmill.site import Site as Site


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'gristmill' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"gristmill.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
