import { expect, test } from "bun:test";
import { protocols } from "../../lib/core/access.ts";
import type { Attacher, Attachment, AttachRequest } from "../../lib/node/attach/attacher.ts";
import { atNewAddresses, contextAt } from "../../lib/node/attach/new-addresses.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { callOf, writer } from "./lab.ts";

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
