#!/bin/bash
# Dump the database, then copy the files, into a folder of today; keep seven such folders.
# DATABASE, DATA and BACKUPS come from the environment: see docs/how-to/back-up-and-restore.md.
set -euo pipefail
umask 077

KEPT=7
: "${DATABASE:?address of the database, as pg_dump takes it}" "${DATA:?data folder}" "${BACKUPS:?}"
day=$(date --utc +%Y-%m-%dT%H%M%S)
unfinished="$BACKUPS/unfinished"

rm -rf "$unfinished"
mkdir -p "$unfinished"
pg_dump --format=custom --file="$unfinished/database.dump" "$DATABASE"
tar --create --file="$unfinished/data.tar" --directory="$DATA" \
    --exclude=incoming --exclude=proof files cache
pg_restore --list "$unfinished/database.dump" > "$unfinished/contents.txt"
mv "$unfinished" "$BACKUPS/$day"   # only a whole backup gets a name

find "$BACKUPS" -mindepth 1 -maxdepth 1 -type d -name '????-??-??T??????' -printf '%f\n' \
    | sort --reverse | tail --lines=+$((KEPT + 1)) \
    | while read -r old; do rm -rf "${BACKUPS:?}/$old"; done
