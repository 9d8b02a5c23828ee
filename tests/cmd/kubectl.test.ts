import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { spawned } from "../../scripts/spawned.ts";
import { fakeKubectl } from "../fakes/kubectl.ts";
import { controller, csimuxPods, list, node, run } from "./kubectl-world.ts";

const executable = await build();
const folder = mkdtempSync(join(tmpdir(), "csimux-kubectl-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("kubectl csimux runs csimux in its pods", () => {
  test("status asks a controller, with all other flags and the exit code of csimux", async () => {
    const answers = [
      csimuxPods(node, controller),
      { to: "exec", out: "{}", err: "command terminated with exit code 1", code: 1 },
    ];
    const { code, out, err, calls } = await run(["status", "--context", "prod", "-o", "json"], answers);
    expect([code, out, err]).toEqual([1, "{}", ""]);
    expect(calls.map(({ argv }) => argv)).toContainEqual([
      ...["--context", "prod", "exec", "-n", "storage", "csimux-controller-1", "-c", "csimux", "--"],
      ...["csimux", "status", "-o", "json"],
    ]);
  });

  test("status of a node asks the pod of the node plugin there", async () => {
    const { calls } = await run(["status", "--node", "w1"], [csimuxPods(controller, node), { to: "exec", out: "" }]);
    expect(calls.at(-1)?.argv).toContain("csimux-node-w1");
  });

  test("topology gets the nodes and classes of the cluster, and the main file of the pod", async () => {
    const nodes = list({ kind: "Node", metadata: { name: "w1" } });
    const answers = [
      csimuxPods(controller),
      { to: "get nodes,storageclasses", out: nodes },
      { to: "exec", out: "map" },
    ];
    const { out, calls } = await run(["topology", "--details"], answers);
    expect(out).toBe("map");
    expect(calls.at(-1)?.argv.slice(-7)).toEqual([
      "csimux",
      "topology",
      "--nodes",
      "-",
      "--details",
      "--config",
      "/config/main.yaml",
    ]);
    expect(JSON.parse(calls.at(-1)?.stdin ?? "")).toEqual(nodes);
  });

  test("copies asks a controller, and passes what a plan reads", async () => {
    const answers = [csimuxPods(node, controller), { to: "exec", out: "no copies\n" }];
    const { code, out, calls } = await run(["copies", "list", "-o", "json"], answers);
    expect([code, out]).toEqual([0, "no copies\n"]);
    expect(calls.at(-1)?.argv).toContain("csimux-controller-1");
    expect(calls.at(-1)?.argv.slice(-5)).toEqual(["csimux", "copies", "list", "-o", "json"]);
    const cancelled = await run(["copies", "cancel", "v:nas2/pvc-1f0c"], answers);
    expect(cancelled.calls.at(-1)?.argv.slice(-4)).toEqual(["csimux", "copies", "cancel", "v:nas2/pvc-1f0c"]);
    expect(cancelled.calls.at(-1)?.argv).not.toContain("-i");
    const planned = await run(["copies", "plan"], answers, '"wanted"');
    expect(planned.calls.at(-1)?.argv).toContain("-i");
    expect(planned.calls.at(-1)?.stdin).toBe('"wanted"');
  });

  test("volumes gets the PersistentVolumes, with any of its subcommands", async () => {
    const pvs = list({ kind: "PersistentVolume", metadata: { name: "pvc-1" } });
    const answers = [csimuxPods(controller), { to: "get pv,pvc -A", out: pvs }, { to: "exec", out: "kind: List" }];
    const { calls } = await run(["volumes", "adopt", "nas", "photos", "--mark"], answers);
    expect(calls.at(-1)?.argv.slice(-8)).toEqual([
      "csimux",
      "volumes",
      "adopt",
      "nas",
      "photos",
      "--mark",
      "--pvs",
      "-",
    ]);
    expect(JSON.parse(calls.at(-1)?.stdin ?? "")).toEqual(pvs);
  });

  test("bundle writes the reports of all pods to a file that only its owner can read", async () => {
    const answers = [csimuxPods(controller, node), { to: "exec", out: "report\n" }];
    const file = join(folder, "report.txt");
    expect((await run(["bundle", file], answers)).code).toBe(0);
    expect(readFileSync(file, "utf8")).toMatch(
      /csimux-controller-1 on w1 #+\nreport\n\n#+ pod storage\/csimux-node-w1/,
    );
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test.each([
    [[], /no pod with the labels app.kubernetes.io\/name=csimux in any namespace; see --namespace/],
    [
      [{ to: "get pods", err: 'Error from server (Forbidden): pods is forbidden: User "jo" cannot list', code: 1 }],
      /kubectl get pods .*Forbidden/,
    ],
  ])("without pods, or the right to see them, it says so", async (answers, text) => {
    const { code, err } = await run(["status"], [...answers, csimuxPods()]);
    expect(code).toBe(2);
    expect(err).toMatch(text);
  });

  test("move is one of its commands, and means claims of the namespace of kubectl's context", async () => {
    const words = ["move", "plan", "db", "--to-class", "fast"];
    const context = { to: "config view --minify", out: "staging" };
    const { calls } = await run(words, [context, csimuxPods(controller), { to: "get", out: list() }]);
    const spaces = calls.flatMap(({ argv }) => (argv.includes("-n") ? [argv[argv.indexOf("-n") + 1]] : []));
    expect(spaces).toContain("staging");
    expect(spaces).not.toContain("default");
    const given = await run([...words, "-n", "shop"], [csimuxPods(controller), { to: "get", out: list() }]);
    expect(given.calls.some(({ argv }) => argv[0] === "config")).toBe(false);
  });

  test("the executable is the plugin under the name kubectl-csimux", async () => {
    const link = join(folder, "kubectl-csimux");
    symlinkSync(executable, link);
    const bin = join(folder, "linked");
    const { stop } = await fakeKubectl(bin, [csimuxPods(controller), { to: "exec", out: "all is well" }]);
    const env = { PATH: `${bin}:${process.env["PATH"]}` };
    expect((await spawned([link, "status"], { env })).stdout).toBe("all is well");
    expect((await spawned([link, "--help"], { env })).stdout).toContain("explain");
    stop();
  });
});
