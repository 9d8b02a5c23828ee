import { expect, test } from "bun:test";
import { mkdir, readFile } from "node:fs/promises";
import { refuseUnseenPods } from "../../cmd/serve/node.ts";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import { MountTable, refuseUnseen } from "../../lib/node/mount/mount-table.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo } from "./lab.ts";

const sh = async (script: string, ...words: string[]): Promise<string> => {
  const { exitCode, stdout, stderr } = await local.run({ argv: ["sh", "-euc", script, "sh", ...words] }, calm);
  if (exitCode !== 0) throw new Error(stderr);
  return stdout;
};

/** A mount of a folder on itself, in which mounts are shared with other namespaces, or not. */
async function mounted(lab: Lab, propagation: "shared" | "private"): Promise<string> {
  const folder = lab.at("kubelet");
  await mkdir(`${folder}/pods`, { recursive: true });
  await sh('mount --bind "$1" "$1"; mount "--make-$2" "$1"', folder, propagation);
  return folder;
}

/** unshare(1), --propagation; as the mountPropagation of Kubernetes: Bidirectional, HostToContainer, None. */
test.skipIf(!isRoot).each(["unchanged", "slave", "private"])(
  "a folder counts as unseen exactly if others do not see what is mounted there in a namespace that is %s",
  async propagation => {
    const lab = await Lab.open();
    try {
      const folder = await mounted(lab, "shared");
      const script = 'mount -t tmpfs test "$1/pods"; cat /proc/self/mountinfo';
      const inside = await sh(`unshare --mount --propagation ${propagation} sh -euc '${script}' sh "$1"`, folder);
      const isSeen = (await lab.mounted()).includes("kubelet/pods");
      expect(isSeen).toBe(propagation === "unchanged");
      const table = new MountTable(parseMountinfo(inside));
      expect(await codeOf((async () => refuseUnseen(folder, table))())).toBe(isSeen ? "ok" : "failed-precondition");
    } finally {
      await lab.close();
    }
  },
);

test.skipIf(!isRoot).each([
  ["private", true, "failed-precondition"],
  ["private", false, "ok"],
  ["shared", true, "ok"],
] as const)("a %s folder of pods, csimux in a pod %p: publishing answers %s", async (propagation, isApart, code) => {
  const lab = await Lab.open();
  try {
    await lab.source("a");
    const targetPath = `${await mounted(lab, propagation)}/pods/a/mount`;
    const node = lab.node(local, mountinfo, { isApart });
    expect([...(await node.protocols())]).toEqual([]);
    await node.stage(lab.stage("a"), callOf());
    expect([...(await node.protocols())]).toEqual(["hostpath"]);
    const request = lab.publish("a", { targetPath });
    expect(await codeOf(node.publish(request, callOf()))).toBe(code);
    expect((await lab.mounted()).includes("kubelet/pods/a/mount")).toBe(code === "ok");
    // What is there is removed nevertheless.
    await node.unpublish(request, callOf());
    const mounts = parseMountinfo(await readFile(mountinfo, "utf8"));
    const folder = lab.at("kubelet");
    const own = mounts.filter(({ at }) => at === "/" || lab.folder.startsWith(at) || at.startsWith(folder));
    expect(await codeOf((async () => refuseUnseenPods(own))())).toBe(
      propagation === "private" ? "failed-precondition" : "ok",
    );
  } finally {
    await lab.close();
  }
});

const [root, kubelet] = ["1 0 8:1 / / rw - overlay o rw", "2 1 8:2 /var/lib/kubelet /var/lib/kubelet rw"];
test.each([
  ["is shared", `${root}\n${kubelet} shared:7 - ext4 d rw`, "ok"],
  ["receives mounts only", `${root}\n${kubelet} master:7 - ext4 d rw`, "failed-precondition"],
  ["is elsewhere", root, "ok"],
  ["is below the host's root", `${root}\n2 1 8:2 / /host/var/lib/kubelet rw master:7 - ext4 d rw`, "ok"],
  [
    "has a mount of its own for pods",
    `${root}\n${kubelet} - ext4 d rw\n3 2 8:2 / /var/lib/kubelet/pods rw shared:8 - ext4 d rw`,
    "ok",
  ],
])("NodeGetInfo judges the kubelet's folder: it %s", async (_, table, code) => {
  expect(await codeOf((async () => refuseUnseenPods(parseMountinfo(table)))())).toBe(code);
});
