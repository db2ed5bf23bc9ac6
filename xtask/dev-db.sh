#!/bin/sh
# Recreates the database NAME on the scratch server from the current SQL files.
set -eu
cd "$(dirname "$0")/.."
name=$1
url=${DEV_PG:-postgres://postgres@127.0.0.1:5499}
psql -q "$url/postgres" -c "DROP DATABASE IF EXISTS \"$name\" WITH (FORCE)" -c "CREATE DATABASE \"$name\""
for key in authz identity org registry idp tasks $(ls modules); do
  psql -q -v ON_ERROR_STOP=1 "$url/$name" -f /dev/stdin <<SQL
$(cat migrations/0000_bootstrap/roles.sql migrations/0000_bootstrap/service.sql | sed "s/{key}/$key/g; s/{password}/dev/g")
SQL
done >/dev/null
for folder in migrations/authz migrations/identity migrations/org migrations/registry migrations/idp examples/module/migrations modules/*/migrations; do
  for file in "$folder"/*.sql; do
    [ -e "$file" ] || continue
    { echo "SET ROLE platform_owner;"; cat "$file"; } | psql -q -1 -v ON_ERROR_STOP=1 "$url/$name" -f - >/dev/null || { echo "in $file" >&2; exit 1; }
  done
done
