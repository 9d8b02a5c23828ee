#!/bin/sh
# Runs in the machine once, before it is frozen: what every guest starts with. Nothing is shared or exported yet.
set -eu
zpool create -f -o ashift=12 -O compression=lz4 -O atime=off -O mountpoint=/tank tank /dev/vdb
systemctl start nfs-server smbd
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p /sys/kernel/config/nvmet/ports
# The first call of targetcli makes its files, which takes several seconds.
targetcli / ls >/dev/null
systemctl is-system-running --wait || systemctl --failed --no-legend
sync
fstrim -a || true
echo 3 >/proc/sys/vm/drop_caches
sleep 3
