#!/bin/sh
# Runs in the new root when packages, modules and files are in place. Arguments: the kernel's version, the public key that may log in.
set -eu
kernel=$1 key=$2
depmod "$kernel"
update-initramfs -u -k "$kernel"
zgenhostid -f

# Root, a user who becomes root with sudo, and one of the same kind whose login shell is no POSIX shell.
useradd -m -s /bin/bash -G sudo csi
useradd -m -s /bin/tcsh -G sudo csh
printf 'csi:csi\ncsh:csh\n' | chpasswd
printf 'csi\ncsi\n' | smbpasswd -s -a csi
for user in root csi csh; do
  home=$(getent passwd "$user" | cut -d: -f6)
  install -d -m 700 -o "$user" -g "$user" "$home/.ssh"
  printf '%s\n' "$key" >"$home/.ssh/authorized_keys"
  chown "$user:$user" "$home/.ssh/authorized_keys"
done

systemctl -q enable systemd-networkd ssh nfs-server smbd iscsid.socket zfs-import-cache zfs-mount zfs-share zfs.target
# An initiator reads its name when it starts, and every guest gets a name of its own: so it is started by who needs it.
# Multipath takes devices over; a test that wants that switches it on.
systemctl -q disable iscsid open-iscsi multipathd multipathd.socket
systemctl -q mask nmbd samba-ad-dc nfs-blkmap getty@tty1 systemd-networkd-wait-online apt-daily.timer \
  apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap fstrim.timer
rm -rf /usr/sbin/policy-rc.d /etc/apt/apt.conf.d/00host /var/lib/apt/lists/* /var/cache/apt/*.bin /etc/machine-id
: >/etc/machine-id
