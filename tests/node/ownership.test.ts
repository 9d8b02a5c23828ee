import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { callOf, calm, codeOf, isRoot, keptLog, Lab, local, mountinfo } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

/** The kubelet's mount points for a volume, and the folder of its file for each. */
const places: readonly (readonly [string, string, string])[] = [
  ["a pod's mount", "pods/1/volumes/kubernetes.io~csi/pv/mount", "pods/1/volumes/kubernetes.io~csi/pv"],
  ["a staged mount", "plugins/kubernetes.io/csi/x/0a1b/globalmount", "plugins/kubernetes.io/csi/x/0a1b"],
  ["an older staged mount", "plugins/kubernetes.io/csi/pv/pv-1/globalmount", "plugins/kubernetes.io/csi/pv/pv-1"],
];

describe.skipIf(!isRoot)("without a record", () => {
  const unmount = (place: string) =>
    place.includes("/pods/")
      ? lab.node().unpublish({ volumeId: "a", targetPath: place }, callOf())
      : lab.node().unstage({ volumeId: "a", stagingPath: place }, callOf());

  test.each(places)("%s is unmounted for the volume in the kubelet's file", async (_, at, folder) => {
    await lab.bind(await lab.source("a"), lab.at(at));
    await writeFile(lab.at(folder, "vol_data.json"), JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
    await unmount(lab.at(at));
    expect(await lab.mounted()).toEqual([]);
  });

  test.each(places)("%s that may belong to another driver stays", async (_, at, folder) => {
    await lab.bind(await lab.source("a"), lab.at(at));
    const others = [
      '{"volumeHandle":"b","driverName":"csimux"}',
      '{"volumeHandle":"a","driverName":"another.example"}',
    ];
    const unclear = ['{"volumeHandle":"a"}', '{"volumeHandle":["a"],"driverName":"csimux"}'];
    for (const text of [undefined, "{", "[]", ...others, ...unclear]) {
      if (text !== undefined) await writeFile(lab.at(folder, "vol_data.json"), text);
      expect(await codeOf(unmount(lab.at(at)))).toBe("failed-precondition");
    }
    expect(await lab.mounted()).toEqual([at]);
  });

  test("only the block volume that democratic-csi staged is unstaged", async () => {
    const staging = lab.at("plugins/kubernetes.io/csi/volumeDevices/staging/pv");
    await mkdir(lab.at("plugins/kubernetes.io/csi/volumeDevices/pv/data"), { recursive: true });
    await mkdir(staging, { recursive: true });
    await writeFile(`${staging}/block_device`, "");
    execFileSync("mount", ["--bind", "/dev/null", `${staging}/block_device`]);
    await writeFile(
      lab.at("plugins/kubernetes.io/csi/volumeDevices/pv/data/vol_data.json"),
      JSON.stringify({ volumeHandle: "a", driverName: "csimux" }),
    );
    await unmount(staging);
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(staging)).toEqual([]);
  });
});

describe.skipIf(!isRoot)("a record", () => {
  const staging = () => lab.at("staging", "a");
  const unstage = () => codeOf(lab.node().unstage({ volumeId: "a", stagingPath: staging() }, callOf()));
  const unpublish = () =>
    codeOf(lab.node().unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf()));
  const change = async (edit: (record: Record<string, unknown>) => object) => {
    const [file = ""] = await readdir(lab.at("records"));
    const record = JSON.parse(await readFile(lab.at("records", file), "utf8"));
    await writeFile(lab.at("records", file), JSON.stringify({ ...record, ...edit(record) }));
  };
  const foreign = async (at: string) => {
    await mkdir(at, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "foreign", at]);
  };

  beforeEach(async () => {
    await lab.source("a");
    await lab.node().stage(lab.stage("a"), callOf());
  });

  test("that does not match the mount at its path unmounts nothing, neither staged nor published", async () => {
    await lab.node().publish(lab.publish("a"), callOf());
    for (const at of [lab.at("pods", "a", "mount"), staging()]) {
      await local.run({ argv: ["umount", at] }, calm);
      await foreign(at);
    }
    expect([await unpublish(), await unstage()]).toEqual(["failed-precondition", "failed-precondition"]);
    const kept = { kind: "share", fsType: "nfs", source: "foreign" };
    const disk = { kind: "device", path: "/dev/sda", number: "8:0", identity: "x" };
    const mounted = { source: "foreign", number: "8:0", fsType: "tmpfs2" };
    for (const attached of [kept, disk, { ...disk, mounted }]) {
      await change(() => ({ attached, shows: undefined }));
      expect([attached.kind, await unpublish(), await unstage()]).toEqual([
        attached.kind,
        "failed-precondition",
        "failed-precondition",
      ]);
    }
    expect((await lab.mounted()).length).toBe(2);
  });

  test("does not count if the kubelet names another volume or driver for the mount", async () => {
    const place = "plugins/kubernetes.io/csi/x/0a1b";
    const stagingPath = lab.at(place, "globalmount");
    await lab.node().unstage({ volumeId: "a", stagingPath: staging() }, callOf());
    await lab.node().stage(lab.stage("a", { stagingPath }), callOf());
    const again = () => codeOf(lab.node().unstage({ volumeId: "a", stagingPath }, callOf()));
    for (const told of [
      { volumeHandle: "b", driverName: "csimux" },
      { volumeHandle: "a", driverName: "another.example" },
    ]) {
      await writeFile(lab.at(place, "vol_data.json"), JSON.stringify(told));
      expect([told, await again()]).toEqual([told, "failed-precondition"]);
    }
    await writeFile(lab.at(place, "vol_data.json"), JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
    expect(await again()).toBe("ok");
    expect(await lab.mounted()).toEqual([]);
  });

  test("from before its folder was renamed, or of a version that recorded less, still matches", async () => {
    await lab.node().publish(lab.publish("a"), callOf());
    await rename(lab.at("base", "a"), lab.at("base", "renamed"));
    await change(({ published }) => ({
      published: (published as readonly object[]).map(entry => ({ ...entry, shows: undefined })),
    }));
    expect([await unpublish(), await unstage()]).toEqual(["ok", "ok"]);
    expect(await lab.mounted()).toEqual([]);
  });
});

test.skipIf(!isRoot)(
  "a volume of a driver that was taken over is recognised by the name and the id of that driver",
  async () => {
    const at = "plugins/kubernetes.io/csi/org.old/0a1b";
    const stagingPath = lab.at(at, "globalmount");
    await lab.bind(await lab.source("pvc-1"), stagingPath);
    const unstage = (volumeId: string) => codeOf(lab.node().unstage({ volumeId, stagingPath }, callOf()));
    await writeFile(lab.at(at, "vol_data.json"), JSON.stringify({ volumeHandle: "pvc-1", driverName: "org.old" }));
    expect([await unstage("v:c2/pvc-1"), await unstage("pvc-1")]).toEqual([
      "failed-precondition",
      "failed-precondition",
    ]);
    expect(await unstage("v:c1/pvc-1")).toBe("ok");
  },
);

describe.skipIf(!isRoot)("a new process", () => {
  test("removes preparations of an earlier process without touching the volumes behind them", async () => {
    const source = await lab.source("a");
    await writeFile(`${source}/file`, "");
    await lab.bind(source, lab.at("records", "0123.mount"));
    await lab.bind(source, lab.at("records", "0123.mount"));
    const { log, warnings } = keptLog();
    await lab.node().begin(log);
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(await readdir(source)).toEqual(["file"]);
    expect(warnings).toEqual([]);
  });

  test("logs records without mounts and mounts without records, and changes neither", async () => {
    await lab.source("a");
    await lab.source("b");
    await lab.node().stage(lab.stage("a"), callOf());
    await lab.node().stage(lab.stage("b"), callOf());
    await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
    const foreign = lab.at("plugins/kubernetes.io/csi/x/0a1b/globalmount");
    await lab.bind(await lab.source("c"), foreign);
    const said: (object | undefined)[] = [];
    const { log } = keptLog();
    await lab.node().begin({ ...log, info: (_, fields) => void said.push(fields) });
    expect(said).toEqual([{ recorded: 2 }, { volumes: ["a"] }, { unknown: expect.arrayContaining([foreign]) }]);
    expect(await readdir(lab.at("records"))).toHaveLength(2);
    expect((await lab.mounted()).length).toBe(2);
  });
});

test.skipIf(!isRoot)("a pipe in place of a record blocks no call", async () => {
  await lab.source("a");
  await lab.node().stage(lab.stage("a"), callOf());
  const [file = ""] = await readdir(lab.at("records"));
  execFileSync("rm", [lab.at("records", file)]);
  execFileSync("mkfifo", [lab.at("records", file)]);
  const { log, warnings } = keptLog();
  await lab.node().stage(lab.stage("a"), callOf(calm, log));
  expect(warnings).toHaveLength(1);
  await lab.node().begin(log);
  await lab.node().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
  expect(await lab.mounted()).toEqual([]);
});

describe.skipIf(!isRoot)("with node.hostpath.folders", () => {
  const nodeOf = (...folders: readonly string[]) => {
    const ports = lab.ports(local, { hostFolders: async () => folders });
    return lab.node(local, mountinfo, { attachers: attachers(ports) });
  };
  const stageAt = (path: string, ...folders: readonly string[]) => {
    const context = { node_attach_driver: "hostpath", path };
    return codeOf(nodeOf(...folders).stage(lab.stage("a", { context }), callOf()));
  };

  test("a volume below one of them is staged, with or without links in its path", async () => {
    const source = await lab.source("a");
    await symlink(lab.at("base"), lab.at("link"));
    expect(await stageAt(source, "/nowhere", lab.at("base"))).toBe("ok");
    expect(await stageAt(source, lab.at("link"))).toBe("ok");
    expect(await stageAt(lab.at("link", "a"), lab.at("base"))).toBe("ok");
  });

  test("another folder is refused, even behind a planted link, and so is the configured folder itself", async () => {
    const source = await lab.source("a");
    await mkdir(lab.at("secret", "keys"), { recursive: true });
    await symlink(lab.at("secret"), lab.at("base", "planted"));
    for (const path of [lab.at("secret", "keys"), lab.at("base", "planted", "keys"), lab.at("base")]) {
      expect(await stageAt(path, lab.at("base"))).toBe("permission-denied");
    }
    for (const path of [dirname(source), `${source}x`]) expect(await stageAt(path, source)).toBe("permission-denied");
    expect(await lab.mounted()).toEqual([]);
  });
});
