#!/bin/bash
# The first process of Nomad's machine: init.sh STATE NOMAD CLIENT..., in PID, mount, network, IPC and UTS namespaces. It starts
# a server, and each client in mount and PID namespaces of its own, and starts again whatever ends, as systemd would. A
# client with a file "off" in its folder stays off. What is in STATE survives, as a disk survives a reboot.
set -euo pipefail
state=$1 nomad=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mount -t tmpfs -o mode=755 run /run
ip link set lo up
mkdir -p "$state"/{log,store,server}

keep() { # NAME COMMAND...
  local name=$1
  shift
  while :; do
    "$@" >>"$state/log/$name.log" 2>&1 </dev/null || true
    echo "$(date +%T) $name ended" >>"$state/log/machine.log"
    sleep 1
    while [ -e "$state/$name/off" ]; do sleep 1; done
  done &
}

keep server "$nomad" agent -config "$here/server.hcl" -data-dir "$state/server/data"
for client; do
  keep "$client" unshare --fork --kill-child --pid --mount --propagation private --mount-proc \
    bash "$here/client.sh" "$state" "$nomad" "$client"
done

trap 'exit 0' TERM
while :; do
  sleep 86400 &
  wait $!
done
