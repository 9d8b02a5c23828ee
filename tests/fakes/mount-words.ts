import type { Code } from "../../lib/core/errors.ts";

/** A mount of a share that fails. */
export interface RefusedMount {
  readonly type: "nfs" | "cifs";
  /** What is mounted from "nas"; the lab puts this machine in its place. */
  readonly source: string;
  readonly options: string;
  /** The line of mount(8) and its helper that says why: nfs-utils 2.6.2, cifs-utils 7.0. */
  readonly words: string;
  /** What csimux answers. */
  readonly code: Code;
}

/** What mounts say that fail, by their reasons. The lab compares each with the real programs (tests/lab/fakes.lab.ts). */
export const refusedMounts: Readonly<Record<string, RefusedMount>> = {
  "a folder that is not exported": {
    type: "nfs",
    source: "nas:/csimux-absent",
    options: "retry=0,vers=4.2",
    words: "mount.nfs: mounting nas:/csimux-absent failed, reason given by server: No such file or directory",
    code: "not-found",
  },
  "a folder that is exported to others": {
    type: "nfs",
    source: "nas:/srv/csimux-others",
    options: "retry=0,vers=3,nolock",
    words: "mount.nfs: access denied by server while mounting nas:/srv/csimux-others",
    code: "permission-denied",
  },
  "an NFS server that does not listen": {
    type: "nfs",
    source: "nas:/srv",
    options: "retry=0,vers=4.2,port=2050",
    words: "mount.nfs: Connection refused",
    code: "unavailable",
  },
  "an option that NFS does not have": {
    type: "nfs",
    source: "nas:/srv",
    options: "retry=0,vers=4.2,nonsense=1",
    words: "mount.nfs: an incorrect mount option was specified",
    code: "failed-precondition",
  },
  "an absent share of SMB": {
    type: "cifs",
    source: "//nas/csimux-absent",
    options: "username=csi,password=csi",
    words: "mount error(2): No such file or directory",
    code: "not-found",
  },
  "a wrong password of SMB": {
    type: "cifs",
    source: "//nas/csimux-absent",
    options: "username=csi,password=other",
    words: "mount error(13): Permission denied",
    code: "permission-denied",
  },
  "an SMB server that does not listen": {
    type: "cifs",
    source: "//nas/csimux-absent",
    options: "username=csi,password=csi,port=4450",
    words: "mount error(111): could not connect to nasUnable to find suitable address.",
    code: "unavailable",
  },
};
