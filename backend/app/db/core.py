"""The tables for statements written in SQLAlchemy Core: `select(experiment.c.id)`."""

from __future__ import annotations

from sqlalchemy import Table

from backend.app.db.tables import metadata

algorithm: Table = metadata.tables["algorithm"]
attempt: Table = metadata.tables["attempt"]
block: Table = metadata.tables["block"]
cache_entry: Table = metadata.tables["cache_entry"]
cache_part: Table = metadata.tables["cache_part"]
data_format: Table = metadata.tables["data_format"]
database: Table = metadata.tables["dataset_database"]
database_file: Table = metadata.tables["database_file"]
environment: Table = metadata.tables["environment"]
event: Table = metadata.tables["event"]
experiment: Table = metadata.tables["experiment"]
group_member: Table = metadata.tables["group_member"]
group_queue_right: Table = metadata.tables["group_queue_right"]
held_right: Table = metadata.tables["held_right"]
job: Table = metadata.tables["job"]
library: Table = metadata.tables["library"]
log_chunk: Table = metadata.tables["log_chunk"]
queue: Table = metadata.tables["queue"]
queue_environment: Table = metadata.tables["queue_environment"]
setting: Table = metadata.tables["setting"]
share: Table = metadata.tables["share"]
slot_share: Table = metadata.tables["slot_share"]
toolchain: Table = metadata.tables["toolchain"]
user_group: Table = metadata.tables["user_group"]
user_account: Table = metadata.tables["user_account"]
worker: Table = metadata.tables["worker"]
worker_credential: Table = metadata.tables["worker_credential"]
worker_environment: Table = metadata.tables["worker_environment"]
