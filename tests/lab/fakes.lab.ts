import { afterAll, beforeAll, expect, test } from "bun:test";
import { localRunner } from "../../lib/io/local.ts";
import { realKernel } from "../fakes/configfs.ts";
import { type CaseHost, hostCases, modelOf } from "../fakes/host-cases.ts";
import { fakeZfs } from "../fakes/zfs/pools.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// Compares the models of zfs and of the kernel's configfs, on which other tests rely, with the real ones, case by case.

const limitMs = 600_000;
const runner = localRunner({ env: { PATH: "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin" } });

const real: CaseHost = {
  runner,
  kernel: realKernel,
  dataset: "tank/csimux-cases",
  lio: "/sys/kernel/config/target",
  nvmet: "/sys/kernel/config/nvmet",
  devices: "/dev/zvol",
};

let before: ReadonlySet<string>;

beforeAll(async () => {
  before = await traces();
  await run(["modprobe", "-a", "target_core_mod", "iscsi_target_mod", "nvmet"]);
  await run(["zfs", "create", real.dataset]);
}, limitMs);

afterAll(async () => {
  await run(["zfs", "destroy", "-r", real.dataset]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

test.each(Object.entries(hostCases))(
  "the model and the real thing: %s",
  async (title, seenOn) => {
    const fake = await fakeZfs();
    try {
      fake.zfs("create", "tank/cases");
      const model = await seenOn(modelOf(fake, runner));
      expect([title, await seenOn(real)]).toEqual([title, model]);
    } finally {
      await fake.close();
    }
  },
  limitMs,
);
