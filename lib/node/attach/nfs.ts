import { protocols } from "../../core/access.ts";
import { otherFlags } from "../mount/flags.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";
import type { Attacher, AttacherPorts } from "./attacher.ts";
import { serversOf, shareOf, storageOfShare } from "./context.ts";

/** The port of NFS servers (RFC 7530, 3.1), and the default of version 3. */
const port = 2049;

/** Error patterns of mount.nfs(8). */
const patterns: MountErrorPatterns = [
  [/rpc\.statd is not running/i, "failed-precondition"],
  [/requested NFS version or transport protocol is not supported/i, "failed-precondition"],
  [/mount system call failed/i, "unavailable"],
];

/**
 * NFS 3 and 4.x: `server` and `share` of the context, as democratic-csi writes them; nfs(5) lists the flags. One
 * attempt per call, because callers retry: mount.nfs(8) would retry for two minutes without reporting the reason.
 */
export const nfs = ({ hostMounts }: Pick<AttacherPorts, "hostMounts">): Attacher => ({
  access: protocols.nfs,
  storageOf: context => storageOfShare("nfs", port, context),
  async attach(wanted) {
    const [source, ...alternatives] = serversOf(wanted).map(server => `${server}:${shareOf(wanted)}`);
    return {
      kind: "share",
      fsType: wanted.capability.fsType ?? "nfs",
      source: source ?? "",
      alternatives,
      options: ["retry=0", ...otherFlags(wanted.capability.mountFlags)],
      onHost: hostMounts,
      errorPatterns: patterns,
    };
  },
});
