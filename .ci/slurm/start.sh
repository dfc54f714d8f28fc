#!/usr/bin/env bash
# A two-node Slurm on this host: `start.sh DIR` starts munge, slurmctld and two slurmd
# with everything they write in DIR, and prints the line to evaluate; `start.sh stop DIR` ends them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

stop() {
  # A step whose controller has gone would wait for it for ever.
  export SLURM_CONF=$1/slurm.conf
  timeout 10 scancel --partition=ci 2>/dev/null || true
  for _ in $(seq 100); do
    [ -z "$(timeout 10 squeue -h 2>/dev/null)" ] && break
    sleep 0.2
  done
  for name in slurmd-n1 slurmd-n2 slurmctld munged; do
    [ -f "$1/$name.pid" ] && kill "$(cat "$1/$name.pid")" 2>/dev/null || true
  done
}

if [ "$1" = stop ]; then
  stop "$2"
  exit
fi

mkdir -p "$1"/state "$1"/munge
dir=$(cd "$1" && pwd)
chmod 755 "$dir"
[ -f "$dir/munge/key" ] || (umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
chmod 700 "$dir/munge"
/usr/sbin/munged --force --key-file="$dir/munge/key" --socket="$dir/munge.socket" \
  --pid-file="$dir/munged.pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" \
  --num-threads=2 >/dev/null 2>&1

read -r port0 port1 port2 < <(python3 -c '
import socket
probes = [socket.socket() for _ in range(3)]
for probe in probes:
    probe.bind(("127.0.0.1", 0))
print(*(probe.getsockname()[1] for probe in probes))')
sed -e "s|@DIR@|$dir|g; s|@HOST@|$(hostname -s)|g; s|@USER@|$(id -un)|g" \
  -e "s|@PORT0@|$port0|; s|@PORT1@|$port1|; s|@PORT2@|$port2|" \
  "$here/slurm.conf.in" >"$dir/slurm.conf"
export SLURM_CONF=$dir/slurm.conf
slurmctld -f "$SLURM_CONF"
for node in n1 n2; do
  mkdir -p "$dir/spool-$node"
  slurmd -f "$SLURM_CONF" -N "$node"
done
for _ in $(seq 100); do
  [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && echo "export SLURM_CONF=$SLURM_CONF" && exit
  sleep 0.2
done
echo "the two nodes are not idle after 20 s; see $dir/*.log" >&2
stop "$dir"
exit 1
