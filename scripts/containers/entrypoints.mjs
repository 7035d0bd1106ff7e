// What the images of databases run first: it makes the data on the first start, from the variables that the public
// images take, and becomes the server.

export const postgresEntrypoint = `#!/bin/sh
set -e
as_postgres() {
  program=/usr/local/pgsql/bin/$1
  shift
  exec start-stop-daemon -S -c postgres:postgres -x "$program" -- "$@"
}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA" /run
  chown postgres:postgres "$PGDATA" /run
  (umask 077; printf %s "$POSTGRES_PASSWORD" >/run/password; chown postgres:postgres /run/password)
  (as_postgres initdb -D "$PGDATA" -U postgres --pwfile=/run/password --auth=scram-sha-256 \\
    --locale=C --encoding=UTF8 --no-sync)
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
  echo "unix_socket_directories = '/run'" >>"$PGDATA/postgresql.conf"
fi
as_postgres "$@"
`;

export const mariadbEntrypoint = `#!/bin/sh
set -e
share=/usr/share/mariadb
shift
common="--no-defaults --user=root --datadir=/data --lc-messages-dir=$share --character-sets-dir=$share/charsets"
sql() { for name in mariadb mysql; do if [ -f "$share/\${name}_$1.sql" ]; then cat "$share/\${name}_$1.sql"; fi; done; }
if [ ! -d /data/mysql ]; then
  {
    echo 'CREATE DATABASE mysql;'
    echo 'USE mysql;'
    echo 'SET @auth_root_socket=NULL;'
    echo "SET @current_hostname='localhost';"
    sql system_tables
    sql performance_tables
    sql system_tables_data
    echo 'FLUSH PRIVILEGES;'
    echo "DELETE FROM mysql.global_priv WHERE User IN ('root', '');"
    echo 'FLUSH PRIVILEGES;'
    echo "CREATE USER 'root'@'%' IDENTIFIED BY '$MARIADB_ROOT_PASSWORD';"
    echo "GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;"
    echo "CREATE DATABASE $MARIADB_DATABASE CHARACTER SET utf8mb4;"
  } | mariadbd $common --bootstrap --innodb-log-file-size=8M
fi
exec mariadbd $common --bind-address=0.0.0.0 --socket=/tmp/socket --pid-file=/tmp/pid --innodb-log-file-size=8M "$@"
`;
