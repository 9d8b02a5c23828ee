#!/bin/bash
# The first process of the cluster's machine: init.sh CACHE NODE, in PID, mount, network, IPC and UTS namespaces. It
# starts a Kubernetes of one node and starts again whatever ends, as systemd would. When it ends the kernel ends everything below
# it, mounts and network included; what is in CACHE/state survives, as a disk survives a reboot.
set -euo pipefail
cache=$1 node=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=/run/cluster state=/run/cluster/state

hostname "$node"
mount --make-rshared /
mount -t tmpfs -o mode=755 run /run
mkdir -p $run /run/udev /run/netns /run/cni.d
mkdir -m 1777 /run/lock
cp "$here"/cni/* /run/cni.d
mount --bind "$cache" $run
mkdir -p $state/{kubelet,csimux,etcd,log,pki}
mount --bind $state/kubelet /var/lib/kubelet
mount --bind $state/csimux /var/lib/csimux
mount --bind $state/log /var/log
mount --make-rshared /var/lib/kubelet
export PATH=$run/bin:$PATH

# 10.98.0.1 is the address of the service "kubernetes", under which pods look for the API: here it is the API server's own.
ip link set lo up
ip address add 10.99.0.2/32 dev lo
ip address add 10.98.0.1/32 dev lo

# cpusets of cgroup v1 are born empty, and the kubelet makes its own below this one.
for controller in /sys/fs/cgroup/*/; do
  [ -f "$controller/tasks" ] && mkdir -p "$controller/csimux-cluster"
done
for file in cpuset.cpus cpuset.mems; do
  [ ! -f /sys/fs/cgroup/cpuset/$file ] || cat /sys/fs/cgroup/cpuset/$file >/sys/fs/cgroup/cpuset/csimux-cluster/$file
done

account() { # FILE TOKEN
  cat >"$state/$1" <<YAML
apiVersion: v1
kind: Config
clusters: [{ name: here, cluster: { server: "https://10.98.0.1:443", insecure-skip-tls-verify: true } }]
users: [{ name: user, user: { token: $2 } }]
contexts: [{ name: here, context: { cluster: here, user: user } }]
current-context: here
YAML
}
for who in admin controller-manager scheduler kubelet; do account $who.kubeconfig "the-$who"; done
sed "s/NODE/$node/" "$here/tokens.csv" >$state/pki/tokens.csv
[ -f $state/pki/accounts.key ] || openssl genrsa -out $state/pki/accounts.key 2048 2>/dev/null

keep() { # NAME COMMAND...
  local name=$1
  shift
  while :; do
    "$@" >>/var/log/"$name".log 2>&1 </dev/null || true
    echo "$(date +%T) $name ended" >>/var/log/machine.log
    sleep 1
  done &
}

keep containerd containerd --config "$here/containerd.toml"
keep etcd etcd --data-dir $state/etcd --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
keep kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=443 --advertise-address=10.99.0.2 \
  --cert-dir=$state/pki --token-auth-file=$state/pki/tokens.csv --authorization-mode=Node,RBAC \
  --enable-admission-plugins=NodeRestriction --allow-privileged --service-cluster-ip-range=10.98.0.0/16 \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=$state/pki/accounts.key \
  --service-account-signing-key-file=$state/pki/accounts.key --endpoint-reconciler-type=none \
  --kubelet-preferred-address-types=InternalIP --profiling=false
keep kube-controller-manager kube-controller-manager --kubeconfig=$state/controller-manager.kubeconfig \
  --service-account-private-key-file=$state/pki/accounts.key --root-ca-file=$state/pki/apiserver.crt --leader-elect=false \
  --controllers='*,-bootstrap-signer-controller,-token-cleaner-controller' --profiling=false
keep kube-scheduler kube-scheduler --kubeconfig=$state/scheduler.kubeconfig --leader-elect=false
keep kubelet kubelet --config="$here/kubelet.yaml" --kubeconfig=$state/kubelet.kubeconfig --hostname-override="$node" \
  --node-ip=10.99.0.2 --cert-dir=$state/pki/kubelet --node-labels=topology.kubernetes.io/zone="${node%-*}"

trap 'exit 0' TERM
while :; do
  sleep 86400 &
  wait $!
done
