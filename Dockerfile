# syntax=docker/dockerfile:1
# The image that `make image` writes, for those who have a container engine. It holds what `make build` made: run that first.
# The executable needs glibc, so the files are Debian's; scripts/image/packages names them, and rootfs.sh puts them together.
FROM debian:bookworm AS files
ARG TARGETARCH=amd64
# `make build` makes the executable for the processor of its machine; an image for another one would never start.
COPY dist/csimux /csimux
RUN case "$TARGETARCH:$(od -An -tx2 -j18 -N2 /csimux | tr -d ' ')" in amd64:003e | arm64:00b7) ;; *) echo "dist/csimux is not for $TARGETARCH: run make build on such a machine, or make image" >&2; exit 1 ;; esac
COPY scripts/image /recipe
RUN /recipe/rootfs.sh "$TARGETARCH" /files

FROM scratch
COPY --from=files /files /

COPY dist/csimux /usr/local/bin/csimux

# Charts made for democratic-csi run bin/liveness-probe from the working directory.
WORKDIR /home/csi/app
COPY scripts/liveness-probe bin/liveness-probe

ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Extra certificate authorities: mount a PEM file and name it in NODE_EXTRA_CA_CERTS; an empty one only draws a warning.

# As the first process of a container csimux would have to reap what its tools leave behind, such as the parents of a daemon
# that mount.nfs starts; -s does the same where it is not the first (hostPID).
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/csimux"]
