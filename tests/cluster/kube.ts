import { until } from "../../scripts/cluster/first-process.ts";
import { kubectl } from "../../scripts/cluster/machine.ts";

/** The fields of a Kubernetes object that tests read. */
export interface Resource {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has a different shape, and a wrong path fails the test
  readonly spec?: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly status?: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly [other: string]: any;
}

/** Runs kubectl; throws its error output. */
export async function kube(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await kubectl(args, 300_000);
  if (code !== 0) throw new Error(`kubectl ${args.join(" ").slice(0, 200)}: ${stderr.trim()}`);
  return stdout;
}

/** The namespace of the tests' objects. */
export const home = "default";

/** Creates or changes objects. */
export async function apply(...objects: readonly Resource[]): Promise<void> {
  const list = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
  const { mkdtemp, rm, writeFile } = await import("node:fs/promises");
  const folder = await mkdtemp("/tmp/csimux-apply-");
  try {
    await writeFile(`${folder}/list.json`, list);
    await kube("apply", "-n", home, "-f", `${folder}/list.json`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The objects of a kind. */
export async function list(kind: string, namespace = home, ...more: readonly string[]): Promise<readonly Resource[]> {
  return (JSON.parse(await kube("get", kind, "-n", namespace, "-o", "json", ...more)) as { items: Resource[] }).items;
}

/** An object, or undefined if it does not exist. */
export async function find(kind: string, name: string, namespace = home): Promise<Resource | undefined> {
  const text = await kube("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found");
  return text.trim() === "" ? undefined : (JSON.parse(text) as Resource);
}

/** An object that must exist. */
export async function get(kind: string, name: string, namespace = home): Promise<Resource> {
  const found = await find(kind, name, namespace);
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
  return found;
}

/** Deletes objects and waits until they are gone. */
export async function remove(kind: string, ...names: readonly string[]): Promise<void> {
  await kube("delete", kind, "-n", home, ...names, "--ignore-not-found", "--timeout=240s");
}

/** Requests the deletion of objects without waiting. */
export async function removeSoon(kind: string, ...names: readonly string[]): Promise<void> {
  await kube("delete", kind, "-n", home, ...names, "--ignore-not-found", "--wait=false");
}

/** Runs a shell command in a pod and returns its output. */
export const inPod = (pod: string, line: string): Promise<string> =>
  kube("exec", "-n", home, pod, "--", "sh", "-c", line);

/** The messages of warnings about an object of the tests. */
export async function warnings(name: string): Promise<readonly string[]> {
  const events = await list("events");
  return events
    .filter(event => event["involvedObject"].name === name && event["type"] === "Warning")
    .map(event => `${event["reason"]}: ${event["message"]}`);
}

/** Waits for a condition; the error includes the warnings about the named objects. */
export async function eventually<T>(
  what: string,
  ms: number,
  ask: () => Promise<T | undefined | false>,
  ...about: readonly string[]
): Promise<T> {
  try {
    return await until(what, ms, ask);
  } catch (error) {
    const said = await Promise.all(about.map(warnings));
    throw new Error(`${error instanceof Error ? error.message : error}\n${said.flat().slice(-6).join("\n")}`);
  }
}

/** Waits until pods run. */
export async function running(...names: readonly string[]): Promise<void> {
  await eventually(
    `running: ${names.join(" ")}`,
    180_000,
    async () => {
      const pods = await list("pods");
      const up = pods.filter(pod => pod.status?.phase === "Running").map(pod => pod.metadata.name);
      return names.every(name => up.includes(name));
    },
    ...names,
  );
}

/** Waits until claims are bound, and returns the volume of the first. */
export async function bound(...names: readonly string[]): Promise<Resource> {
  await eventually(
    `bound: ${names.join(" ")}`,
    180_000,
    async () => {
      const claims = await list("pvc");
      const done = claims.filter(claim => claim.status?.phase === "Bound").map(claim => claim.metadata.name);
      return names.every(name => done.includes(name));
    },
    ...names,
  );
  return get("pv", (await get("pvc", names[0] ?? "")).spec.volumeName);
}

/** Waits until a snapshot is ready. */
export const ready = (name: string): Promise<boolean> =>
  eventually(
    `snapshot ${name} is ready`,
    120_000,
    async () => (await find("volumesnapshot", name))?.status?.readyToUse === true,
    name,
  );
