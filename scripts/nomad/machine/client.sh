#!/bin/bash
# The first process of a client: client.sh STATE NOMAD CLIENT, in mount and PID namespaces. It starts Docker and Nomad.
set -euo pipefail
state=$1 nomad=$2 client=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mount --make-rshared /
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/nomad /run/store /etc/docker "$state/$client"/{data,docker,disk}
mount --bind "$state/$client" /run/nomad
mount --bind "$state/store" /run/store
# Docker writes a key there.
mount -t tmpfs docker /etc/docker

keep() { # NAME COMMAND...
  local name=$1
  shift
  while :; do
    "$@" >>"$state/log/$client-$name.log" 2>&1 </dev/null || true
    echo "$(date +%T) $client $name ended" >>"$state/log/machine.log"
    sleep 1
  done &
}

# The machine may lack CAP_SYS_RESOURCE, without which no process gets a lower score.
keep docker dockerd --bridge=none --iptables=false --ip6tables=false --host=unix:///run/docker.sock \
  --data-root=/run/nomad/docker --exec-root=/run/docker --pidfile=/run/docker.pid --oom-score-adjust=0 \
  --cgroup-parent=/csimux-nomad
until docker -H unix:///run/docker.sock version >/dev/null 2>&1; do sleep 0.2; done
keep nomad "$nomad" agent -config "$here/client.hcl" -config "$here/$client.hcl"

trap 'exit 0' TERM
while :; do
  sleep 86400 &
  wait $!
done
