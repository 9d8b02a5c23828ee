import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { deployCentral, drivers, namespace, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, kube, ready, remove } from "./kube.ts";
import { claim, snapshot, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { ask, grown } from "./scenes/life.ts";
import { nas, nasConnection, startNas, stopNas } from "./scenes/nas.ts";
import { csimux } from "./scenes/processes.ts";

beforeAll(async () => {
  await startNas();
  await deployCentral({ connections: { nas: nasConnection } }, "central-non-root");
  await apply(storageClass("now", drivers.central, "nas", { volumeBindingMode: "Immediate" }));
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "now");
  await undeploy("central-non-root");
  await stopNas();
});

test("an unprivileged controller", async () => {
  const controllers = await csimux("controller");
  expect(controllers).toHaveLength(2);
  for (const { pid } of controllers) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    expect(/^Uid:\t(\d+)/m.exec(status)?.[1]).toBe("65532");
    expect(/^CapBnd:\t(\w+)/m.exec(status)?.[1]).toBe("0000000000000000");
    expect(/^NoNewPrivs:\t(\d)/m.exec(status)?.[1]).toBe("1");
  }
  const said = await kube(
    "-n",
    namespace,
    "exec",
    "deploy/csimux-controller",
    "-c",
    "csimux",
    "--",
    "csimux",
    "status",
  );
  expect(said).toContain("truenas-api-nfs");
});

test("makes, grows, snapshots, restores, clones and deletes volumes of a TrueNAS over its API", async () => {
  await apply(claim("a", "now", { size: "1Gi" }));
  expect((await bound("a")).spec.csi.volumeAttributes.server).toBe(nas.host);
  await ask("a", "2Gi");
  await grown("a", "2Gi");
  await apply(snapshot("s", "a", "csimux"));
  await ready("s");
  const more = { size: "2Gi" };
  await apply(
    claim("b", "now", { ...more, from: { snapshot: "s" } }),
    claim("c", "now", { ...more, from: { claim: "a" } }),
  );
  const volumes = [await bound("b"), await bound("c")];
  await remove("pvc", "b", "c");
  for (const { metadata } of volumes)
    await eventually("it is gone", 60_000, async () => (await find("pv", metadata.name)) === undefined, "b");
});
