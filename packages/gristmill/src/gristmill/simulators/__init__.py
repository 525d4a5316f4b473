"""Batch systems that run on one machine: the commands of six managers over one small farm.

For tests of programs that submit jobs, where the manager itself cannot be had. The jobs really
run, as processes under a small supervisor, with walltime and memory limits, holds, dependencies,
arrays and history; what the commands print has the shape of the real ones. Faults can be asked
for: lost answers, cut listings, empty answers, a daemon that is down, slowness, banners, lag.

    python -m gristmill.simulators install DIR --manager openpbs   # writes DIR/bin/qsub, …
    PATH=DIR/bin:$PATH qsub job.sh
    python -m gristmill.simulators fault DIR qsub lost_answer
    python -m gristmill.simulators stop DIR

Each front end is one file and says what its facts come from. None of it is for production.
"""
