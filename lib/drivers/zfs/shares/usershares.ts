import { CsiError } from "../../../core/errors.ts";
import { findingsOf } from "../../../health/finding.ts";
import { CommandError } from "../../../io/runner.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import type { ShareProtocol } from "../../store.ts";
import type { ZfsVolume } from "../volume.ts";
import type { Zfs } from "../zfs.ts";
import { usershareFile, usershareName } from "./properties.ts";

const reading: Pick<Step, "reads" | "onFailure" | "maxBytes"> = {
  ...{ reads: true, onFailure: "go-on", maxBytes: 64 << 20 },
};

/** The folder that OpenZFS looks into (lib/libshare/smb.h, SHARE_DIR). */
const inFolder: Step = { name: "usershares", argv: ["ls", "/var/lib/samba/usershares"], ...reading };

/** Samba's own answer, also where smb.conf(5) has another `usershare path`; it takes much longer. */
const ofSamba: Step = { name: "usershares", argv: ["net", "usershare", "list", "--long"], ...reading };

/** Volumes without a usershare. */
type UnsharedVolumes = Readonly<Record<"proved" | "unproved", readonly ZfsVolume[]>>;

const fileOf = ({ dataset }: ZfsVolume): string => usershareFile(dataset);

/**
 * A share by `sharesmb` whose usershares are proved: zfs create and zfs share succeed although `net usershare add` has failed, for
 * example because smbd does not answer (OpenZFS 2.1 to 2.3, lib/libshare/os/linux/smb.c, smb_enable_share_one). Where an account may not
 * see the usershares, or the host has no net(8), nothing is known of them, and nothing is refused.
 */
export function withUsershares(
  share: ShareProtocol<ZfsVolume>,
  zfs: Pick<Zfs, "share">,
  host: StorageHost,
): ShareProtocol<ZfsVolume> {
  async function listed(step: Step, signal: AbortSignal): Promise<ReadonlySet<string> | undefined> {
    const outputs = await host.script({ steps: [step] }, signal).catch((error: unknown) => {
      if (error instanceof CommandError && ["missing", "denied"].includes(error.failure)) return undefined;
      throw error;
    });
    const output = outputs?.get(step.name);
    return output?.exitCode === 0 ? new Set(output.stdout.split("\n").map(line => line.toLowerCase())) : undefined;
  }

  /** The volumes that have no usershare; `unproved`: those that have none in the folder, and of which Samba did not answer. */
  async function unshared(volumes: readonly ZfsVolume[], signal: AbortSignal): Promise<UnsharedVolumes> {
    const without = (names: ReadonlySet<string>) => volumes.filter(volume => !names.has(fileOf(volume)));
    const found = await listed(inFolder, signal);
    const unproved = found ? without(found) : [];
    if (found && unproved.length === 0) return { proved: [], unproved };
    const all = await listed(ofSamba, signal);
    return all ? { proved: without(all), unproved: [] } : { proved: [], unproved };
  }

  return {
    ...share,
    async publish(volume, spec, keep, call) {
      const { proved, unproved } = await unshared([volume], call.signal);
      if (proved.length + unproved.length > 0) {
        await zfs.share?.(volume.dataset, call.signal);
        if ((await unshared([volume], call.signal)).proved.length > 0)
          throw new CsiError(
            "unavailable",
            `Samba has no usershare ${usershareName(volume.dataset)} for ${volume.dataset}, although zfs share reports success; check that smbd runs and answers, and that usershares are allowed (net usershare list)`,
          );
      }
      return (await share.publish?.(volume, spec, keep, call)) ?? {};
    },
    async look(volumes, { signal }) {
      if (volumes.length === 0) return new Map();
      const message = (volume: ZfsVolume) => `Samba has no usershare ${usershareName(volume.dataset)}`;
      return findingsOf(
        (await unshared(volumes, signal)).proved.map(volume => [
          volume.id,
          [{ reason: "ShareMissing" as const, message: message(volume) }],
        ]),
      );
    },
  };
}
