import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { folderOf, onClient, store } from "../../scripts/nomad/place.ts";
import { mounted, stored, tidy, unmounted } from "./left.ts";
import { eventually, inTask, nomad, run, running, stop } from "./nomad.ts";
import { folderConnection, healthy, type Kind, pluginJob } from "./plugins.ts";
import { consumer, create, register, snapshots, volumeInfo } from "./volumes.ts";

const name = "org.democratic-csi.one";

/** The jobs of democratic-csi's docs/nomad.md (1.9.0): arguments and mount_dir as there, the node name as in docs/Nomad/examples. */
const original = (kind: Kind): string =>
  pluginJob({
    job: `csimux-${kind}`,
    id: name,
    kind,
    runs: "docker",
    // Volumes of local-hostpath belong to the client of the controller.
    ...(kind === "controller" && { client: "n1" as const }),
    mountDir: "/csi-data",
    args: [
      "--csi-version=1.5.0",
      `--csi-name=${name}`,
      "--driver-config-file=${NOMAD_TASK_DIR}/driver-config-file.yaml",
      "--log-level=debug",
      `--csi-mode=${kind}`,
      "--server-socket=/csi-data/csi.sock",
      ...(kind === "controller" ? ["--server-address=0.0.0.0", "--server-port=9000"] : []),
    ],
    files: { "local/driver-config-file.yaml": `instance_id:\n${folderConnection("one")}` },
  });

/** The folder of the plugin on n1, in which csimux keeps its records, unlike democratic-csi. */
const records = join(folderOf("n1"), `data/client/csi/node/${name}/.csimux`);

async function start(): Promise<void> {
  for (const kind of ["controller", "node"] as const) await run(original(kind));
  await healthy(name, 1, 2);
}

/** Leaves what democratic-csi leaves: mounts below Nomad's folder and folders of volumes, and neither records nor marks. */
async function becomeOriginal(): Promise<void> {
  await stop("csimux-node", "csimux-controller");
  expect(existsSync(records)).toBe(true);
  await rm(records, { recursive: true });
  for (const own of await readdir(join(store, "one")))
    if (own !== "v" && own !== "s") await rm(join(store, "one", own), { recursive: true });
}

beforeAll(async () => {
  await mkdir(join(store, "one/v"), { recursive: true });
  await start();
});
afterEach(() => tidy(name));
afterAll(() => stop("csimux-node", "csimux-controller"));

test("a single-file deployment with democratic-csi's arguments continues with its jobs, mounts and ids when the image is changed", async () => {
  // Registered as democratic-csi's documentation says, and as its own CreateVolume.
  await mkdir(join(store, "one/v/dem1"), { mode: 0o777 });
  const context = `context {\n  node_attach_driver = "hostpath"\n  path = "${onClient.store}/one/v/dem1"\n}`;
  await register({ id: "dem1", plugin: name, more: `external_id = "dem1"\n${context}` });
  await create({ id: "dem2", plugin: name, size: "64MiB" });
  expect((await volumeInfo("dem2")).ExternalID).toBe("dem2");
  const access = "multi-node-multi-writer";
  for (const id of ["dem1", "dem2"]) {
    await run(consumer({ id: `use-${id}`, volume: id, access, client: "n1", run: `echo ${id} > /data/f; sync` }));
    await running(`use-${id}`);
  }
  const before = await mounted("n1");
  expect(before).toHaveLength(4);
  await becomeOriginal();

  await start();
  expect(await mounted("n1")).toEqual(before);
  for (const id of ["dem1", "dem2"]) {
    expect(await inTask(`use-${id}`, "cat /data/f; echo more >> /data/f")).toBe(`${id}\n`);
    await run(consumer({ id: `next-${id}`, volume: id, access, client: "n1" }));
    await run(consumer({ id: `reader-${id}`, volume: id, access, readOnly: true, client: "n1" }));
    await running(`next-${id}`);
    await running(`reader-${id}`);
    expect(await inTask(`reader-${id}`, "cat /data/f")).toBe(`${id}\nmore\n`);
  }
  await nomad("volume", "snapshot", "create", "dem2", "snap");
  expect((await snapshots(name)).map(({ ExternalSourceVolumeID: source }) => source)).toEqual(["dem2"]);
  await stop(...["dem1", "dem2"].flatMap(id => [`use-${id}`, `next-${id}`]));
  await eventually("the readers are left", async () => (await mounted("n1")).length === 4);
  await stop("reader-dem1", "reader-dem2");
  await unmounted("n1");
  expect(stored(join(store, "one"))).toContain("v/dem1/f");
});
