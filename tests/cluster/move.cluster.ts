import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { inMachine, kubeconfig } from "../../scripts/cluster/machine.ts";
import { dataOutside, deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import { apply, eventually, get, home, inPod, kube, list, type Resource, running } from "./kube.ts";
import { statefulSet, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";

// A StatefulSet of three whose pods write numbered lines with checksums and sync each one moves from the folders of one connection to the
// folders of another one, and back by undo.

const executable = await build();
const say = (line: string): void => void process.stdout.write(`    ${line}\n`);

/** Each line is a number and the checksum of the number; a line is on the disk before the next one begins. */
const writing = [
  'i=$(wc -l < /data/log 2>/dev/null || echo 0); trap "exit 0" TERM',
  'while true; do i=$((i+1)); echo "$i $(echo "$i" | md5sum | cut -d" " -f1)" >> /data/log; sync; sleep 0.1; done',
].join("; ");

const set = statefulSet("db", "slow", { command: ["sh", "-c", writing] }, { terminationGracePeriodSeconds: 5 });

const pods = ["db-0", "db-1", "db-2"];
const claims = pods.map(name => `data-${name}`);

/** Runs csimux move on the machine with the rights of its administrator. */
async function move(command: string, ...words: readonly string[]): Promise<string> {
  const kubectl = `kubectl --kubeconfig=${kubeconfig} --cache-dir=/run/cluster/state/kubectl`;
  const argv = [executable, "move", command, "-n", home, ...claims, "--kubectl", kubectl, ...words];
  const { code, stdout, stderr } = await inMachine(argv, 900_000);
  if (code !== 0) throw new Error(`csimux move ${command} ended with ${code}: ${stderr}${stdout}`);
  return stdout;
}

const volumeOf = async (claim: string): Promise<Resource> => get("pv", (await get("pvc", claim)).spec.volumeName);

/** The lines of a volume on the disk, which is outside the cluster. */
async function stored(volume: Resource): Promise<readonly string[]> {
  const [, connection = "", id = ""] = /^v:([^/]+)\/(.+)$/.exec(volume.spec.csi.volumeHandle) ?? [];
  return linesOf(await readFile(join(dataOutside, connection, "v", id, "log"), "utf8"));
}

const linesOf = (text: string): readonly string[] => text.split("\n").filter(Boolean);

const inside = async (pod: string): Promise<readonly string[]> => linesOf(await inPod(pod, "cat /data/log"));

/** Every line is the number after its predecessor's, with its checksum. */
function areWhole(lines: readonly string[]): void {
  const hash = (text: string): string => new Bun.CryptoHasher("md5").update(text).digest("hex");
  for (const [index, line] of lines.entries()) expect(line).toBe(`${index + 1} ${hash(`${index + 1}\n`)}`);
}

/** The pods write on, after exactly the lines that the other volumes have. */
async function continued(before: readonly (readonly string[])[]): Promise<void> {
  await running(...pods);
  for (const [index, pod] of pods.entries()) {
    const old = before[index] ?? [];
    const now = await eventually(`${pod} writes on`, 120_000, async () => {
      const lines = await inside(pod);
      return lines.length > old.length && lines;
    });
    expect(now.slice(0, old.length)).toEqual([...old]);
    areWhole(now.slice(0, -1));
  }
}

beforeAll(async () => {
  await deployCentral({ connections: { slow: folderConnection("slow"), fast: folderConnection("fast") } });
  await apply(storageClass("slow", drivers.central, "slow"), storageClass("fast", drivers.central, "fast"));
});
afterEach(async () => {
  await kube("delete", "statefulset", "db", "-n", home, "--ignore-not-found", "--timeout=240s");
  await tidy();
});
afterAll(async () => {
  await kube("delete", "storageclass", "slow", "fast");
  await undeploy("cluster");
});

async function writers(): Promise<void> {
  await apply(set);
  await running(...pods);
  for (const pod of pods) await eventually(`${pod} has written`, 60_000, async () => (await inside(pod)).length > 20);
}

test("a StatefulSet of three moves to another connection without a lost line, and finish deletes the old volumes", async () => {
  await writers();
  const old = await Promise.all(claims.map(volumeOf));
  expect(await move("plan", "--to-class", "fast")).toContain("statefulset/db (3)");
  await move("copy", "--to-class", "fast");
  const said = await move("switch", "--yes");
  say(/stopped for .*/.exec(said)?.[0] ?? said);
  const before = await Promise.all(old.map(stored));
  for (const volume of await Promise.all(claims.map(volumeOf)))
    expect(volume.spec.csi.volumeHandle).toStartWith("v:fast/moved-");
  await continued(before);
  await move("finish", "--yes");
  const names = (await list("pv")).map(({ metadata }) => metadata.name);
  expect(names.filter(name => old.some(each => each.metadata.name === name))).toEqual([]);
  await continued(before);
});

test("undo after the switch gives the old volumes back, with every line from before the stop", async () => {
  await writers();
  const old = await Promise.all(claims.map(volumeOf));
  await move("copy", "--to-class", "fast");
  await move("switch", "--yes");
  const before = await Promise.all(old.map(stored));
  await continued(before);
  await move("undo", "--yes", "--lose-writes-since-switch");
  const volumes = await Promise.all(claims.map(volumeOf));
  expect(volumes.map(({ metadata }) => metadata.name)).toEqual(old.map(({ metadata }) => metadata.name));
  await continued(before);
  await move("finish", "--yes");
  expect((await list("pv")).map(({ metadata }) => metadata.name).sort()).toEqual(
    old.map(({ metadata }) => metadata.name).sort(),
  );
});

test("undo before the switch leaves the pods alone and nothing on the other connection", async () => {
  await writers();
  const started = (await list("pods")).map(({ metadata }) => metadata.uid).sort();
  await move("copy", "--to-class", "fast");
  await move("undo", "--yes");
  expect((await list("pods")).map(({ metadata }) => metadata.uid).sort()).toEqual(started);
  for (const claim of claims) expect((await volumeOf(claim)).spec.persistentVolumeReclaimPolicy).toBe("Delete");
});
