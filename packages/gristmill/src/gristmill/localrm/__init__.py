"""A small resource manager for one user on one machine: where no other is installed.

`store` keeps the jobs in an SQLite file; `supervisor` starts them, one process for each user, which
appears when there is work and ends when there is none; `shepherd` runs one job, enforces its limits
and writes its end, whether the supervisor lives or not; `commands` is what users call.
"""
