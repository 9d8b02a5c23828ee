#!/bin/sh
# Runs in the new root: Debian's updates and the packages named by the arguments.
set -eu
apt="apt-get -qy -o Dpkg::Use-Pty=0 --no-install-recommends"
$apt update
$apt upgrade
$apt install "$@"
$apt clean
