import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import { foreignCases } from "../../../contract/driver-foreign.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import type { FakeSpdk } from "../../../fakes/spdk.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
/** The name of the subsystem of volume "a", which is there. */
const nqnOf = (rig: ZfsRig): string =>
  `nqn.2024-01.org.example:storage:a-${tagOf(rig.fake.find("tank/k/v/a")?.guid ?? "")}`;
async function open(strategy: object = {}): Promise<{ rig: ZfsRig; spdk: FakeSpdk }> {
  const rig = await opened({ driver: "zfs-generic-nvmeof", spdk: true, strategy });
  if (!rig.spdk) throw new Error("no SPDK");
  return { rig, spdk: rig.spdk };
}

test("every attribute of a device and of a subsystem reaches SPDK as its own argument, and the configuration is saved", async () => {
  const { rig, spdk } = await open({
    bdev: { type: "aio", attributes: { block_size: 4096, readonly: "false" } },
    subsystem: { attributes: { allow_any_host: 1, serial_number: "00012", max_namespaces: "8" } },
    listeners: [
      { trtype: "tcp", traddr: "10.0.0.5", trsvcid: 4420, adrfam: "ipv4" },
      { trtype: "tcp", traddr: "10.0.1.5", trsvcid: "4420", adrfam: "ipv4" },
    ],
  });
  const volume = await rig.open().create(volumeOf("a"), call);
  const nqn = nqnOf(rig);
  expect(volume.context).toMatchObject({ nqn, nsid: "1", transports: "tcp://nas:4420,tcp://nas2:4420" });
  expect(spdk.bdevs.get(nqn)).toMatchObject({ block_size: 4096, num_blocks: Number(gib) / 4096 });
  expect(spdk.subsystems.get(nqn)).toMatchObject({
    attributes: { nqn, allow_any_host: true, serial_number: "00012", max_namespaces: 8 },
    namespaces: [{ nsid: 1, bdev_name: nqn }],
    listen_addresses: [{ traddr: "10.0.0.5" }, { traddr: "10.0.1.5", trsvcid: "4420" }],
  });
  expect(readFileSync(join(rig.fake.folder, "spdk.json"), "utf8")).toContain(nqn);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
  expect(readFileSync(join(rig.fake.folder, "spdk.json"), "utf8")).not.toContain(nqn);
});

test("SPDK rescans a grown volume, and must show its new size", async () => {
  const { rig, spdk } = await open();
  await rig.open().create(volumeOf("a"), call);
  const nqn = nqnOf(rig);
  await rig.open().expand?.expand("a", { required: 2n * gib, limit: undefined }, call);
  expect(spdk.bdevs.get(nqn)?.num_blocks).toBe((2 * Number(gib)) / 512);
  spdk.refused.add("bdev_aio_rescan");
  const more = rig.open().expand?.expand("a", { required: 3n * gib, limit: undefined }, call);
  expect(await codeOf(more ?? Promise.resolve())).toBe("unavailable");
});

test.each(["bdev_aio_create", "nvmf_subsystem_add_ns", "nvmf_subsystem_add_listener"])(
  "a subsystem of which SPDK refuses %s is not reported as made, and is finished by the repeat",
  async method => {
    const { rig, spdk } = await open();
    spdk.refused.add(method);
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
    expect(await codeOf(getVolume(rig.open(), "a"))).toBe("not-found");
    spdk.refused.clear();
    await rig.open().create(volumeOf("a"), call);
    const nqn = nqnOf(rig);
    expect(spdk.subsystems.get(nqn)?.listen_addresses.length).toBe(1);
  },
);

test("while SPDK does not run, nothing is reported as made or gone", async () => {
  const { rig, spdk } = await open();
  await rig.open().create(volumeOf("a"), call);
  await spdk.close();
  expect(await codeOf(rig.open().create(volumeOf("b"), call))).toBe("unavailable");
  expect(await codeOf(rig.open().delete("a", call))).toBe("unavailable");
  expect(rig.fake.find("tank/k/v/a")).toBeDefined();
});

const savedIn = (rig: ZfsRig): string => join(rig.fake.folder, "spdk.json");

/** What is saved, by method and name. */
const savedOf = (rig: ZfsRig): readonly string[] => {
  const { subsystems } = JSON.parse(readFileSync(savedIn(rig), "utf8"));
  const all: readonly { method: string; params: { nqn?: string; name?: string } }[] = subsystems.flatMap(
    ({ config }: { config: object }) => config,
  );
  return all.map(({ method, params }) => `${method} ${params.nqn ?? params.name}`).sort();
};

test("what SPDK has not loaded again after a restart stays saved while other volumes are made and deleted", async () => {
  const { rig, spdk } = await open();
  for (const id of ["a", "b"]) await rig.open().create(volumeOf(id), call);
  const nqn = nqnOf(rig);
  const own = savedOf(rig).filter(each => each.endsWith(nqn));
  spdk.bdevs.clear();
  spdk.subsystems.clear();
  await rig.open().create(volumeOf("c"), call);
  expect(savedOf(rig).filter(each => each.endsWith(nqn))).toEqual(own);
  expect(own.length).toBe(4);
  await rig.open().delete("c", call);
  await rig.open().delete("b", call);
  expect(savedOf(rig)).toEqual(own);
});

test("a deletion that was cut off before SPDK's configuration was saved leaves nothing of the volume in it", async () => {
  const { rig, spdk } = await open();
  await rig.open().create(volumeOf("a"), call);
  const nqn = nqnOf(rig);
  // The program on the host was killed behind its last call.
  spdk.bdevs.delete(nqn);
  spdk.subsystems.delete(nqn);
  await rig.open().delete("a", call);
  expect(savedOf(rig)).toEqual([]);
});

test("a saved configuration that cannot be read is left as it is, and nothing is changed", async () => {
  const { rig, spdk } = await open();
  writeFileSync(savedIn(rig), "{");
  await expect(rig.open().create(volumeOf("a"), call)).rejects.toThrow(/spdk.json is not as SPDK saves it/);
  expect([readFileSync(savedIn(rig), "utf8"), spdk.subsystems.size]).toEqual(["{", 0]);
});

test.each(Object.entries(foreignCases))("with SPDK, %s", async (_, { run }) => {
  const { rig } = await open();
  await run(rig);
});
