import { expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LioSettings, targetStep } from "../../../../lib/drivers/zfs/targets/host-targets.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { pause } from "../../../waiting.ts";
import { around, type ZfsRig, zfsRig } from "../zfs-rig.ts";
import { backstore, base, fault, iqns, lio, nameOf, savedPath, savedTargets } from "./lio-places.ts";

// Targets of LIO on a host that restarts, is broken, or on which a person works: what is saved is never lost.

const call = callWith();
const open = perTest(() => zfsRig({ driver: "zfs-generic-iscsi" }));

/** A host with the volume "a". */
async function withVolume(): Promise<ZfsRig> {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

const theirs = {
  fabric: "iscsi",
  wwn: "iqn.2003-01.org.other:x",
  tpgs: [{ tag: 1, luns: [{ index: 0, storage_object: "/backstores/fileio/theirs" }] }],
};

/** A foreign target in the saved configuration, of which the kernel has nothing. */
function saveTheirs(rig: ZfsRig): void {
  const saved = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  saved.storage_objects.unshift({ plugin: "fileio", name: "theirs", dev: "/srv/disk", later: { version: 3 } });
  saved.targets.push(theirs);
  saved.fabric_modules = [{ name: "iscsi", discovery_enable_auth: true }];
  writeFileSync(savedPath(rig), JSON.stringify(saved, null, 2));
}

test("a host that has not restored its targets loses none of them by a change", async () => {
  const rig = await withVolume();
  await rig.open().create(volumeOf("b"), call);
  saveTheirs(rig);
  const before = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  // As after a start of the host, before anything was restored.
  rmSync(lio(rig), { recursive: true });
  await rig.open().create(volumeOf("c"), call);
  const made = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  expect(made.targets.slice(0, 3)).toEqual(before.targets);
  expect(made.storage_objects.slice(0, 3)).toEqual(before.storage_objects);
  expect(savedTargets(rig)).toHaveLength(4);
  await rig.open().delete("b", call);
  await rig.open().delete("c", call);
  const kept = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  expect(kept.targets).toEqual([before.targets[0], theirs]);
  expect(kept.storage_objects).toEqual([before.storage_objects[0], before.storage_objects[1]]);
  expect(kept.fabric_modules).toEqual(before.fabric_modules);
});

test("a host that restarts at any moment of a change loses no saved target", async () => {
  const rig = await withVolume();
  saveTheirs(rig);
  const others = [`${base}:${nameOf(rig)}`, theirs.wwn];
  for (const verb of ["create", "delete"] as const)
    for (let last = 1; ; last++) {
      if (verb === "delete") await rig.open().create(volumeOf("b"), call);
      fault(rig, `die ${last}`);
      const work = verb === "create" ? rig.open().create(volumeOf("b"), call) : rig.open().delete("b", call);
      const code = await codeOf(work as Promise<unknown>);
      fault(rig, "");
      expect([verb, last, savedTargets(rig)]).toEqual([verb, last, expect.arrayContaining(others)]);
      rmSync(lio(rig), { recursive: true, force: true });
      if (code === "ok") break;
      expect([verb, last, code]).toEqual([verb, last, "unavailable"]);
    }
  expect(savedTargets(rig)).toEqual(others);
});

test("a saved target that cannot come back blocks no other volume", async () => {
  const rig = await withVolume();
  for (const id of ["b", "c"]) await rig.open().create(volumeOf(id), call);
  // A device that udev shows late, and a zvol that was destroyed by hand.
  rmSync(lio(rig, "iscsi", `${base}:${nameOf(rig, "b")}`), { recursive: true });
  rmSync(join(backstore(rig, "b"), ".."), { recursive: true });
  await rig.open().create(volumeOf("d"), call);
  await rig.open().delete("a", call);
  await rig.open().health?.restore?.("b", call);
  expect(savedTargets(rig)).toEqual(["b", "c", "d"].map(id => `${base}:${nameOf(rig, id)}`));
  for (const id of ["b", "c"]) {
    rmSync(lio(rig, "iscsi", `${base}:${nameOf(rig, id)}`), { recursive: true });
    rmSync(join(backstore(rig, id), ".."), { recursive: true });
  }
  for (const id of ["b", "c"]) await rig.open().health?.restore?.(id, call);
  expect(iqns(rig)).toHaveLength(3);
});

test("the holder of targetcli's lock is named, and a call that ends waits no longer", async () => {
  const rig = await withVolume();
  rig.fake.ownProcesses = true;
  const path = join(rig.fake.folder, "targetcli.lock");
  const person = Bun.spawn(["flock", "--no-fork", path, "sleep", "60"], { stdout: "pipe" });
  try {
    while (!existsSync(path) || Bun.spawnSync(["flock", "-n", path, "true"]).exitCode === 0) await pause(5);
    const left = new AbortController();
    const leaving = codeOf(rig.open().create(volumeOf("b"), callWith(left.signal)));
    while (!Bun.spawnSync(["pgrep", "-f", `configfs.py ${rig.fake.folder}`]).stdout.length) await pause(5);
    left.abort();
    expect(await leaving).not.toBe("ok");
    const impatient = around(rig.host, ({ steps }, run) => {
      const [first, ...rest] = steps.map(each => ({
        ...each,
        stdin: each.stdin?.replace('"seconds":30', '"seconds":0.1') as string,
      }));
      return first ? run({ steps: [first, ...rest] }) : run();
    });
    const refused = rig.on(impatient).create(volumeOf("c"), call);
    await expect(refused).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/targetcli\.lock is held by (?:flock|sleep), process \d+/),
    });
  } finally {
    person.kill();
    await person.exited;
  }
  expect(iqns(rig)).toEqual([`${base}:${nameOf(rig)}`]);
});

test("a saved configuration that cannot be read is not replaced", async () => {
  const rig = await withVolume();
  writeFileSync(savedPath(rig), '{"storage_objects": [');
  expect(await codeOf(rig.open().create(volumeOf("b"), call))).toBe("unavailable");
  expect(await codeOf(rig.open().delete("a", call))).toBe("unavailable");
  expect(readFileSync(savedPath(rig), "utf8")).toBe('{"storage_objects": [');
});

test("a program on the host whose caller has left ends while it waits for the lock, and changes nothing", async () => {
  const rig = await withVolume();
  const { folder } = rig.fake;
  const path = join(folder, "targetcli.lock");
  const person = Bun.spawn(["flock", "--no-fork", path, "sleep", "60"]);
  try {
    while (Bun.spawnSync(["flock", "-n", path, "true"]).exitCode === 0) await pause(5);
    const settings: LioSettings = {
      ...{ kind: "lio", zfs: ["zfs"], privileged: [], root: lio(rig), lock: path, saved: [savedPath(rig)] },
      ...{ blocks: folder, udev: folder, group: {}, auth: {}, block: {} },
    };
    const target = { name: `${base}:b`, backstore: "b", device: folder, serial: "b", tagged: true };
    const { argv, stdin } = targetStep("make", settings, { target, finished: false });
    const [, ...words] = argv.filter(word => typeof word === "string");
    // As sshd closes the pipe when a connection ends.
    const program = spawn(join(rig.fake.bin, "python3"), words, { stdio: ["pipe", "pipe", "ignore"] });
    const ended = new Promise(resolve => program.once("exit", resolve));
    program.stdin.end(stdin);
    program.stdout.destroy();
    await ended;
    expect(Bun.spawnSync(["flock", "-n", path, "true"]).exitCode).not.toBe(0);
  } finally {
    person.kill();
    await person.exited;
  }
  expect(iqns(rig)).toEqual([`${base}:${nameOf(rig)}`]);
});
