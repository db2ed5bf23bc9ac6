# Shared by the scripts of this folder: their own PostgreSQL, databases with the tuples of data.sql and platform.sql, and
# authz in front of them. Sourced at the root of the checkout; everything that is started ends with the script.
COMPANY=01890a5d-ac96-774b-bcce-b302099a8057
WORK=$(mktemp -d /tmp/authz-load.XXXXXX); chmod 755 "$WORK"
PG=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
PGPORT=${PGPORT:-18391} AUTHZ_OFFSET=${AUTHZ_OFFSET:-10300} JWKS=${JWKS:-18394}
URL=postgres://postgres@127.0.0.1:$PGPORT
# In a file: some processes are started in a part of a pipe, whose variables are not visible elsewhere.
STARTED=$WORK/started; : >"$STARTED"
finish() {
  while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$STARTED"
  as_postgres "$PG/pg_ctl" -D "$WORK/pg" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$WORK"
}
trap finish EXIT
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
sql() { psql -qAt -v ON_ERROR_STOP=1 "$URL/$1" "${@:2}"; }

if [ -z "${SERVER:-}" ]; then
  cargo xtask dist
  SERVER="target/dist/platform serve authz"
fi
mkdir "$WORK/pg"; [ "$(id -u)" = 0 ] && chown postgres "$WORK/pg"
as_postgres "$PG/initdb" -D "$WORK/pg" -U postgres -A trust >/dev/null
as_postgres "$PG/pg_ctl" -D "$WORK/pg" -w -l "$WORK/pg/log" \
  -o "-p $PGPORT -k '' -c listen_addresses=127.0.0.1 -c fsync=${FSYNC:-off} -c shared_buffers=1GB -c max_wal_size=8GB -c max_connections=200" start >/dev/null
POSTMASTER=$(head -1 "$WORK/pg/postmaster.pid")

fill() { # database, tuples
  DEV_PG=$URL xtask/dev-db.sh "$1" >/dev/null 2>&1
  { cat loadtests/authz/data.sql loadtests/authz/platform.sql; } | psql -q -v ON_ERROR_STOP=1 -v n="$2" -v company="$COMPANY" "$URL/$1" -f - >/dev/null
  loadtests/authz/drive.py users --n "$2" | psql -q -v ON_ERROR_STOP=1 "$URL/$1" -f - >/dev/null
  sql "$1" -c 'ANALYZE' -c 'CHECKPOINT'
}
settings() { # database, port offset: authz's variables, one a line
  printf '%s\n' "PLATFORM_PORT_OFFSET=$2" "PLATFORM_AUTHZ_DB_PORT=$PGPORT" "PLATFORM_AUTHZ_DB_NAME=$1" PLATFORM_AUTHZ_DB_PASSWORD=dev \
    "IDP_JWKS_URL=http://127.0.0.1:$JWKS/certs" IDP_ISSUER_URL=https://load.test/realms/platform PLATFORM_SUPERADMINS=nobody
}
serve() { # database, port offset
  local offset=${2:-$AUTHZ_OFFSET}
  # No identity service checks the provider here, and authz does not decide on checks older than five minutes.
  while sleep 60; do sql "$1" -c 'UPDATE identity.provider_look SET at = now()' || exit 0; done >/dev/null 2>&1 &
  echo "$!" >>"$STARTED"
  env $(settings "$1" "$offset") $SERVER >"$WORK/authz-$offset.log" 2>&1 &
  AUTHZ=$!; echo "$AUTHZ" >>"$STARTED"
}
