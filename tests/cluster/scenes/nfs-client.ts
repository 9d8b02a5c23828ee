import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { state } from "../../../scripts/cluster/place.ts";
import { namespace } from "../deploy.ts";

// The kernel of the machine has no NFS client. A mount.nfs(8) takes its place that binds the folder that the server of zfs-host.ts would
// export: both are on the same machine.

const name = "mount.nfs";

/** SOURCE TARGET [-n] [-o OPTIONS] */
const script = '#!/bin/sh\nexec /bin/mount -n --bind "/host${1#*:}" "$2"\n';

/** Puts it on the machine; the answer is a patch of the node plugin. */
export async function nfsClient(): Promise<string> {
  await writeFile(join(state, name), script, { mode: 0o755 });
  return `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: csimux-node
  namespace: ${namespace}
spec:
  template:
    spec:
      containers:
        - name: csimux
          volumeMounts:
            - name: nfs-client
              mountPath: /sbin/${name}
              readOnly: true
      volumes:
        - name: nfs-client
          hostPath:
            path: /run/cluster/state/${name}
            type: File
`;
}
