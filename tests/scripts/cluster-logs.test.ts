import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keepLogs } from "../../scripts/cluster/logs.ts";
import { pause } from "../waiting.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-logs-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const container = "pods/storage_csimux-node-1_uid/csimux";

/** A machine with a running pod; `to` holds what an earlier run left. */
async function machine() {
  const [logs, to] = [join(folder, "log"), join(folder, "failed/kills")];
  await mkdir(join(logs, container), { recursive: true });
  await mkdir(to, { recursive: true });
  await writeFile(join(to, "old.log"), "of an earlier run");
  await writeFile(join(logs, "kubelet.log"), "of the machine");
  return { logs, to };
}

async function appears(path: string): Promise<void> {
  const end = Date.now() + 10_000;
  while (!existsSync(path) && Date.now() < end) await pause(5);
  expect(existsSync(path)).toBe(true);
}

test("the logs of a pod outlive the pod, each of its containers' starts included, and the machine's logs join them", async () => {
  const { logs, to } = await machine();
  const end = await keepLogs(logs, to, 5);
  expect(existsSync(join(to, "old.log"))).toBe(false);
  await writeFile(join(logs, container, "0.log"), "first\n");
  await appears(join(to, container, "0.log"));
  await appendFile(join(logs, container, "0.log"), "second\n");
  await writeFile(join(logs, container, "1.log"), "after a crash\n");
  await appears(join(to, container, "1.log"));
  await rm(join(logs, "pods/storage_csimux-node-1_uid"), { recursive: true });
  await end(true);
  expect(await readFile(join(to, container, "0.log"), "utf8")).toBe("first\nsecond\n");
  expect(await readFile(join(to, container, "1.log"), "utf8")).toBe("after a crash\n");
  expect(await readFile(join(to, "kubelet.log"), "utf8")).toBe("of the machine");
});

test("nothing is kept of tests that pass", async () => {
  const { logs, to } = await machine();
  const end = await keepLogs(logs, to, 5);
  await writeFile(join(logs, container, "0.log"), "first\n");
  await appears(join(to, container, "0.log"));
  await end(false);
  expect(existsSync(to)).toBe(false);
});
