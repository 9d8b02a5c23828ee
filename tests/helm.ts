import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { goProgram } from "../scripts/cluster/tools.ts";
import { spawned } from "../scripts/spawned.ts";

/** The chart. */
export const chart = new URL("../examples/helm/csimux", import.meta.url).pathname;

/** An object of Kubernetes. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has a different shape, and a wrong path fails the test
  readonly [other: string]: any;
}

/** The objects of a text of YAML documents. */
export const objectsOf = (text: string): readonly KubeObject[] =>
  parseAllDocuments(text).flatMap(document => (document.toJS() as KubeObject | null) ?? []);

/** Values of the chart that every installation needs. */
export const required = {
  image: { repository: "registry.lan/csimux", tag: "0.1.0" },
} as const;

/** Runs a command of helm with values for the chart. Returns its output and its errors. */
export async function helm(
  command: readonly string[],
  values: object,
  flags: readonly string[] = [],
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-helm-"));
  try {
    const file = join(folder, "values.json");
    await writeFile(file, JSON.stringify(values));
    const env = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder };
    const argv = [goProgram("helm"), ...command, chart, "--values", file, ...flags] as const;
    return await spawned([...argv], { env });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The objects that the chart makes of values, for Kubernetes of the tests' cluster. Throws helm's error. */
export async function rendered(
  values: object,
  release = "csimux",
  flags: readonly string[] = [],
): Promise<readonly KubeObject[]> {
  const more = ["--namespace", "storage", "--kube-version", "1.36.0", "--skip-tests", ...flags];
  const { code, stdout, stderr } = await helm(["template", release], values, more);
  if (code !== 0 || stderr !== "") throw new Error(stderr || `exit code ${code}`);
  return objectsOf(stdout);
}
