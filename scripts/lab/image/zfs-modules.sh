#!/bin/sh
# Runs in a copy of the new root, which then holds a compiler: makes the ZFS modules for the kernel named by the argument.
set -eu
kernel=$1
apt="apt-get -qy -o Dpkg::Use-Pty=0 --no-install-recommends"
$apt install "linux-headers-$kernel" dkms gcc make
# Its installation tries the kernel that runs now, which is the host's, and leaves out what it finds no headers for.
$apt install zfs-dkms
version=$(dpkg-query -W -f '${source:Upstream-Version}' zfs-dkms)
dkms install -m zfs -v "$version" -k "$kernel" || { cat /var/lib/dkms/zfs/*/build/make.log; exit 1; }
