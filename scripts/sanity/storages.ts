import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDsm } from "../../tests/fakes/dsm/double.ts";
import { environment, FakeObjectiveFs } from "../../tests/fakes/mount-objectivefs.ts";
import type { Sandbox } from "../sandbox.ts";

/** A fake storage system for a run of the suite. */
export interface Storage {
  /** Objects left in it. */
  left(): Promise<readonly string[]>;
  stop(): Promise<void>;
  /** Environment variables for csimux, such as PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** A prefix of csimux's argv. */
  readonly wrap?: readonly string[];
  /** Secrets of the suite's calls, by the suite's names for them. */
  readonly secrets?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** A DSM with the connections "syno", "syno-nfs" and "syno-smb". */
export async function beginDsm({ connections }: Sandbox): Promise<Storage> {
  const dsm = await startDsm();
  const http = { protocol: "http", host: "127.0.0.1", port: dsm.port, username: "csi", password: "secret-pw" };
  const lunTemplate = { type: "BLUN", dev_attribs: [{ dev_attrib: "can_snapshot", enable: 1 }] };
  const iscsi = { targetPortal: "127.0.0.1", baseiqn: "iqn.2000-01.com.synology:csi.", lunTemplate };
  const file = { driver: "synology-iscsi", httpConnection: http, iscsi };
  await writeFile(join(connections, "syno.yaml"), JSON.stringify(file));
  const nfs = { shareHost: "127.0.0.1", allowedHosts: ["127.0.0.1"] };
  const folders = { driver: "synology-nfs", httpConnection: http, nfs };
  await writeFile(join(connections, "syno-nfs.yaml"), JSON.stringify(folders));
  const smb = { shareHost: "127.0.0.1", users: ["csi-nodes"] };
  await writeFile(
    join(connections, "syno-smb.yaml"),
    JSON.stringify({ driver: "synology-smb", httpConnection: http, smb }),
  );
  return { left: async () => dsm.state.remains(), stop: () => dsm.close() };
}

/** A fake mount.objectivefs with the connection "ofs"; nodes get the keys when they stage. */
export async function beginObjectiveFs({ connections, folder }: Sandbox): Promise<Storage> {
  const fake = await FakeObjectiveFs.at(join(folder, "ofs"));
  const file = { driver: "objectivefs", objectivefs: { pool: "csi", env: environment } };
  await writeFile(join(connections, "ofs.yaml"), JSON.stringify(file));
  const keys = Object.entries(environment).map(([name, value]) => [`env.${name}`, value]);
  return {
    left: () => fake.filesystems("csi"),
    stop: async () => {},
    env: { PATH: `${fake.bin}:${process.env["PATH"]}` },
    secrets: { NodeStageVolumeSecret: Object.fromEntries(keys) },
  };
}
