import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import bareTargets from "../../scripts/bench/bare-targets.py" with { type: "text" };
import { below } from "../../scripts/check/below.ts";
import { perTest } from "../contract/per-test.ts";
import { callWith, volumeOf } from "../contract/rig.ts";
import { zfsRig } from "../drivers/zfs/zfs-rig.ts";
import { pythonIn } from "../fakes/configfs.ts";

// The bare writes with which make bench-lab compares: they make what csimux makes, in the same model of the kernel.

const call = callWith();
const opened = perTest(zfsRig);

const kinds = [
  { driver: "zfs-generic-iscsi", kind: "lio", base: "iqn.2024-01.org.example:storage" },
  { driver: "zfs-generic-nvmeof", kind: "nvmet", base: "nqn.2024-01.org.example:storage" },
] as const;

test.each(kinds)("$driver: the bare writes make the same objects, save them, and remove them", async kind => {
  const rig = await opened({ driver: kind.driver });
  const folder = rig.fake.folder;
  const root = join(folder, kind.kind);
  // A link has any name, and a backstore any number. The rig has a second port; csimux also sets what is the kernel's default.
  const seen = () =>
    below(root)
      .filter(path => !/^ports\/2\/.*:|\/\.readonly$/.test(path))
      .map(path => (path.endsWith("/enable") ? `${path}: ${readFileSync(join(root, path), "utf8").trim()}` : path))
      .map(path =>
        path.replace(/iblock_\d+/, "iblock").replace(/(lun_0\/)(?!.*\/|alua_tg_pt_gp|statistics).*/, "$1link"),
      )
      .toSorted();
  const saved = join(folder, "bench.json");
  const bare = async (...words: readonly string[]) => {
    const argv = ["-I", "-S", "-c", bareTargets, kind.kind, root, saved, ...words];
    expect(await pythonIn(folder, process.env["PATH"] ?? "", argv, "")).toMatchObject({ err: "", code: 0 });
    return JSON.parse(readFileSync(`${saved}.bare`, "utf8")) as Readonly<Record<string, readonly unknown[]>>;
  };
  const driver = rig.open();
  const { context } = await driver.create(volumeOf("a"), call);
  const name = context["iqn"] ?? context["nqn"] ?? "";
  expect(name).toStartWith(`${kind.base}:`);
  const made = seen();
  await driver.delete("a", call);
  const empty = seen();
  const device = join(folder, "bench.disk");
  await Bun.write(device, "");
  const whole = await bare("make", name, device);
  expect(seen()).toEqual(made);
  expect(whole[kind.kind === "lio" ? "targets" : "subsystems"]).toHaveLength(1);
  const rest = await bare("remove", name, "-");
  expect(seen()).toEqual(empty);
  expect(Object.values(rest).flat()).toEqual([]);
  expect(made.length).toBeGreaterThan(empty.length);
});

test("further targets are added to what is saved, and removed from it", async () => {
  const rig = await opened({ driver: "zfs-generic-iscsi" });
  const folder = rig.fake.folder;
  await rig.open().create(volumeOf("a"), call);
  const [root, saved] = [join(folder, "lio"), join(folder, "lio-saveconfig.json")];
  const run = async (...words: readonly string[]) => {
    const argv = ["-I", "-S", "-c", bareTargets, "lio", root, saved, ...words];
    expect(await pythonIn(folder, process.env["PATH"] ?? "", argv, "")).toMatchObject({ err: "", code: 0 });
    const { targets, storage_objects } = JSON.parse(readFileSync(saved, "utf8"));
    return [
      targets.length,
      storage_objects.length,
      below(join(root, "iscsi")).filter(path => path.endsWith("lun_0")).length,
    ];
  };
  for (const n of [1, 2, 3]) await Bun.write(join(folder, `ram${n}`), "");
  const device = join(folder, "ram");
  expect(await run("fill", "iqn.2025-01.x:other", device, "1", "1")).toEqual([2, 2, 2]);
  expect(await run("fill", "iqn.2025-01.x:other", device, "2", "3")).toEqual([4, 4, 4]);
  await rig.open().create(volumeOf("b"), call);
  expect(await run("empty", "iqn.2025-01.x:other", "-", "3")).toEqual([2, 2, 2]);
});
