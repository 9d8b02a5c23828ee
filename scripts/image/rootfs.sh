#!/bin/bash
# Writes the files of the image below a folder, from Debian's packages: rootfs.sh ARCHITECTURE FOLDER. Runs on Debian as root and
# needs apt and dpkg-deb alone, so the architecture need not be this machine's: nothing of the packages is started.
# DEBIAN_MIRROR and DEBIAN_SECURITY name other archives, snapshot.debian.org say. FOLDER.packages becomes the list of what is in it.
set -euo pipefail
architecture=$1 folder=$2
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY:-http://deb.debian.org/debian-security}

names() { sed 's/#.*//' "$1" | xargs; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial}
: >"$work/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for line in "$mirror $suite" "$mirror $suite-updates" "$security $suite-security"; do
  echo "deb [signed-by=$keyring] $line main"
done >"$work/sources.list"

# An apt of its own: it knows of no installed package, and leaves the machine's lists alone.
apt() {
  apt-get -qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o APT::Sandbox::User=root \
    -o "Dir::State=$work" -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache" \
    -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/nonexistent -o APT::Install-Recommends=false "$@" >&2
}
apt update
# shellcheck disable=SC2046
apt install --yes --download-only $(names "$recipe/packages")

rm -rf "$folder"
mkdir -p "$folder"/usr/{bin,sbin,lib,lib64} "$folder"/var/lib/dpkg/status.d
for name in bin sbin lib lib64; do ln -s "usr/$name" "$folder/$name"; done
left_out=" $(names "$recipe/left-out") "
for archive in "$work"/cache/archives/*.deb; do
  package=$(dpkg-deb --field "$archive" Package)
  [[ $left_out == *" $package "* ]] && continue
  # Packages still hold /bin and /lib as folders, which are links here.
  dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$folder" --keep-directory-symlink
  # Where scanners of images look for what is installed, when there is no dpkg.
  dpkg-deb --field "$archive" >"$folder/var/lib/dpkg/status.d/$package"
  echo "$package $(dpkg-deb --field "$archive" Version) $(sha256sum "$archive" | cut -d' ' -f1)"
done >"$folder.packages"

# What installation scripts would have made. ssh wants its user to have a name: csimux is who a controller without root runs as.
cat "$folder"/usr/share/ca-certificates/mozilla/*.crt >"$folder/etc/ssl/certs/ca-certificates.crt"
ln -sf dash "$folder/usr/bin/sh"
ln -sf /proc/mounts "$folder/etc/mtab"
printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'statd:x:101:65534::/var/lib/nfs:/usr/sbin/nologin' \
  '_rpc:x:102:65534::/run/rpcbind:/usr/sbin/nologin' 'csimux:x:65532:65532:csimux:/nonexistent:/usr/sbin/nologin' \
  'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' >"$folder/etc/passwd"
printf '%s\n' 'root:x:0:' 'disk:x:6:' 'csimux:x:65532:' 'nogroup:x:65534:' >"$folder/etc/group"
printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' 'services: files' 'protocols: files' >"$folder/etc/nsswitch.conf"
mkdir -p "$folder"/{usr/local/sbin,root,tmp,run/rpcbind,proc,sys,dev,host} "$folder"/var/lib/nfs/{sm,sm.bak}
chmod 1777 "$folder/tmp"
chmod 700 "$folder/root"

# The programs of the host's daemons, for people who look around in the container; csimux goes to /host by itself.
cat >"$folder/usr/local/sbin/on-host" <<'SH'
#!/bin/sh
exec chroot /host env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${0##*/}" "$@"
SH
chmod 755 "$folder/usr/local/sbin/on-host"
for name in iscsiadm nvme multipath multipathd; do ln -s on-host "$folder/usr/local/sbin/$name"; done

# What nobody reads in a container; the licences stay.
find "$folder/usr/share/doc" -type f ! -name copyright -delete
find "$folder/usr/share/doc" -type l -delete
rm -rf "$folder"/usr/share/{man,info,locale,lintian,bash-completion,zsh,bug,menu,i18n,initramfs-tools,debconf,pixmaps,perl5} \
  "$folder"/{boot,home,media,mnt,opt,srv,games} "$folder"/etc/{init.d,cron.*,pam.d,default,logrotate.d,security,perl,python3*,insserv*,update-motd.d,skel,dpkg} "$folder"/{usr/lib,lib,etc}/systemd \
  "$folder"/usr/{games,include,src,local/{bin,etc,games,include,lib,man,share,src}} "$folder"/usr/lib/{udev,tmpfiles.d,sysusers.d} "$folder"/usr/lib/*/{perl,e2initrd_helper} \
  "$folder"/var/{cache,backups,log,mail,spool,local}
# Programs of servers and of idle checks, which alone need the largest libraries that were left out.
rm -f "$folder"/usr/sbin/{xfs_scrub,xfs_scrub_all,nfsdcld,nfsdcltrack,nfsdclddb,nfsdclnts,nfsconvert,blkmapd,e2scrub,e2scrub_all} \
  "$folder"/usr/sbin/{mountstats,nfsiostat} "$folder"/usr/lib/*/libnfsidmap/umich_ldap.so "$folder"/usr/{bin/{su,login,tini-static},sbin/runuser,lib/*/security/*}
# Character sets: mkfs.vfat writes labels in code page 850.
find "$folder"/usr/lib/*/gconv -name '*.so' ! -name IBM850.so -delete
find "$folder" -type d -empty -path '*/usr/share/*' -delete
# Everything runs as root, or as a user who shall not become root.
find "$folder" -type f -perm /6000 -exec chmod ug-s {} +
