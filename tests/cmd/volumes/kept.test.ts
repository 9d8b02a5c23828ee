import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { listOf, pv, volumes } from "./volumes-run.ts";

let fake: FakeZfs;
let main = "";
const path = process.env["PATH"];
const bell = String.fromCharCode(7);
/** What the driver sets on a finished volume. */
const marks = ["managed_resource", "provision_success"].flatMap(key => ["-o", `democratic-csi:${key}=true`]);

beforeAll(async () => {
  fake = await fakeZfs();
  const folder = join(fake.folder, "etc");
  mkdirSync(join(folder, "connections"), { recursive: true });
  const connection = (name: string) =>
    writeFileSync(
      join(folder, `connections/${name}.yaml`),
      `driver: zfs-local-dataset
zfs:
  datasetParentName: tank/${name}/v
  detachedSnapshotsDatasetParentName: tank/${name}/s
`,
    );
  // Holds that the account may not see.
  const first = join(fake.folder, "first");
  mkdirSync(first);
  const denied = `case "$*" in holds*tank/second*) echo "permission denied" >&2; exit 1 ;; esac`;
  writeFileSync(join(first, "zfs"), `#!/bin/sh\n${denied}\nexec ${fake.bin}/zfs "$@"\n`, { mode: 0o755 });
  process.env["PATH"] = `${first}:${fake.bin}:${path}`;
  for (const each of ["pool", "second"]) connection(each);
  writeFileSync(join(folder, "connections/hand.yaml"), "driver: node-manual\n");
  main = join(folder, "proxy.yaml");
  writeFileSync(main, `driver: proxy\nproxy:\n  configFolder: ${folder}/connections\n  nodeTopology: { type: node }\n`);
  const make = (name: string) => {
    fake.zfs("create", "-p", ...marks, name);
  };
  for (const parent of ["tank/pool/v", "tank/second/v"]) {
    fake.zfs("create", "-p", parent);
    make(`${parent}/pvc-1`);
    fake.zfs("snapshot", `${parent}/pvc-1@nightly`);
    fake.zfs("hold", `tag ${bell}`, `${parent}/pvc-1@nightly`);
  }
});
afterAll(async () => {
  process.env["PATH"] = path;
  await fake.close();
});

/** Makes a clone of the volume, as the driver does. */
function clone(id: string): void {
  const from = `tank/pool/v/pvc-1@volume-source-for-volume-${id}`;
  fake.zfs("snapshot", from);
  fake.zfs("clone", ...marks, from, `tank/pool/v/${id}`);
}

const state = () => fake.with(pools => JSON.stringify(pools.all()));

describe("csimux volumes", () => {
  test("shows what a connection keeps, why, and what frees it; another connection that cannot tell hides nothing", async () => {
    clone("pvc-2");
    const before = state();
    const { out, code } = await volumes(listOf(pv("pvc-2", "v:pool/pvc-2")), "--config", main, "--pvs", "-");
    expect(state()).toBe(before);
    const [, block = ""] = out.split("pool keeps:\n");
    expect(block.replaceAll(/\n {4}(?!zfs)|(?<=as root, or)\n {2}/g, " ")).toBe(
      `  tank/pool/v/pvc-1@nightly: snapshot that csimux did not take; needed by the hold tag \\u0007; the program or person that took it has to free it
    zfs release 'tag \\u0007' tank/pool/v/pvc-1@nightly
  tank/pool/v/pvc-1@volume-source-for-volume-pvc-2: snapshot for the clone v:pool/pvc-2; ZFS destroys it with the clone
second: what it keeps is unknown: cannot read clones and holds: permission denied; let the account run zfs as root, or with sudo without a password
hand: the driver node-manual cannot list its volumes
`,
    );
    // Two volumes have no PersistentVolume; what is unknown about the rest changes nothing.
    expect([out.startsWith("3 volumes, 3 connections"), code]).toEqual([true, 1]);
    expect((await volumes("", "--config", main)).code).toBe(0);
  });

  test("gives programs all of it", async () => {
    const { out } = await volumes(listOf(pv("pvc-2", "v:pool/pvc-2")), "--config", main, "--pvs", "-", "--json");
    const { kept, connections, volumes: listed } = JSON.parse(out);
    const source = { kind: "volume", name: "v:pool/pvc-2", claim: "shop/claim-pvc-2" };
    expect(kept[1]).toEqual({
      ...{ connection: "pool", what: "clone-source", name: "tank/pool/v/pvc-1@volume-source-for-volume-pvc-2" },
      ...{
        of: "v:pool/pvc-2",
        bytes: null,
        neededBy: [source],
        more: 0,
        frees: "ZFS destroys it with the clone",
        commands: [],
      },
    });
    expect(kept[0]).toMatchObject({ of: null, neededBy: [{ kind: "hold", name: `tag ${bell}`, claim: null }] });
    const problems = connections.map((each: Record<string, unknown>) => [each["name"], each["keptProblem"] !== null]);
    expect(Object.fromEntries(problems)).toEqual({ pool: false, second: true, hand: false });
    expect([kept.length, listed.length]).toEqual([2, 3]);
  });

  test("shows people twenty things of a connection, and how many others there are", async () => {
    for (let n = 10; n < 35; n++) clone(`many-${n}`);
    const { out } = await volumes("", "--config", main);
    const [, block = ""] = out.split("pool keeps:\n");
    expect(block.match(/^ {2}tank\//gm)?.length).toBe(20);
    expect(block).toContain("  and 7 more; --json shows them\n");
    const { kept } = JSON.parse((await volumes("", "--config", main, "--json")).out);
    expect(kept).toHaveLength(27);
  });
});
