import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { below } from "../../../scripts/check/below.ts";
import { machinePid } from "../../../scripts/cluster/machine.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { eventually, kube, list, removeSoon } from "../kube.ts";

/** The folders of csimux in an empty storage system. */
const own = new Set(["v", "s", ".csimux", "work", "copies", "moments"]);

const leftBelow = (folder: string): readonly string[] =>
  existsSync(folder)
    ? below(folder)
        .filter(name => !own.has(basename(name)))
        .map(name => join(folder, name))
    : [];

/** Volumes of every storage system of the tests: the central connections, with folders at the first level, and the node. */
async function onStorages(): Promise<readonly string[]> {
  const names = await readdir(join(state, "csimux/data")).catch(() => []);
  const storages = [...names.map(name => join(state, "csimux/data", name)), join(state, "csimux/volumes")];
  return storages.flatMap(leftBelow);
}

/** Mounts of claims on the machine. */
async function mounted(): Promise<readonly string[]> {
  const lines = (await readFile(`/proc/${await machinePid()}/mountinfo`, "utf8")).split("\n");
  return lines.map(line => line.split(" ")[4] ?? "").filter(point => point.includes("/kubernetes.io~csi/pvc-"));
}

/** csimux's records of volumes on the node. */
async function records(): Promise<readonly string[]> {
  const files = leftBelow(join(state, "csimux"));
  return files.filter(
    file => /pvc-|by-hand/.test(file.slice(state.length)) && !/\/csimux\/(data|volumes)\//.test(file),
  );
}

/** All traces of volumes: in the cluster, on the storage systems, in the machine's mounts and in csimux's records. */
async function left(): Promise<readonly string[]> {
  const objects = await list("pv,volumesnapshotcontent,volumeattachment");
  const named = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  return [...named, ...(await onStorages()), ...(await mounted()), ...(await records())];
}

/** Waits until no trace of a volume is left. Throws with the traces. */
export async function nothingLeft(ms = 60_000): Promise<void> {
  let last: readonly string[] = [];
  try {
    await eventually("nothing of volumes is left", ms, async () => {
      last = await left();
      return last.length === 0;
    });
  } catch {
    throw new Error(`left over: ${last.slice(0, 20).join("; ")}`);
  }
}

/** Deletes all objects of the tests and waits until no trace of their volumes is left. */
export async function tidy(ms = 90_000): Promise<void> {
  for (const kind of ["pods", "volumesnapshots", "pvc"]) {
    const names = (await list(kind)).map(({ metadata }) => metadata.name);
    if (names.length > 0) await removeSoon(kind, ...names);
  }
  await eventually("pods and claims are gone", ms, async () => (await list("pods,pvc,volumesnapshots")).length === 0);
  await nothingLeft(ms);
  await kube("delete", "events", "--all", "-n", "default");
}
