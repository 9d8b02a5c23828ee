#!/bin/sh
# Runs in every guest when it comes up. Arguments: the guest's number, the time in seconds since 1970.
set -eu
number=$1 now=$2
# A resumed clock still shows the day of the build.
date -s "@$now" >/dev/null
# All guests resume one frozen machine: create new values for everything that identifies a machine.
hostname "lab-$number"
echo "lab-$number" >/etc/hostname
printf '127.0.0.1 localhost lab-%s lab\n' "$number" >/etc/hosts
printf 'InitiatorName=iqn.2016-04.com.open-iscsi:lab-%s\n' "$number" >/etc/iscsi/initiatorname.iscsi
uuid=$(printf '77000000-0000-4000-8000-%012d' "$number")
echo "$uuid" >/etc/nvme/hostid
echo "nqn.2014-08.org.nvmexpress:uuid:$uuid" >/etc/nvme/hostnqn
ip link set eth1 down address "52:54:00:77:01:0$number"
ip link set eth1 up
ip address replace "10.77.0.$number/24" dev eth1
# The same after a reboot of the guest.
cat >/etc/systemd/network/eth1.network <<EOF
[Match]
Name=eth1
[Link]
MACAddress=52:54:00:77:01:0$number
[Network]
Address=10.77.0.$number/24
LinkLocalAddressing=no
EOF
# smbd looks a usershare up as the user who is logged in, now and then, and takes it for gone where that may not look (Samba 4.17).
chmod 1775 /var/lib/samba/usershares
