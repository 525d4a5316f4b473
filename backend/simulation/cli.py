"""`gristmill simulate`: what policies make of a load, side by side."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from backend.scheduler.core import policies
from backend.scheduler.core.model import Right
from backend.scheduler.loop import discover_policies
from backend.simulation import plots, swf, synthetic
from backend.simulation.load import BadLoadError, Load, Site
from backend.simulation.measures import Measures, measure
from backend.simulation.replay import replay

DEFAULT_SLOTS = 32
MOST_SLOTS = 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate as the command line says; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        known = _policies(arguments.policy)
        names = arguments.policy or sorted(known)
        load, site = _setting(arguments)
        runs = [replay(load, site, name, known) for name in names]
        written = plots.write(runs, arguments.plots) if arguments.plots else []
    except (BadLoadError, OSError) as error:
        sys.stderr.write(f"gristmill: {error}\n")
        return 1
    measures = [measure(run) for run in runs]
    show = _as_json if arguments.json else _as_text
    sys.stdout.write(show(load, site, measures, written))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    made = argparse.ArgumentParser(
        prog="gristmill simulate",
        description="Replay a load through the scheduler's core under several policies, and "
        "print wait, bounded slowdown, utilisation and fairness of each.",
    )
    made.add_argument(
        "trace",
        nargs="?",
        type=Path,
        help="file in the Standard Workload Format, also .gz; without it a load is made by dice",
    )
    made.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help="a policy, or one of your own as module:function; may be given several times "
        "(default: all that are installed)",
    )
    _add_farm(made.add_argument_group("the farm"))
    _add_load(made.add_argument_group("the load"))
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="write Vega-Lite plots into this folder"
    )
    return made


def _add_farm(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--slots",
        type=_count,
        help=f"slots of a worker (default: {DEFAULT_SLOTS}, or the size that the trace names)",
    )
    group.add_argument("--workers", type=_count, default=1, help="equal workers (default: 1)")
    group.add_argument(
        "--right",
        type=_right,
        action="append",
        default=[],
        metavar="[USER=]SLOTS[/PRIORITY]",
        help="what a user, or everybody else, may hold (default: all slots, priority 0)",
    )


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--jobs", type=_count, help="how many (default: all of a trace; 2000)")
    group.add_argument(
        "--processors-per-slot",
        type=_count,
        default=1,
        help="of a trace: so many processors are one slot (default: 1)",
    )
    group.add_argument("--seed", type=int, default=1, help="of the dice (default: 1)")
    group.add_argument("--users", type=_count, default=20, help="by dice: users (default: 20)")
    group.add_argument(
        "--load",
        type=float,
        default=0.9,
        help="by dice: work offered, relative to what the farm can do (default: 0.9)",
    )
    group.add_argument(
        "--median",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="by dice: median run time (default: 300)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SLOTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_SLOTS}")
    return int(text)


def _right(text: str) -> tuple[str | None, Right]:
    user, named, value = text.rpartition("=")
    slots, _, priority = value.partition("/")
    if not slots.isdecimal() or int(slots) < 1 or not (priority or "0").isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not [USER=]SLOTS[/PRIORITY], such as 4, 4/1 or user7=8/2"
        )
    return user if named else None, Right(slots=int(slots), priority=int(priority or 0))


# ---- what is simulated --------------------------------------------------------------------


def _setting(arguments: argparse.Namespace) -> tuple[Load, Site]:
    if arguments.trace is None:
        site = _site(arguments, DEFAULT_SLOTS)
        laws = synthetic.Laws(
            seed=arguments.seed,
            jobs=arguments.jobs or 2000,
            users=arguments.users,
            load=arguments.load,
            median_seconds=arguments.median,
        )
        load = synthetic.make(laws, site.slots)
    else:
        per_slot = arguments.processors_per_slot
        load = swf.read(arguments.trace, processors_per_slot=per_slot, limit=arguments.jobs)
        size = -(-load.processors // per_slot) if load.processors else DEFAULT_SLOTS
        site = _site(arguments, -(-size // arguments.workers))
    strangers = sorted(site.rights.keys() - set(load.users))
    if strangers:
        raise BadLoadError(
            f"--right names {strangers[0]!r}, who submits nothing in {load.name}; there are "
            f"{', '.join(load.users[:5])}{' …' if len(load.users) > 5 else ''}"
        )
    return load, site


def _site(arguments: argparse.Namespace, slots: int) -> Site:
    per_worker = arguments.slots or slots
    rights = dict(arguments.right)
    everybody = rights.pop(None, Right(slots=per_worker * arguments.workers))
    return Site(
        workers=arguments.workers, slots_per_worker=per_worker, right=everybody, rights=rights
    )


def _policies(names: Sequence[str] | None) -> Mapping[str, policies.Policy]:
    """Return what is installed, and what is named as module:function."""
    own = {name: _own_policy(name) for name in names or () if ":" in name}
    return {**discover_policies(), **own}


def _own_policy(name: str) -> policies.Policy:
    module, _, function = name.partition(":")
    sys.path.insert(0, "")  # as `python -m` does: a file in the current folder is found
    try:
        found: Callable[..., policies.Place] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadLoadError(f"there is no policy {name!r}: {error}") from None
    finally:
        sys.path.remove("")
    return found


# ---- what is shown ------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, Callable[[Measures], str]], ...] = (
    ("policy", lambda m: m.policy),
    ("wait mean", lambda m: seconds(m.wait.mean)),
    ("median", lambda m: seconds(m.wait.median)),
    ("p95", lambda m: seconds(m.wait.p95)),
    ("slowdown mean", lambda m: f"{m.bounded_slowdown.mean:.2f}"),
    ("median", lambda m: f"{m.bounded_slowdown.median:.2f}"),
    ("p95", lambda m: f"{m.bounded_slowdown.p95:.2f}"),
    ("utilisation", lambda m: f"{m.utilisation:.1%}"),
    ("fair slowdown", lambda m: f"{m.fairness_of_slowdown:.3f}"),
    (
        "fair shares",
        lambda m: "-" if m.fairness_of_shares is None else f"{m.fairness_of_shares:.3f}",
    ),
    ("makespan", lambda m: seconds(m.makespan)),
)


def seconds(value: float) -> str:
    """Return a duration as people read it: 12.5 s, 7.3 min, 3.2 h, 4.1 d."""
    for unit, size, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if value < until:
            return f"{value / size:.1f} {unit}"
    return f"{value / 86_400:.1f} d"


def _as_text(load: Load, site: Site, measures: list[Measures], written: list[Path]) -> str:
    rows = [[title for title, _ in COLUMNS]]
    rows += [[value(measure) for _, value in COLUMNS] for measure in measures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return (
        "\n".join(
            [
                _title(load, site),
                *([f"left out: {load.left_out} records that did not run"] if load.left_out else []),
                "",
                *(_row(row, widths) for row in rows),
                "",
                *(f"wrote {path}" for path in written),
            ]
        ).rstrip()
        + "\n"
    )


def _title(load: Load, site: Site) -> str:
    jobs, users = _counted(len(load.jobs), "job"), _counted(len(load.users), "user")
    slots, workers = _counted(site.slots, "slot"), _counted(site.workers, "worker")
    return f"{load.name}: {jobs} of {users} on {slots} of {workers}"


def _row(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_json(load: Load, site: Site, measures: list[Measures], written: list[Path]) -> str:
    found = {
        "load": {
            "name": load.name,
            "jobs": len(load.jobs),
            "users": len(load.users),
            "slot_seconds": load.slot_seconds,
            "left_out": load.left_out,
        },
        "farm": {"workers": site.workers, "slots": site.slots},
        "policies": [measure.as_json() for measure in measures],
        "plots": [str(path) for path in written],
    }
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
