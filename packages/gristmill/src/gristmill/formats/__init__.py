"""Declarations in BEAT's JSON forms: read, checked, and what follows from them.

Pure: no files, no network, no database. Every `check_…` returns a list of `Problem`, empty when
all is well, and never raises on what a person wrote.
"""

from gristmill.formats.algorithms import check_algorithm
from gristmill.formats.databases import DataSet, check_database, check_protocol_template, data_sets
from gristmill.formats.dataformats import check_dataformat, fits, resolve
from gristmill.formats.documents import check_document, parse_json
from gristmill.formats.experiments import Configured, check_experiment_form, configured
from gristmill.formats.fitting import check_experiment
from gristmill.formats.libraries import check_library, check_uses, library_closure
from gristmill.formats.names import DatabaseRef, Ref, name_problems
from gristmill.formats.parameters import clean_parameters, parameter_problems
from gristmill.formats.plotters import check_plotter, check_plotter_parameters
from gristmill.formats.problems import BadDocument, Problem
from gristmill.formats.toolchains import check_toolchain, predecessors, topological_order

__all__ = [
    "BadDocument",
    "Configured",
    "DataSet",
    "DatabaseRef",
    "Problem",
    "Ref",
    "check_algorithm",
    "check_database",
    "check_dataformat",
    "check_document",
    "check_experiment",
    "check_experiment_form",
    "check_library",
    "check_plotter",
    "check_plotter_parameters",
    "check_protocol_template",
    "check_toolchain",
    "check_uses",
    "clean_parameters",
    "configured",
    "data_sets",
    "fits",
    "library_closure",
    "name_problems",
    "parameter_problems",
    "parse_json",
    "predecessors",
    "resolve",
    "topological_order",
]
