"""Every SQL statement of the scheduler's store. Arrays go in, so that a batch is one statement."""

from __future__ import annotations

from backend.scheduler.core import blocks, experiments

LIVE = ", ".join(f"'{state}'" for state in sorted(experiments.LIVE))
WAITING = f"'{blocks.State.BLOCKED}', '{blocks.State.QUEUED}'"
ENDED = ", ".join(f"'{state}'" for state in sorted(experiments.FINAL))

# ---- what a commit writes -----------------------------------------------------------------

#: Rows are locked in the order of their ids, as everybody does; $3 = how many events each gets.
SET_EXPERIMENTS = f"""
WITH given AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::int[], $4::timestamptz[], $5::bool[])
    AS given(id, state, events, submitted_at, started)
), locked AS (
  SELECT e.id FROM experiment e WHERE e.id = ANY($1::uuid[]) ORDER BY e.id FOR NO KEY UPDATE
)
UPDATE experiment e SET
  last_seq = e.last_seq + given.events,
  state = coalesce(given.state, e.state),
  submitted_at = coalesce(given.submitted_at, e.submitted_at),
  started_at = CASE WHEN given.started THEN $6
                    WHEN given.submitted_at IS NOT NULL THEN NULL ELSE e.started_at END,
  finished_at = CASE WHEN given.state IN ({ENDED}) THEN $6
                     WHEN given.submitted_at IS NOT NULL THEN NULL ELSE e.finished_at END
FROM given JOIN locked ON locked.id = given.id
WHERE e.id = given.id
RETURNING e.id, e.last_seq, e.owner_id
"""  # noqa: S608  (made of constants)

FORGET_CUTS = """
DELETE FROM job USING block b WHERE job.block_id = b.id AND b.experiment_id = ANY($1::uuid[])
"""

SET_BLOCKS = f"""
UPDATE block b SET
  state = given.state, reason = given.reason, failure = given.failure::jsonb,
  worker = nullif(coalesce(given.worker, b.worker), ''),
  queued_at = CASE WHEN given.queued THEN $8 ELSE b.queued_at END,
  started_at = CASE WHEN given.started THEN $8 WHEN given.queued THEN NULL ELSE b.started_at END,
  finished_at = CASE WHEN given.state IN ({", ".join(f"'{s}'" for s in sorted(blocks.FINAL))})
                     THEN $8 END,
  progress = CASE WHEN given.state IN ('{blocks.State.DONE}', '{blocks.State.CACHED}') THEN 1
                  WHEN given.queued THEN NULL ELSE b.progress END
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bool[], $7::bool[])
  AS given(id, state, reason, failure, worker, queued, started)
WHERE b.id = given.id
RETURNING b.id, b.name, b.key, b.experiment_id, b.algorithm,
  b.environment_name, b.environment_version
"""  # noqa: S608  (made of constants)

ADD_EVENTS = """
INSERT INTO event (experiment_id, seq, time, kind, block, details)
SELECT given.experiment, given.seq, $6, given.kind, given.block, given.details::jsonb
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[])
  AS given(experiment, seq, kind, block, details)
"""

ADD_ATTEMPTS = """
INSERT INTO attempt
  (id, block_id, experiment_id, index, number, run, worker_id, worker, leased_at)
SELECT given.id, given.block, e.id, given.index, given.number, e.run, w.id, w.name, $7
FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::int[], $5::int[], $6::uuid[])
  AS given(id, block, experiment, index, number, worker)
JOIN experiment e ON e.id = given.experiment
JOIN worker w ON w.id = given.worker
RETURNING id
"""

BEGIN_ATTEMPTS = "UPDATE attempt SET started_at = $2 WHERE id = ANY($1::text[])"

REVOKE_ATTEMPTS = """
UPDATE attempt SET revoked_at = $2 WHERE id = ANY($1::text[]) AND ended_at IS NULL
"""

#: An attempt that has ended already is not ended again: the count of rows tells.
CLOSE_ATTEMPTS = """
UPDATE attempt a SET ended_at = $5, outcome = given.outcome, failure = given.failure::jsonb,
  statistics = given.statistics::jsonb
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
  AS given(id, outcome, failure, statistics)
WHERE a.id = given.id AND a.ended_at IS NULL
RETURNING a.id, a.block_id, a.index, a.outcome
"""

JOBS_DONE = """
UPDATE job SET done = true FROM unnest($1::uuid[], $2::int[]) AS given(block, index)
WHERE job.block_id = given.block AND job.index = given.index
"""

FORGET_JOBS = "DELETE FROM job WHERE block_id = ANY($1::uuid[])"
ADD_JOBS = """
INSERT INTO job (block_id, index, first, last, done)
SELECT given.block, given.index, given.first, given.last, false
FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[])
  AS given(block, index, first, last)
"""

DONE_ATTEMPTS = """
SELECT a.block_id, a.statistics FROM attempt a
JOIN experiment e ON e.id = a.experiment_id AND e.run = a.run
WHERE a.block_id = ANY($1::uuid[]) AND a.outcome = 'done' ORDER BY a.block_id, a.index
"""

ADD_ENTRIES = """
INSERT INTO cache_entry
  (key, algorithm, environment, made_by, size, statistics, results, hits, created_at, used_at)
SELECT given.key, given.algorithm, given.environment, given.made_by, given.size,
  given.statistics::jsonb, given.results::jsonb, 0, $8, $8
FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[], $6::text[], $7::text[])
  AS given(key, algorithm, environment, made_by, size, statistics, results)
ON CONFLICT (key) DO NOTHING
RETURNING key
"""

ADD_PARTS = """
INSERT INTO cache_part (key, output, first, last, path, size, rows, sha256)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[],
  $6::bigint[], $7::bigint[], $8::text[])
ON CONFLICT DO NOTHING
"""

#: Locks the entries, so that a cleaning under way either has gone before or leaves them.
USE_ENTRIES = """
WITH found AS (
  SELECT key FROM cache_entry WHERE key = ANY($1::text[]) ORDER BY key FOR NO KEY UPDATE
)
UPDATE cache_entry c SET hits = c.hits + given.hits, used_at = $3
FROM unnest($1::text[], $2::int[]) AS given(key, hits) JOIN found ON found.key = given.key
WHERE c.key = given.key
RETURNING c.key
"""

SHOW_ENTRIES = """
UPDATE block b SET statistics = c.statistics, results = c.results
FROM cache_entry c WHERE c.key = b.key AND b.id = ANY($1::uuid[])
"""

FORGET_RIGHTS = "DELETE FROM held_right WHERE user_id = ANY($1::uuid[])"
ADD_RIGHTS = """
INSERT INTO held_right (user_id, queue_id, slots, priority)
SELECT u.id, q.id, given.slots, given.priority
FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[])
  AS given(user_id, queue_id, slots, priority)
JOIN user_account u ON u.id = given.user_id
JOIN queue q ON q.id = given.queue_id
"""

SET_WORKERS = """
UPDATE worker w SET state = given.state FROM unnest($1::uuid[], $2::text[]) AS given(id, state)
WHERE w.id = given.id
"""

SET_SETTING = """
INSERT INTO setting (key, value) VALUES ($1, $2::jsonb)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

PURGE = "DELETE FROM experiment WHERE id = ANY($1::uuid[])"

# ---- what is remembered lightly -----------------------------------------------------------

LIGHTLY = "SET LOCAL synchronous_commit = off"

SEEN = """
UPDATE worker w SET last_seen = greatest(w.last_seen, given.at)
FROM unnest($1::uuid[], $2::timestamptz[]) AS given(id, at) WHERE w.id = given.id
"""

SET_PROGRESS = """
UPDATE block b SET progress = given.fraction
FROM unnest($1::text[], $2::float[]) AS given(attempt, fraction)
JOIN attempt a ON a.id = given.attempt AND a.ended_at IS NULL
WHERE b.id = a.block_id AND b.state = 'running'
RETURNING a.id, b.experiment_id, b.name
"""

# ---- what is live -------------------------------------------------------------------------

QUEUES = """
SELECT id, name, memory_mb, time_limit_seconds, slots_per_worker, cores_per_slot
FROM queue ORDER BY id
"""
QUEUE_ENVIRONMENTS = """
SELECT l.queue_id, e.name, e.version FROM queue_environment l
JOIN environment e ON e.id = l.environment_id
"""
WORKERS = "SELECT id, name, cores, memory_mb, state FROM worker ORDER BY id"
WORKER_ENVIRONMENTS = "SELECT worker_id, name, version FROM worker_environment"
SLOT_SHARES = "SELECT queue_id, worker_id, slots FROM slot_share"
RIGHTS = "SELECT user_id, queue_id, slots, priority FROM held_right"
SETTING = "SELECT value FROM setting WHERE key = $1"

EXPERIMENTS = f"""
SELECT id, owner_id, state, run, submitted_at FROM experiment WHERE state IN ({LIVE}) ORDER BY id
"""  # noqa: S608  (made of constants)

BLOCKS = f"""
SELECT b.id, b.experiment_id, b.name, b.kind, b.inputs, b.queue_id, b.environment_name,
  b.environment_version, b.slots, b.key, b.state, b.queued_at, b.failure
FROM block b JOIN experiment e ON e.id = b.experiment_id
WHERE e.state IN ({LIVE}) ORDER BY b.experiment_id, b.position
"""  # noqa: S608  (made of constants)

JOBS = f"""
SELECT j.block_id, j.index, j.first, j.last, j.done
FROM job j JOIN block b ON b.id = j.block_id JOIN experiment e ON e.id = b.experiment_id
WHERE e.state IN ({LIVE}) ORDER BY j.block_id, j.index
"""  # noqa: S608  (made of constants)

#: Of each job of a live block: its latest number, what counts against it in this run, its end.
TRIED = f"""
SELECT a.block_id, a.index, max(a.number) AS number,
  coalesce(max(a.number) FILTER (WHERE a.run < e.run), 0) AS before,
  count(*) FILTER (WHERE a.run = e.run) AS tries,
  count(*) FILTER (WHERE a.run = e.run AND a.failure->>'kind' = ANY($1::text[])) AS failures,
  bool_or(a.run = e.run AND a.outcome = 'done') AS done
FROM attempt a JOIN experiment e ON e.id = a.experiment_id
WHERE e.state IN ({LIVE}) GROUP BY a.block_id, a.index
"""  # noqa: S608  (made of constants)

OPEN_ATTEMPTS = """
SELECT a.id, a.block_id, a.index, a.number, a.worker_id, a.leased_at,
  a.started_at IS NOT NULL AS started, a.revoked_at IS NOT NULL AS revoked
FROM attempt a WHERE a.ended_at IS NULL ORDER BY a.leased_at, a.id
"""

HELD_KEYS = f"""
SELECT DISTINCT c.key FROM cache_entry c JOIN block b ON b.key = c.key
JOIN experiment e ON e.id = b.experiment_id
WHERE e.state IN ({LIVE}) AND b.state IN ({WAITING})
"""  # noqa: S608  (made of constants)

# ---- the story of a block -----------------------------------------------------------------

STORY_EVENTS = """
SELECT ev.time, ev.details FROM event ev JOIN block b
  ON b.experiment_id = ev.experiment_id AND b.name = ev.block
WHERE b.id = $1 AND ev.kind = 'block' ORDER BY ev.seq
"""

STORY_ATTEMPTS = """
SELECT id, index, number, worker, leased_at, started_at, revoked_at, ended_at, outcome, failure
FROM attempt WHERE block_id = $1 ORDER BY leased_at, id
"""
