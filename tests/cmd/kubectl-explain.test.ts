import { describe, expect, test } from "bun:test";
import type { KubectlAnswer } from "../fakes/kubectl.ts";
import { controller, csimuxPods, list, node, pod, run } from "./kubectl-world.ts";

/** A claim (PersistentVolumeClaim v1). */
const claim = (spec: object, phase: string): KubectlAnswer => ({
  to: "get pvc db -n shop",
  out: { metadata: { name: "db", namespace: "shop" }, spec, status: { phase } },
});
const storageClass = (connection: string, more = {}): KubectlAnswer => ({
  to: "get storageclass nas",
  out: { metadata: { name: "nas" }, provisioner: "csimux.storage", parameters: { connection }, ...more },
});
const now = "2026-01-01T00:00:00Z";
const good = { name: "nas1", state: "good", driver: "nfs-client", suspended: false, accessibleTopology: [], inUse: 0 };
const statusWith = (...connections: readonly object[]) => ({
  ...{ name: "csimux.storage", version: "1", commit: "c", modes: ["controller"], started: now, now },
  ...{ connections, groups: [], health: [], calls: [], jobs: [] },
});
const status = (where: string, ...connections: readonly object[]): KubectlAnswer => ({
  to: `exec -n storage ${where} -c csimux -- csimux status`,
  out: statusWith(...connections),
});
/** Events of an object (Event v1). */
const events = (kind: string, name: string, ...messages: readonly string[]): KubectlAnswer => ({
  to: `involvedObject.kind=${kind},involvedObject.name=${name}`,
  out: list(
    ...messages.map((message, at) => ({
      ...{ type: "Warning", reason: "Failed", message, lastTimestamp: `2026-01-01T00:0${at}:00Z` },
    })),
  ),
});
const users = (...pods: readonly object[]): KubectlAnswer => ({ to: "get pods -n shop", out: list(...pods) });
const user = (nodeName: string | undefined, phase: string, conditions: readonly object[] = []) => ({
  metadata: { name: "db-0" },
  spec: { nodeName, volumes: [{ name: "data", persistentVolumeClaim: { claimName: "db" } }] },
  status: { phase, conditions },
});
const quiet = { to: "get events", out: list() };
const asked = { storageClassName: "nas" };
const controllers = csimuxPods(controller, node);
const lateBinding = { volumeBindingMode: "WaitForFirstConsumer" };

describe("kubectl csimux explain says where a pending claim hangs", () => {
  test.each([
    ["no class", [claim({}, "Pending"), status("csimux-controller-1", good)], /class: the claim names no class/],
    [
      "an absent class",
      [claim(asked, "Pending"), status("csimux-controller-1", good)],
      /class: the class nas does not exist/,
    ],
    [
      "a class of another driver",
      [
        claim(asked, "Pending"),
        storageClass("nas1", { provisioner: "other.driver" }),
        status("csimux-controller-1", good),
      ],
      /class: the class is of the driver other.driver, and csimux serves csimux.storage/,
    ],
    [
      "a connection without a file",
      [claim(asked, "Pending"), storageClass("nas9"), status("csimux-controller-1", good)],
      /connection: csimux has no connection or group "nas9"/,
    ],
    [
      "a storage system that does not answer",
      [
        ...[claim(asked, "Pending"), storageClass("nas1")],
        status("csimux-controller-1", {
          ...good,
          state: "unreachable",
          storage: { state: "unreachable", at: now, reason: "connect ECONNREFUSED" },
        }),
      ],
      /connection: cannot check the storage: connect ECONNREFUSED/,
    ],
    [
      "a class that waits for a pod",
      [claim(asked, "Pending"), storageClass("nas1", lateBinding), status("csimux-controller-1", good)],
      /pod: the class waits for the first pod/,
    ],
    [
      "the last error of the provisioner",
      [
        ...[claim(asked, "Pending"), storageClass("nas1"), status("csimux-controller-1", good)],
        events("PersistentVolumeClaim", "db", "old", "the dataset is full"),
      ],
      /provisioner: Failed: the dataset is full/,
    ],
    [
      "a pod that fits no node",
      [
        ...[claim(asked, "Pending"), storageClass("nas1", lateBinding), status("csimux-controller-1", good)],
        users(
          user(undefined, "Pending", [{ type: "PodScheduled", status: "False", message: "0/3 nodes are available" }]),
        ),
      ],
      /provisioner: pod db-0: 0\/3 nodes are available/,
    ],
  ])("%s", async (_, answers, text) => {
    const { code, out } = await run(["explain", "shop/db"], [controllers, ...answers, users(), quiet]);
    expect(out.replace(/\n +/g, " ")).toMatch(new RegExp(`It hangs here: ${text.source}`));
    expect(code).toBe(1);
  });

  test("a controller that does not run", async () => {
    const waiting = [{ name: "csimux", state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } } }];
    const down = pod("csimux-controller-1", "controller", { ready: false, statuses: waiting });
    const { out } = await run(
      ["explain", "shop/db"],
      [csimuxPods(down), claim(asked, "Pending"), storageClass("nas1"), users(), quiet],
    );
    expect(out).toContain("It hangs here: csimux: no controller pod is ready");
    expect(out).toContain("ImagePullBackOff no such image");
  });
});

test.each([
  ["its flag", ["-n", "shop"], "shop", false],
  ["the context", [], "staging", true],
  ["the name", ["-n", "other"], "shop", false],
] as const)("the namespace of a claim is that of %s, as with kubectl", async (from, flags, namespace, asks) => {
  const context = { to: "config view --minify", out: "staging" };
  const { calls } = await run(["explain", from === "the name" ? "shop/db" : "db", ...flags], [context]);
  expect(calls.find(({ argv }) => argv[0] === "get")?.argv).toEqual([
    "get",
    "pvc",
    "db",
    "-n",
    namespace,
    "-o",
    "json",
  ]);
  expect(calls.some(({ argv }) => argv[0] === "config")).toBe(asks);
});

test("explain does not guess a namespace that kubectl does not tell", async () => {
  const { code, err, calls } = await run(["explain", "db"], [{ to: "config view", err: "error: no context", code: 1 }]);
  expect([code, err]).toEqual([2, expect.stringContaining("error: no context); give it with -n")]);
  expect(calls).toHaveLength(1);
});

describe("kubectl csimux explain says where the pod of a bound claim hangs", () => {
  const bound = claim({ ...asked, volumeName: "pvc-1" }, "Bound");
  const pv = {
    to: "get pv pvc-1",
    out: { spec: { csi: { driver: "csimux.storage", volumeHandle: "v:nas1/pvc-1" } }, status: { phase: "Bound" } },
  };
  const exists = { to: "-- nas1 pvc-1", out: "kind: PersistentVolume" };
  /** CSINode v1. */
  const registered = { to: "get csinode w1", out: { spec: { drivers: [{ name: "csimux.storage" }] } } };
  /** VolumeAttachment v1. */
  const attachment = (nodeName: string, status: object) => ({
    to: "get volumeattachments",
    out: list({ spec: { attacher: "csimux.storage", nodeName, source: { persistentVolumeName: "pvc-1" } }, status }),
  });
  const attached = attachment("w1", { attached: true });
  const starting = users(user("w1", "Pending"));
  const base = [controllers, bound, pv, status("csimux-controller-1", good)];

  test.each([
    [
      "the storage is gone",
      [
        {
          to: "csimux volumes adopt",
          err: 'csimux: volume "pvc-1" does not exist\ncommand terminated with exit code 1',
          code: 1,
        },
      ],
      /storage: volume "pvc-1" does not exist/,
    ],
    [
      "attaching fails",
      [exists, attachment("w1", { attached: false, attachError: { message: "rpc error" } }), registered],
      /attachment: rpc error/,
    ],
    [
      "another node has it",
      [exists, attachment("w2", { attached: true }), registered],
      /attachment: it is still attached to w2/,
    ],
    ["the node does not know the driver", [exists, attached], /node: the node does not know the driver csimux.storage/],
    [
      "the node cannot mount",
      [
        ...[exists, attached, registered],
        status("csimux-node-w1", {
          ...{ ...good, state: "unknown" },
          lastStorageFailure: {
            method: "NodeStageVolume",
            at: now,
            code: "unavailable",
            message: "mount.nfs: timed out",
          },
        }),
      ],
      /node: NodeStageVolume 0s ago: unavailable: mount.nfs: timed out/,
    ],
    [
      "kubelet reports it",
      [exists, attached, registered, status("csimux-node-w1"), events("Pod", "db-0", "MountVolume.SetUp failed")],
      /kubelet: Failed: MountVolume.SetUp failed/,
    ],
  ])("%s", async (_, answers, text) => {
    const { code, out } = await run(["explain", "shop/db"], [...base, ...answers, starting, quiet]);
    expect(out.replace(/\n +/g, " ")).toMatch(new RegExp(`It hangs here: ${text.source}`));
    expect(code).toBe(1);
  });

  test("nothing is wrong with a running pod, and the way is shown", async () => {
    const running = users(user("w1", "Running", [{ type: "Ready", status: "True" }]));
    const { code, out } = await run(["explain", "shop/db"], [...base, exists, running, quiet]);
    expect(out).toContain("Nothing is wrong that can be seen from here.");
    for (const text of [
      "shop/db is Bound",
      "v:nas1/pvc-1",
      "nas1 (nfs-client): good",
      "the volume exists",
      "db-0 is Running on w1",
    ])
      expect(out).toContain(text);
    expect(code).toBe(0);
  });

  test("what the user may not read is said and is not taken for an error", async () => {
    const forbidden = {
      to: "get volumeattachments",
      err: 'Error from server (Forbidden): User "jo" cannot list',
      code: 1,
    };
    const { out } = await run(
      ["explain", "shop/db"],
      [...base, exists, forbidden, registered, status("csimux-node-w1"), starting, quiet],
    );
    expect(out).toContain("(unknown)");
    expect(out).toContain("Nothing is wrong that can be seen from here.");
  });

  test("a claim that does not exist is exit code 2", async () => {
    const { code, err } = await run(["explain", "shop/db"], [controllers]);
    expect(err).toContain("(NotFound)");
    expect(code).toBe(2);
  });
});

test("kubectl csimux explain never passes text of an object as a flag, to csimux or to kubectl", async () => {
  const controllers = csimuxPods(controller);
  const flag = { to: "csimux volumes adopt", err: 'csimux: volume "--help" does not exist', code: 1 };
  const pv = {
    to: "get pv pvc-1",
    out: { spec: { csi: { driver: "csimux.storage", volumeHandle: "v:nas1/--help" } }, status: { phase: "Bound" } },
  };
  const base = [controllers, pv, status("csimux-controller-1", good), quiet, flag, users()];
  const { out, calls } = await run(
    ["explain", "shop/db"],
    [claim({ ...asked, volumeName: "pvc-1" }, "Bound"), ...base],
  );
  expect(out).toContain('volume "--help" does not exist');
  const adopt = calls.map(each => each.argv.join(" ")).filter(each => each.includes("volumes adopt"));
  expect(adopt.length).toBe(1);
  expect(adopt[0]).toEndWith(" -- nas1 --help");
  const named = await run(["explain", "shop/db"], [claim({ ...asked, volumeName: "--raw=/x" }, "Bound"), ...base]);
  expect(named.out).toContain("this cannot be the name of a pv");
  expect(named.calls.filter(each => each.argv.includes("--raw=/x"))).toEqual([]);
});
