import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Process } from "../../../scripts/cluster/processes.ts";
import { type Central, dataOutside, drivers, folderConnection, namespace } from "../deploy.ts";
import { apply, bound, eventually, get, inPod, kube, type Resource, running } from "../kube.ts";
import { claim, pod, storageClass } from "../objects.ts";
import { processes } from "./processes.ts";

/** Two storage systems with folders; `copies` is what the main file says about copies, in one line. */
export const slowAndFast = (copies = ""): Central => ({
  connections: { slow: folderConnection("slow"), fast: folderConnection("fast") },
  ...(copies !== "" && { proxy: [`  copies: ${copies}`] }),
});

/** A class for each, of which claims get their volumes without a pod. */
export const slowAndFastClasses: readonly Resource[] = ["slow", "fast"].map(name =>
  storageClass(name, drivers.central, name, { volumeBindingMode: "Immediate" }),
);

/**
 * So many small files take longer to copy than a request waits, which is 8 s: a third of them took 7.5 s on two idle processors.
 * FILES=60000 is enough on busy ones.
 */
export const manyFiles = Number(process.env["FILES"] || 300_000);

/** Files of all kinds, and then this many small ones. */
const filling = (files: number): string =>
  [
    "cd /data; umask 022",
    "mkdir -p d/deep empty; chmod 2770 d; chown 1000:2000 d/deep",
    "echo hello > f; chown 1001:1002 f; chmod 4751 f; ln f d/hard; touch -d '2001-02-03 04:05:06' f",
    "ln -s ../f d/link; ln -s /nowhere broken; chown -h 7:8 broken; mkfifo pipe; chmod 0600 pipe",
    "echo odd > ' odd\tname'; echo more > \"$(printf 'line\\nbreak')\"; echo bytes > \"$(printf 'b\\377')\"; : > none; chmod 0 none",
    "dd if=/dev/urandom of=big bs=1M count=64 2>/dev/null; dd if=/dev/urandom of=holes bs=1 count=9 seek=99M 2>/dev/null",
    `i=0; while [ $i -lt ${files} ]; do [ $((i % 1000)) -gt 0 ] || mkdir -p m/$((i / 1000)); echo $i > m/$((i / 1000))/$i; i=$((i + 1)); done`,
    "sync; touch /tmp/filled",
  ].join("; ");

/** A claim of the class "slow" with a pod of the same name that has written so many small files, and others. */
export async function filled(name: string, files: number): Promise<void> {
  await apply(claim(name, "slow", { size: "1Gi" }), pod(name, name, { run: filling(files) }));
  await running(name);
  await eventually("the files are written", 600_000, async () =>
    (await inPod(name, "ls /tmp")).split("\n").includes("filled"),
  );
}

/** A claim whose volume gets the content of a claim or snapshot. */
export const copyOf = (
  name: string,
  storageClassName: string,
  from: { readonly snapshot: string } | { readonly claim: string },
): Resource => claim(name, storageClassName, { size: "1Gi", from });

/**
 * What a pod sees at /data: a checksum of names, types, modes, owners, links and times, and one of names and content; and the number of
 * files, for people.
 */
export const seen = async (name: string): Promise<string> =>
  inPod(
    name,
    [
      "cd /data",
      "find . -mindepth 1 -exec stat -c '%N %f %u:%g %h %t:%T %Y' {} + | sort | md5sum",
      "find . -type f -exec md5sum {} + | sort | md5sum",
      "find . -type f | wc -l",
    ].join("; "),
  );

/** What pods of these claims see. The claims have the names of the pods. */
export async function seenBy(...claims: readonly string[]): Promise<readonly string[]> {
  await bound(...claims);
  await apply(...claims.map(name => pod(name, name)));
  await running(...claims);
  const all: string[] = [];
  for (const name of claims) all.push(await seen(name));
  return all;
}

/** A copy as `csimux copies list` shows it. */
export interface Listed {
  readonly target: string;
  readonly name: string;
  readonly state: string;
  /** When it was last asked for, in seconds since 1970. */
  readonly asked: number;
}

/** Runs `csimux copies` in a controller. */
export const copies = (pod: string, ...words: readonly string[]): Promise<string> =>
  kube("-n", namespace, "exec", pod, "-c", "csimux", "--", "csimux", "copies", ...words);

/** All copies, as one of the controllers lists them. */
export async function listed(): Promise<readonly Listed[]> {
  const text = await copies("deploy/csimux-controller", "list", "-o", "json");
  return (JSON.parse(text) as { readonly copies: readonly Listed[] }).copies;
}

/** The name of a claim's volume, which is its id on the connection. */
export const volumeName = async (name: string): Promise<string> => `pvc-${(await get("pvc", name)).metadata.uid}`;

/** Where the copy of a volume grows. */
const landing = (id: string): string => join(dataOutside, "fast/.csimux/work", `c~${id}`);

/** The record of a copy. */
export const recordOf = (id: string): string => join(dataOutside, "fast/.csimux/copies", `${id}.json`);

/** Whether the volume exists on the target. */
export const isVolume = (id: string): boolean => existsSync(join(dataOutside, "fast/v", id));

/** The programs that copy files at present: three processes of rsync for each copy. */
export const rsyncs = async (): Promise<readonly Process[]> =>
  (await processes()).filter(({ command }) => command.startsWith("rsync "));

/** Waits until a part of the small files of one of these claims' volumes has been copied; returns the volume's id. */
export async function halfway(...names: readonly string[]): Promise<string> {
  const ids = await Promise.all(names.map(volumeName));
  const begun = async (id: string) => (await readdir(join(landing(id), "m")).catch(() => [])).length > 2;
  const id = await eventually(
    `a part of ${names.join(" or ")} is copied`,
    120_000,
    async () => {
      for (const id of ids) if (await begun(id)) return id;
      return undefined;
    },
    ...names,
  );
  if (isVolume(id)) throw new Error(`the copy ${id} was complete at once`);
  return id;
}

/** Waits until no program of a copy is left: neither rsync, nor what holds the private mount that it reads through. */
export async function nothingRuns(): Promise<void> {
  await eventually("no program of a copy runs", 60_000, async () => {
    const left = (await processes()).filter(({ command }) => /^(rsync|setpriv|nsenter|unshare|cat$)/.test(command));
    return left.length === 0;
  });
}
