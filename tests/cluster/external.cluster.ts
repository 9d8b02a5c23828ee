import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inMachine } from "../../scripts/cluster/machine.ts";
import { cache } from "../../scripts/cluster/place.ts";
import { type JunitCase, junitCases } from "../../scripts/tally.ts";
import { byNode, deployCentral, drivers, undeploy } from "./deploy.ts";
import { apply, kube } from "./kube.ts";
import { storageClass } from "./objects.ts";
import { nothingLeft } from "./scenes/left.ts";

/** The folder of the reports and the complete output. */
const folder = join(cache, "external");
const seen = "/run/cluster/external";

/** Specs that cannot run here, by a part of their names. */
const leftOut: Readonly<Record<string, string>> = {
  "\\[Disruptive\\]": "they stop the node's kubelet over ssh; kills.cluster.ts does as much",
  "any volume data source": "it starts a volume populator, whose images are in no Go module",
};

const minutes = Number(process.env["EXTERNAL_MINUTES"] || 50);
const focus = process.env["EXTERNAL"] || "External.Storage";

beforeAll(async () => {
  await deployCentral(byNode);
  await apply(storageClass("external", drivers.central, "fast"));
});
afterAll(async () => {
  await kube("delete", "storageclass", "external");
  await undeploy("cluster");
});

/** Runs the specs, three at a time, and returns the reports of the specs of storage drivers. */
async function runSpecs(): Promise<readonly JunitCase[]> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const chosen = [`--focus=${focus}`, ...Object.keys(leftOut).map(name => `--skip=${name}`)];
  const ginkgo = ["ginkgo", "--procs=3", `--timeout=${minutes}m`, "--no-color", ...chosen, "/run/cluster/bin/e2e.test"];
  const { stdout, stderr } = await inMachine(
    [
      ...[...ginkgo, "--", "--provider=skeleton", "--kubeconfig=/run/cluster/state/admin.kubeconfig", "--num-nodes=1"],
      ...["--minStartupPods=0", "--allowed-not-ready-nodes=0", `--report-dir=${seen}`, `--repo-root=${seen}`],
      `-storage.testdriver=${join(import.meta.dirname, "scenes/external-driver.yaml")}`,
    ],
    (minutes + 2) * 60_000,
  );
  await writeFile(join(folder, "output.txt"), `${stdout}${stderr}`);
  const report = await readFile(join(folder, "junit_01.xml"), "utf8").catch(() => "");
  const specs = junitCases(report).filter(({ title }) => title.includes("External Storage"));
  // Specs that were not selected have no reason.
  return specs.filter(({ outcome, message }) => outcome !== "skipped" || message !== "skipped");
}

const suiteOf = ({ title }: JunitCase): string =>
  /\[Testpattern: [^\]]*\](?: \[[^\]]*\])* (\S+)/.exec(title)?.[1] ?? title;

const count = (specs: readonly JunitCase[], outcome: JunitCase["outcome"]): number =>
  specs.filter(each => each.outcome === outcome).length;

/** The result by suite, and the reasons of skipped specs. */
function table(specs: readonly JunitCase[]): string {
  const suites = [...new Set(specs.map(suiteOf))].sort();
  const rows = suites.map(suite => {
    const own = specs.filter(each => suiteOf(each) === suite);
    return `| ${suite} | ${count(own, "passed")} | ${count(own, "failed")} | ${count(own, "skipped")} |`;
  });
  const reasons = new Map<string, number>();
  for (const { outcome, message } of specs)
    if (outcome === "skipped") reasons.set(message, (reasons.get(message) ?? 0) + 1);
  const skipped = [...reasons].sort(([, a], [, b]) => b - a).map(([reason, times]) => `${times} × ${reason}`);
  const excluded = Object.entries(leftOut).map(([name, why]) => `left out: ${name}: ${why}`);
  return ["| suite | passed | failed | skipped |", "|---|---|---|---|", ...rows, ...skipped, ...excluded].join("\n");
}

test(
  "Kubernetes' own tests of external storage drivers find no fault with it, and nothing is left of their volumes",
  async () => {
    const specs = await runSpecs();
    process.stdout.write(`${table(specs)}\n`);
    const failures = specs.filter(({ outcome }) => outcome === "failed");
    expect(failures.map(({ title, message }) => `${title}: ${message.slice(0, 400)}`)).toEqual([]);
    expect(count(specs, "passed")).toBeGreaterThan(process.env["EXTERNAL"] ? 0 : 50);
    await nothingLeft(300_000);
  },
  (minutes + 8) * 60_000,
);
