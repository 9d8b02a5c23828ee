import { expect, test } from "bun:test";
import { csimuxPods, pod, run } from "./kubectl-world.ts";

const pods = csimuxPods(
  pod("csimux-controller-1", "controller", { node: "w1" }),
  pod("csimux-controller-2", "controller", { node: "w2" }),
  pod("csimux-node-w1", "node"),
);
const well = { to: "exec -n storage csimux-controller-1", out: "all is well\n" };
const ill = { to: "exec -n storage csimux-controller-2", out: "nas2 is bad\n", code: 1 };
const silent = { to: "exec -n storage csimux-controller-2", err: "error: container not found", code: 1 };
const [first, second] = ["controller csimux-controller-1 on w1\n", "controller csimux-controller-2 on w2\n"];

test.each([
  ["what each says, and the worst exit code", [], ill, [1, `${first}all is well\n${second}nas2 is bad\n`, ""]],
  ["0 if all are well", [], { ...ill, code: 0 }, [0, `${first}all is well\n${second}nas2 is bad\n`, ""]],
  ["one that does not answer", [], silent, [1, `${first}all is well\n${second}`, "error: container not found\n"]],
  ["documents of JSON", ["-o", "json"], ill, [1, "all is well\nnas2 is bad\n", ""]],
  ["documents of YAML", ["--output=yaml"], ill, [1, "---\nall is well\n---\nnas2 is bad\n", ""]],
] as const)("status asks every replica of the controller and shows %s", async (_, words, other, expected) => {
  const { code, out, err } = await run(["status", ...words], [pods, well, other]);
  expect([code, out, err]).toEqual([...expected]);
});

test.each([[["--html", "-"]], [["--bundle", "-"]], [["--node", "w1"]], [["--watch"]]])(
  "status %p asks one process",
  async words => {
    const { out, calls } = await run(["status", ...words], [pods, { to: "exec", out: "one" }]);
    expect(calls.filter(({ argv }) => argv.includes("exec"))).toHaveLength(1);
    expect(out).toBe("one");
  },
);

test.each([
  [["iqn.1993-08.org.debian:a"], 1],
  [["iqn.1993-08.org.debian:b", "nqn.2014-08.org.nvmexpress:uuid:1"], 0],
  [undefined, 0],
])(
  "nodes that storage systems take for one are named, and the status stays one JSON text: %p",
  async (initiators, code) => {
    const healthy = { name: "csimux.storage" };
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
