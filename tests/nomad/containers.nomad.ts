import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { clientNames, folderOf, images, onClient, store } from "../../scripts/nomad/place.ts";
import { mounted, stored, tidy, unmounted } from "./left.ts";
import { allocations, eventually, inTask, nomad, run, running, stop, withFile } from "./nomad.ts";
import { folderConnection, healthy, privileges } from "./plugins.ts";
import { consumer, create, volumeInfo } from "./volumes.ts";

const examples = new URL("../../examples/nomad/", import.meta.url).pathname;

/** Replaces text that the file must contain. */
function replaced(text: string, from: RegExp, to: string): string {
  if (!from.test(text)) throw new Error(`the example no longer has ${from}`);
  return text.replace(from, () => to);
}

const mount = `mount {
          type   = "bind"
          source = "${onClient.store}"
          target = "${onClient.store}"
        }`;

/** A job of examples/nomad with the image of the tests, folders in place of NFS, and what this machine may give to a container. */
async function example(name: string): Promise<string> {
  let job = await readFile(join(examples, name), "utf8");
  job = replaced(job, /image\s+= ".*"/, `image = "${images.csimux}"\n        force_pull = false`);
  job = replaced(job, /privileged\s+= true.*\n/, `${privileges}\n        ${mount}\n`);
  for (const nas of name.startsWith("controller") ? ["nas1", "nas2"] : [])
    job = replaced(
      job,
      new RegExp(`driver: nfs-client\\nnfs:\\n  shareHost: ${nas}[\\s\\S]*?(?=proxy:\\n  perDriver)`),
      folderConnection(nas),
    );
  return job;
}

/** What the node plugin remembers of volumes on n1. */
const records = join(folderOf("n1"), "data/client/csi/node/csimux/.csimux");
const recorded = (): Promise<readonly string[]> => readdir(join(records, "volumes"));

const jobs = ["csimux-controller", "csimux-node"] as const;
const start = async (job: (typeof jobs)[number]) => run(await example(`${job.slice("csimux-".length)}.nomad.hcl`));

beforeAll(async () => {
  for (const name of ["nas1", "nas2"]) await mkdir(join(store, name), { recursive: true });
  for (const job of jobs) await start(job);
  await healthy("csimux", 1, clientNames.length);
});
afterEach(() => tidy("csimux"));
afterAll(() => stop(...jobs));

test.each(["controller.nomad.hcl", "node.nomad.hcl"])("Nomad accepts %s unchanged", async name => {
  const text = await readFile(join(examples, name), "utf8");
  expect(await withFile(text, file => nomad("job", "validate", file))).toContain("Job validation successful");
});

describe("the jobs of examples/nomad, with folders in place of NFS", () => {
  test("serve the volume of examples/nomad in the zone that it requires", async () => {
    await withFile(await readFile(join(examples, "volume.hcl"), "utf8"), file => nomad("volume", "create", file));
    expect((await volumeInfo("data")).ExternalID).toBe("v:nas1/data");
    const access = "multi-node-multi-writer";
    await run(consumer({ id: "use", volume: "data", access, run: "echo text > /data/f; sync" }));
    expect((await running("use"))[0]?.NodeName).toBe("n1");
    await eventually("it has written", async () => stored(join(store, "nas1")).includes("v/data/f"));
    await run(consumer({ id: "reader", volume: "data", access, readOnly: true }));
    expect((await running("reader"))[0]?.NodeName).toBe("n1");
    expect(await inTask("reader", "cat /data/f")).toBe("text\n");
    expect(await mounted("n1")).toHaveLength(4);
    await stop("use", "reader");
    await unmounted("n1");
  });

  test("keep the records on the client when a new allocation replaces the node plugin", async () => {
    await create({ id: "kept", connection: "nas1" });
    await run(consumer({ id: "use", volume: "kept", access: "multi-node-multi-writer", client: "n1" }));
    await running("use");
    const before = await recorded();
    expect(before).toHaveLength(1);
    const old = (await allocations("csimux-node")).map(({ ID }) => ID);
    await stop("csimux-node");
    await start("csimux-node");
    await healthy("csimux", 1, clientNames.length);
    for (const { ID, DesiredStatus } of await allocations("csimux-node"))
      if (DesiredStatus === "run") expect(old).not.toContain(ID);
    expect(await recorded()).toEqual(before);
    await run(consumer({ id: "second", volume: "kept", access: "multi-node-multi-writer", client: "n1" }));
    await running("second");
    await stop("use", "second");
    await unmounted("n1");
  });

  test("unmount volumes in containers when the records are lost as well", async () => {
    await create({ id: "lost", connection: "nas1" });
    await run(
      consumer({ id: "use", volume: "lost", access: "multi-node-multi-writer", client: "n1", run: "echo a > /data/f" }),
    );
    await running("use");
    await stop("csimux-node");
    await rm(records, { recursive: true });
    await start("csimux-node");
    await healthy("csimux", 1, clientNames.length);
    await run(consumer({ id: "second", volume: "lost", access: "multi-node-multi-writer", client: "n1" }));
    await running("second");
    expect(await inTask("second", "cat /data/f")).toBe("a\n");
    await stop("use", "second");
    await unmounted("n1");
  });
});
