import { afterAll, beforeAll, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { localRunner } from "../../lib/io/local.ts";
import { realKernel } from "../fakes/configfs.ts";
import { type CaseHost, hostCases, modelOf } from "../fakes/host-cases.ts";
import { initiatorCases } from "../fakes/iscsi-cases.ts";
import { refusedMounts } from "../fakes/mount-words.ts";
import { modelFabric, modelInitiator } from "../fakes/node-models.ts";
import { fabricCases } from "../fakes/nvme-cases.ts";
import { emptyBytes } from "../fakes/truenas/properties.ts";
import { fakeZfs } from "../fakes/zfs/pools.ts";
import { withFabric, withInitiator } from "./node-hosts.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// Compares the models of zfs, the NFS server, the kernel's configfs, open-iscsi and NVMe hosts, on which other tests rely, with the real
// ones, case by case.

const limitMs = 600_000;
const runner = localRunner({ env: { PATH: "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin" } });

const mounted = "/mnt/csimux-cases";

const real: CaseHost = {
  runner,
  kernel: realKernel,
  dataset: "tank/csimux-cases",
  lio: "/sys/kernel/config/target",
  nvmet: "/sys/kernel/config/nvmet",
  devices: "/dev/zvol",
  place: name => `/${name}`,
  async nfsClient(name) {
    await run(["mkdir", "-p", mounted]);
    await run(["mount", "-t", "nfs4", "-o", "vers=4.2", `127.0.0.1:/${name}`, mounted]);
    const holder = spawn("sh", ["-c", `exec 3>${mounted}/file; echo open; exec sleep 3600`], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    return {
      async end() {
        holder.kill();
        await once(holder, "close");
        await run(["umount", mounted]);
        await run(["rmdir", mounted]);
      },
    };
  },
};

let before: ReadonlySet<string>;

beforeAll(async () => {
  before = await traces();
  await run(["modprobe", "-a", "target_core_mod", "iscsi_target_mod", "nvmet", "nvmet-tcp"]);
  await run(["zfs", "create", real.dataset]);
}, limitMs);

afterAll(async () => {
  await run(["zfs", "destroy", "-r", real.dataset]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

test.each(Object.entries(hostCases))(
  "the model and the real thing: %s",
  async (title, seenOn) => {
    const fake = await fakeZfs(2 ** 40, false);
    try {
      fake.zfs("create", "tank/cases");
      const model = await seenOn(modelOf(fake));
      expect([title, await seenOn(real)]).toEqual([title, model]);
    } finally {
      await fake.close();
    }
  },
  limitMs,
);

test.each(Object.entries(initiatorCases))(
  "the model and a real initiator: %s",
  async (title, seenOn) => {
    const seen = await withInitiator(runner, seenOn);
    expect([title, seen]).toEqual([title, await modelInitiator(seenOn)]);
  },
  limitMs,
);

test.each(Object.entries(fabricCases))(
  "the model and a real NVMe host: %s",
  async (title, seenOn) => {
    const seen = await withFabric(runner, seenOn);
    expect([title, seen]).toEqual([title, await modelFabric(seenOn)]);
  },
  limitMs,
);

test(
  "mounts that fail say what the tests have them say",
  async () => {
    const [folder, others, own] = ["/mnt/csimux-refused", "/srv/csimux-others", "/srv/csimux-own"];
    await run(["mkdir", "-p", folder, others, own]);
    await run(["exportfs", "-o", "ro", `192.0.2.1:${others}`, `127.0.0.1:${own}`]);
    const said: Record<string, string> = {};
    for (const [title, { type, source, options, words }] of Object.entries(refusedMounts)) {
      const argv = ["mount", "-n", "-t", type, "-o", options, source.replace("nas", "127.0.0.1"), folder] as const;
      const { exitCode, stderr } = await runner.run({ argv, timeoutMs: 120_000 }, AbortSignal.timeout(120_000));
      const lines = stderr.replaceAll("127.0.0.1", "nas").split("\n");
      said[title] = `${exitCode} ${lines.find(line => line === words) ?? stderr}`;
    }
    await run(["exportfs", "-u", `192.0.2.1:${others}`, `127.0.0.1:${own}`]);
    await run(["rmdir", folder, others, own]);
    expect(said).toEqual(
      Object.fromEntries(Object.entries(refusedMounts).map(([title, { words }]) => [title, `32 ${words}`])),
    );
  },
  limitMs,
);

test(
  "an empty dataset of a pool with blocks of 4 KiB takes what the double of TrueNAS says",
  async () => {
    const [pool, file] = ["csimux-blocks", "/var/tmp/csimux-blocks"];
    await run(["truncate", "-s", "1G", file]);
    await run(["zpool", "create", "-o", "ashift=12", pool, file]);
    try {
      await run(["zfs", "create", `${pool}/a`]);
      await run(["zfs", "create", "-s", "-V", "64M", `${pool}/b`]);
      const properties = "used,referenced,refreservation";
      const said = await run(["zfs", "get", "-Hp", "-o", "value", properties, `${pool}/a`, `${pool}/b`]);
      const { FILESYSTEM, VOLUME } = emptyBytes;
      expect(said.trim().split("\n").map(Number)).toEqual([FILESYSTEM, FILESYSTEM, 0, VOLUME, VOLUME, 0]);
    } finally {
      await run(["zpool", "destroy", pool]);
      await run(["rm", file]);
    }
  },
  limitMs,
);
