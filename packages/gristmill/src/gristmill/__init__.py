"""Submit jobs, job graphs and arrays to any batch system."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "Accounting",
    "ArraySpec",
    "AsyncResourceManager",
    "BadValue",
    "Cause",
    "Change",
    "Dependency",
    "DependencyNeverSatisfied",
    "GridEngine",
    "GristmillError",
    "GroupOfJobs",
    "Hold",
    "HtCondor",
    "Job",
    "JobGroup",
    "JobHandle",
    "JobState",
    "LoadLeveler",
    "Local",
    "Lsf",
    "Moab",
    "Oar",
    "Outcome",
    "Pbs",
    "PbsPro",
    "Record",
    "Relation",
    "ResourceManager",
    "Run",
    "Site",
    "Slurm",
    "SubmitFailed",
    "SystemHold",
    "Torque",
    "Unsupported",
    "UserHold",
    "WaitTimeout",
    "Why",
    "aconnect",
    "connect",
    "create_job",
    "get_driver",
]

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
    from gristmill.arrays import ArraySpec
    from gristmill.connecting import aconnect, connect
    from gristmill.drivers import (
        GridEngine,
        HtCondor,
        LoadLeveler,
        Local,
        Lsf,
        Moab,
        Oar,
        Pbs,
        PbsPro,
        Slurm,
        Torque,
        get_driver,
    )
    from gristmill.errors import (
        BadValue,
        DependencyNeverSatisfied,
        GristmillError,
        SubmitFailed,
        Unsupported,
        WaitTimeout,
    )
    from gristmill.jobs import (
        Dependency,
        GroupOfJobs,
        Hold,
        Job,
        JobGroup,
        JobState,
        Relation,
        SystemHold,
        UserHold,
        create_job,
    )
    from gristmill.records import Accounting, Cause, Outcome, Record, Why
    from gristmill.service import AsyncResourceManager, Change, JobHandle, ResourceManager, Run
    from gristmill.site import Site


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'gristmill' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"gristmill.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
