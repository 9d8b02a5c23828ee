import { expect } from "bun:test";
import { apply, bound, eventually, get, inPod, kube, ready, remove, running } from "../kube.ts";
import { claim, pod, snapshot } from "../objects.ts";

/** Optional features of a class. */
interface Abilities {
  readonly snapshots: string;
  readonly grows: boolean;
}

/** Requests another size of a claim. */
export const ask = (name: string, size: string): Promise<string> =>
  kube("patch", "pvc", name, "-p", JSON.stringify({ spec: { resources: { requests: { storage: size } } } }));

/** Waits until a claim has a size. */
export const grown = (name: string, size: string): Promise<boolean> =>
  eventually(
    `${name} has ${size}`,
    120_000,
    async () => (await get("pvc", name)).status.capacity.storage === size,
    name,
  );

/** Writes to a volume, moves it to another pod, expands, snapshots, restores and clones it, and deletes the source first. The caller deletes the rest. */
export async function lifeOf(storageClass: string, { snapshots, grows }: Abilities): Promise<void> {
  await apply(
    claim("a", storageClass),
    pod("writer", "a", { run: "echo hello > /data/f; mkdir -p /data/d; echo deep > /data/d/g; ln -s f /data/l; sync" }),
  );
  await running("writer");
  await bound("a");
  await eventually("the pod has written", 30_000, async () => (await inPod("writer", "ls /data")).includes("l"));
  if (grows) {
    await ask("a", "128Mi");
    await grown("a", "128Mi");
  }
  await remove("pod", "writer");
  await apply(pod("reader", "a"));
  await running("reader");
  expect(await inPod("reader", "cat /data/f /data/l /data/d/g")).toBe("hello\nhello\ndeep\n");
  await apply(snapshot("s", "a", snapshots));
  await ready("s");
  await inPod("reader", "echo later > /data/f; sync");
  const size = grows ? "128Mi" : "64Mi";
  await apply(
    ...[claim("restored", storageClass, { size, from: { snapshot: "s" } }), pod("restored", "restored")],
    ...[claim("cloned", storageClass, { size, from: { claim: "a" } }), pod("cloned", "cloned")],
  );
  await running("restored", "cloned");
  expect(await inPod("restored", "cat /data/f /data/d/g; readlink /data/l")).toBe("hello\ndeep\nf\n");
  expect(await inPod("cloned", "cat /data/f /data/d/g")).toBe("later\ndeep\n");
  await inPod("restored", "echo mine > /data/f");
  expect(await inPod("reader", "cat /data/f")).toBe("later\n");
  await remove("pod", "reader", "restored", "cloned");
  await remove("pvc", "a");
  await apply(claim("after", storageClass, { size, from: { snapshot: "s" } }), pod("after", "after"));
  await running("after");
  expect(await inPod("after", "cat /data/f")).toBe("hello\n");
}
