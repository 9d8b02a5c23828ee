# syntax=docker/dockerfile:1
# Holds what `make build` made: run that first. The executable needs glibc, so the base is Debian and not Alpine.
FROM debian:bookworm-slim

# The programs that csimux starts: on the controller rsync, on nodes mount helpers and the tools of each file system.
# iscsiadm, nvme and multipath are taken from the host (/host), where their daemons and their state are.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates tini \
      mount util-linux \
      nfs-common cifs-utils \
      e2fsprogs xfsprogs btrfs-progs dosfstools exfatprogs ntfs-3g \
      rsync openssh-client \
 && rm -rf /var/lib/apt/lists/*

COPY dist/csimux /usr/local/bin/csimux

# Charts made for democratic-csi run bin/liveness-probe from the working directory.
WORKDIR /home/csi/app
COPY scripts/liveness-probe bin/liveness-probe

# Extra certificate authorities: mount a PEM file and name it in NODE_EXTRA_CA_CERTS; an empty one only draws a warning.

# As the first process of a container csimux would have to reap what its tools leave behind, such as the parents of a daemon
# that mount.nfs starts; -s does the same where it is not the first (hostPID).
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/csimux"]
