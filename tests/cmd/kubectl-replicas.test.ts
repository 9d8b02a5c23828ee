import { expect, test } from "bun:test";
import { connection } from "../page/answers.ts";
import { csimuxPods, list, pod, run } from "./kubectl-world.ts";

const pods = csimuxPods(
  pod("csimux-controller-1", "controller", { node: "w1" }),
  pod("csimux-controller-2", "controller", { node: "w2" }),
  pod("csimux-node-w1", "node"),
);
const at = (seconds: number) => new Date(Date.UTC(2026, 10, 24, 12, 0, seconds)).toISOString();
const health = (since: string) => ({
  ...{ seenBy: "controller", of: "storage", connection: "nas2", reason: "PoolDegraded", severity: "degraded" },
  ...{ message: "a disk", since },
});
const statusOf = (more: object) => ({
  ...{ name: "csimux.storage", version: "1", commit: "a", modes: ["controller"], started: at(0), now: at(50) },
  ...{ groups: [], health: [], calls: [], jobs: [], ...more },
});
const one = statusOf({
  connections: [
    connection("nas1", { state: "unreachable", since: at(20), lastSuccess: { method: "CreateVolume", at: at(5) } }),
    connection("nas2"),
  ],
  health: [health(at(30))],
});
const two = statusOf({
  connections: [
    connection("nas1", { state: "unreachable", since: at(12), lastSuccess: { method: "DeleteVolume", at: at(9) } }),
    connection("nas2", {
      lastStorageFailure: { method: "CreateSnapshot", at: at(40), code: "internal", message: "no" },
    }),
  ],
  health: [health(at(10))],
  calls: [{ method: "CreateSnapshot", connection: "nas2", since: at(45) }],
});
const lease = (name: string, holderIdentity: string) => ({ metadata: { name }, spec: { holderIdentity } });
const answers = [
  pods,
  { to: "exec -n storage csimux-controller-1", out: one },
  { to: "exec -n storage csimux-controller-2", out: two },
  {
    to: "get leases -n storage",
    out: list(
      lease("csimux-storage", "csimux-controller-1"),
      lease("external-attacher-leader-csimux-storage", "csimux-controller-2"),
      lease("external-snapshotter-leader-csimux-storage", "csimux-controller-2"),
      lease("external-resizer-other-example", "csimux-controller-2"),
    ),
  },
];

test("status asks every replica of the controller and shows them as one, with the leader of each sidecar", async () => {
  const { code, out } = await run(["status", "-o", "json"], answers);
  expect(code).toBe(1);
  const { replicas, connections, health: conditions, calls } = JSON.parse(out);
  expect(replicas).toEqual([
    { pod: "csimux-controller-1", node: "w1", leads: ["provisioner"] },
    { pod: "csimux-controller-2", node: "w2", leads: ["attacher", "snapshotter"] },
  ]);
  expect(connections).toMatchObject([
    // Since the first of them has noticed.
    { name: "nas1", state: "unreachable", since: at(12), lastSuccess: { method: "DeleteVolume" } },
    { name: "nas2", lastStorageFailure: { method: "CreateSnapshot" } },
  ]);
  expect(conditions).toEqual([health(at(10))]);
  expect(calls).toHaveLength(1);
  const text = (await run(["status"], answers)).out;
  expect(text).toStartWith(
    "controller csimux-controller-1 on w1, leads provisioner\ncontroller csimux-controller-2 on w2, leads attacher, snapshotter\n",
  );
  expect(text).toMatch(/^nas1 +unreachable +38s/m);
});

test("a replica that does not answer is named, and the exit code tells of it", async () => {
  const [pods, first, , leases] = answers;
  const silent = { to: "exec -n storage csimux-controller-2", err: "error: container not found", code: 1 };
  const healthy = { ...first, out: statusOf({ connections: [connection("nas1")] }) };
  const { code, out } = await run(["status"], [pods, healthy, silent, leases] as typeof answers);
  expect([code, out]).toEqual([1, expect.stringContaining("csimux-controller-2 on w2: error: container not found\n")]);
});

test("without the right to see leases, nothing is said about leaders", async () => {
  const { out } = await run(["status"], answers.slice(0, 3));
  expect(out).toStartWith("controller csimux-controller-1 on w1\ncontroller csimux-controller-2 on w2\n");
});

test.each([[["--html", "-"]], [["--bundle", "-"]], [["--node", "w1"]], [["--watch"]]])(
  "status %p asks one process",
  async words => {
    const { calls } = await run(["status", ...words], [pods, { to: "exec", out: "one" }]);
    expect(calls.filter(({ argv }) => argv.includes("exec"))).toHaveLength(1);
  },
);

test("the exit code is 0 when all replicas answer and all that they serve is well", async () => {
  const healthy = statusOf({ connections: [connection("nas1")] });
  const replicas = ["csimux-controller-1", "csimux-controller-2"];
  const asked = replicas.map(name => ({ to: `exec -n storage ${name}`, out: healthy }));
  const { code, out } = await run(["status"], [
    pods,
    ...asked,
    { to: "get leases -n storage", out: list() },
  ] as typeof answers);
  expect([code, out]).toEqual([0, expect.stringContaining("nas1")]);
});

test.each([
  [["iqn.1993-08.org.debian:a"], 1],
  [["iqn.1993-08.org.debian:b", "nqn.2014-08.org.nvmexpress:uuid:1"], 0],
  [undefined, 0],
])(
  "nodes that storage systems take for one are named, and the status stays one JSON text: %p",
  async (initiators, code) => {
    const healthy = statusOf({ connections: [connection("nas1")] });
    const { out, err, ...said } = await run(
      ["status", "-o", "json"],
      [
        csimuxPods(
          pod("csimux-controller-1", "controller", { node: "w1" }),
          ...["w1", "w2", "w3"].map(node => pod(`csimux-node-${node}`, "node", { node, ready: node !== "w3" })),
        ),
        { to: "exec -n storage csimux-controller-1", out: healthy },
        { to: "exec -n storage csimux-node-w1", out: { ...healthy, initiators: ["iqn.1993-08.org.debian:a"] } },
        { to: "exec -n storage csimux-node-w2", out: { ...healthy, ...(initiators && { initiators }) } },
      ],
    );
    expect([said.code, JSON.parse(out).name]).toEqual([code, "csimux.storage"]);
    expect(err.includes("nodes w1, w2 are one to storage systems, by the name iqn.1993-08.org.debian:a")).toBe(
      code === 1,
    );
    expect(said.calls.filter(({ argv }) => argv.includes("csimux-node-w3"))).toEqual([]);
  },
);
