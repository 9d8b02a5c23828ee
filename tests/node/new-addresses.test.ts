import { afterEach, beforeEach, expect, test } from "bun:test";
import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { protocols } from "../../lib/core/access.ts";
import { connectionFiles } from "../../lib/daemon/connection-files.ts";
import { MainFile } from "../../lib/daemon/main-file.ts";
import type { Attacher, Attachment, AttachRequest } from "../../lib/node/attach/attacher.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { atNewAddresses, contextAt } from "../../lib/node/attach/new-addresses.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { callOf, isRoot, keptLog, Lab, mountinfo, writer } from "./lab.ts";

const addresses = { "10.0.0.5": "10.0.0.9", "nas.old": "nas.new", "fd00::5": "fd00::9", four: "fd00::4" };

test.each<[string, string, string]>([
  ["server", "10.0.0.5", "10.0.0.9"],
  ["server", "NAS.old, 10.0.0.6", "nas.new, 10.0.0.6"],
  ["server", "fd00::5", "[fd00::9]"],
  ["server", "[fd00::5],four", "[fd00::9],[fd00::4]"],
  ["server", "10.0.0.50", "10.0.0.50"],
  ["server", "x10.0.0.5", "x10.0.0.5"],
  ["server", "10.0.0.5@tcp:10.0.0.6@tcp", "10.0.0.5@tcp:10.0.0.6@tcp"],
  ["portal", "10.0.0.5:3260", "10.0.0.9:3260"],
  ["portals", "10.0.0.4:3260,[fd00::5]:3261,four:1", "10.0.0.4:3260,[fd00::9]:3261,[fd00::4]:1"],
  ["transport", "tcp://10.0.0.5:4420?nr-io-queues=2", "tcp://10.0.0.9:4420?nr-io-queues=2"],
  ["transports", "rdma://[fd00::5]:4420,tcp://nas.old", "rdma://[fd00::9]:4420,tcp://nas.new"],
  ["share", "10.0.0.5", "10.0.0.5"],
  ["server", "constructor", "constructor"],
])("%s %j is reached as %j", (key, before, now) => {
  expect(contextAt({ [key]: before, share: "10.0.0.5" }, addresses)).toEqual({ share: "10.0.0.5", [key]: now });
});

test("a volume is attached, checked and grown at the new address only, and detached from both", async () => {
  const seen: [string, unknown][] = [];
  const note = async (what: string, { context }: Pick<Attachment, "context">) =>
    void seen.push([what, context["portal"]]);
  const attacher: Attacher = {
    access: protocols.iscsi,
    check: context => void note("check", { context }),
    attach: async wanted => {
      await note("attach", wanted);
      return { kind: "folder", path: "/" };
    },
    detach: attachment => note("detach", attachment),
    storageOf: context => {
      void note("storage", { context });
      return { name: "", addresses: [] };
    },
    health: async attachment => {
      await note("health", attachment);
      return [];
    },
    grow: async attachment => {
      await note("grow", attachment);
      return 0n;
    },
  };
  const moved = atNewAddresses(new Map([["iscsi", attacher]]), () => addresses).get("iscsi");
  const volume = { volumeId: "a", context: { portal: "10.0.0.5:3260", iqn: "iqn.a" }, notes: {} };
  const table = new MountTable([]);
  const wanted: AttachRequest = { ...volume, publishContext: {}, capability: writer, readonly: false, table };
  const call = callOf();
  moved?.check?.(volume.context, "a");
  await moved?.attach(wanted, async () => {}, call);
  await moved?.health?.(volume);
  await moved?.grow?.(volume, undefined, call);
  moved?.storageOf?.(volume.context);
  await moved?.detach?.(volume, [], call);
  const now = "10.0.0.9:3260";
  expect(seen).toEqual([
    ...["check", "attach", "health", "grow", "storage"].map(what => [what, now] as [string, unknown]),
    ["detach", `${now},10.0.0.5:3260`],
  ]);
  expect([moved?.restore, moved?.lockOf]).toEqual([undefined, undefined]);
});

const remedy = "if its storage has moved, add the old address to node.addresses in the main file of the nodes";
const foreignText = `the volume's address 10.0.0.5 is none of connection "nas" (nas.example); ${remedy}`;
const older = { node_attach_driver: "nfs", share: "/export/v/pvc" };

let lab: Lab;
let mount: MountProgram;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
  await mkdir(lab.at("connections"));
  await writeFile(lab.at("proxy.yaml"), `driver: proxy\nproxy: { configFolder: ${lab.at("connections")} }\n`);
  await writeFile(
    lab.at("connections", "nas.yaml"),
    `driver: nfs-client\nnfs: { shareHost: "\${env:NAS}", shareBasePath: /export, controllerBasePath: /x }\n`,
  );
});
afterEach(() => lab.close());

/** A node with these variables; its `stage` returns the failure for a volume with this address, "ok" if there is none. */
async function nodeWith(env: Readonly<Record<string, string>> = { NAS: "nas.example" }) {
  const { log, warnings } = keptLog();
  const resolver = { env: (name: string) => env[name], file: () => undefined };
  const main = await MainFile.load(lab.at("proxy.yaml"), resolver, log);
  const { runner } = mount;
  const known = attachers(lab.ports(runner));
  const files = connectionFiles(main, resolver);
  const node = lab.node(runner, mountinfo, { host: runner, attachers: known, ...files });
  const stage = async (server: string, volumeId = "v:nas/pvc"): Promise<string> => {
    const request = lab.stage("a", { volumeId, context: { ...older, server } });
    return node.stage(request, callOf(undefined, log)).then(
      () => "ok",
      (error: Error) => error.message,
    );
  };
  return { stage, warnings };
}

test.skipIf(!isRoot)(
  "a mount that fails at an address that is not the connection's says so; one warning for all",
  async () => {
    await mount.answer("mount.nfs: Connection timed out");
    const { stage, warnings } = await nodeWith();
    expect(await stage("nas.example")).toEndWith("mount.nfs: Connection timed out");
    expect(warnings).toEqual([]);
    for (let time = 0; time < 2; time++)
      expect(await stage("10.0.0.5")).toEndWith(`Connection timed out; ${foreignText}`);
    expect(warnings).toEqual([foreignText]);
    await mount.answer("mount.nfs: an incorrect mount option was specified");
    expect(await stage("10.0.0.5")).not.toContain("none of connection");
  },
);

test.skipIf(!isRoot)("a mount that works at such an address is not refused", async () => {
  const { stage, warnings } = await nodeWith();
  expect(await stage("10.0.0.5")).toBe("ok");
  expect(warnings).toEqual([foreignText]);
  expect((await mount.calls()).at(-1)).toContain("10.0.0.5:/export/v/pvc");
});

test.skipIf(!isRoot)(
  "nothing is said of a mapped address, without the file, or while its address is not known here",
  async () => {
    await mount.answer("mount.nfs: Connection timed out");
    const unset = await nodeWith({});
    expect(await unset.stage("10.0.0.5")).toEndWith("Connection timed out");
    await appendFile(lab.at("proxy.yaml"), "node:\n  addresses: { 10.0.0.5: 10.0.0.9 }\n");
    const mapped = await nodeWith();
    expect(await mapped.stage("10.0.0.5")).toEndWith("Connection timed out");
    expect(await mapped.stage("10.0.0.6")).toContain("10.0.0.6 is none of connection");
    await rm(lab.at("connections", "nas.yaml"));
    expect(await mapped.stage("10.0.0.7")).toEndWith("Connection timed out");
    expect(unset.warnings).toEqual([]);
  },
);
