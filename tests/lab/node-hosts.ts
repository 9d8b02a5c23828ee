import { existsSync } from "node:fs";
import { mkdir, rmdir, writeFile } from "node:fs/promises";
import type { CommandRunner } from "../../lib/io/runner.ts";
import type { InitiatorHost } from "../fakes/iscsi-cases.ts";
import type { FabricHost } from "../fakes/nvme-cases.ts";
import { run, waitFor } from "./run.ts";
import { iqn, makeTarget, removeTarget } from "./zfs/lio.ts";
import { makeSubsystem, nqn, removeSubsystem, resized, switchNamespace } from "./zfs/nvmet.ts";

// This machine as the real node of the cases of tests/fakes: its own kernel is the target.

async function makeDisk(name: string): Promise<void> {
  await run(["zfs", "create", "-s", "-V", "8M", `tank/${name}`]);
  await waitFor(name, async () => (existsSync(`/dev/zvol/tank/${name}`) ? true : undefined));
}

const sized = async (name: string, mebibytes: number): Promise<void> => {
  await run(["zfs", "set", `volsize=${mebibytes}M`, `tank/${name}`]);
};

/** The target may hold a zvol a moment longer. */
const destroyDisk = (name: string): Promise<true> =>
  waitFor(`the end of ${name}`, () =>
    run(["zfs", "destroy", `tank/${name}`]).then(
      () => true as const,
      () => undefined,
    ),
  );

/** Passes a node with open-iscsi and a target of LIO to `work`. */
export async function withInitiator<T>(runner: CommandRunner, work: (host: InitiatorHost) => Promise<T>): Promise<T> {
  const group = `/sys/kernel/config/target/iscsi/${iqn}/tpgt_1`;
  const iface = "csimux-two";
  const changeIface = (to: string) => run(["iscsiadm", "-m", "iface", "-I", iface, "-o", to]);
  await makeDisk("disk-cases");
  await changeIface("new");
  try {
    await makeTarget(["disk-cases"]);
    return await work({
      runner,
      root: "/",
      iqn,
      portal: "127.0.0.1:3260",
      iface,
      closed: "127.0.0.1:3299",
      async require(credentials) {
        await writeFile(`${group}/attrib/authentication`, credentials ? "1" : "0");
        if (!credentials) return;
        await writeFile(`${group}/auth/userid`, credentials.username);
        await writeFile(`${group}/auth/password`, credentials.password);
      },
      resize: mebibytes => sized("disk-cases", mebibytes),
    });
  } finally {
    await removeTarget();
    await changeIface("delete");
    await destroyDisk("disk-cases");
  }
}

/** Passes a node with NVMe over TCP and a subsystem of nvmet to `work`. */
export async function withFabric<T>(runner: CommandRunner, work: (host: FabricHost) => Promise<T>): Promise<T> {
  const names = ["disk-cases", "disk-cases-2"];
  const second = `/sys/kernel/config/nvmet/subsystems/${nqn}/namespaces/2`;
  for (const name of names) await makeDisk(name);
  try {
    await makeSubsystem(["disk-cases"], ["127.0.0.1"]);
    return await work({
      runner,
      root: "/",
      nqn,
      port: "127.0.0.1:4420",
      closed: "127.0.0.1:4499",
      async resize(mebibytes) {
        await sized("disk-cases", mebibytes);
        await resized(1);
      },
      async second(isThere) {
        if (!isThere) return await rmdir(second);
        await mkdir(second);
        await writeFile(`${second}/device_path`, "/dev/zvol/tank/disk-cases-2");
        await switchNamespace(2, true);
      },
    });
  } finally {
    await removeSubsystem();
    for (const name of names) await destroyDisk(name);
  }
}
