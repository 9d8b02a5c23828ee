import { afterAll, beforeAll, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../../scripts/spawned.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-limits-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Time for a command that ends by itself, on a busy machine; what it must not take is the memory of all that it could read. */
const limitMs = 30_000;

/** Runs a line of a shell with csimux as "$@". */
async function shell(line: string): Promise<{ readonly code: number | null; readonly out: string }> {
  const argv = ["-c", line, "sh", process.execPath, `${root}/cmd/csimux.ts`, "validate"];
  const child = spawn("sh", argv, { cwd: folder, timeout: limitMs, killSignal: "SIGKILL" });
  let out = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", each => {
      out += String(each);
    });
  const code = await new Promise<number | null>(resolve => child.on("close", resolve));
  return { code, out };
}

const tooLarge = "the file is larger than 4096 KiB";

test.each([
  ["a device", '"$@" /dev/zero'],
  ["standard input", 'yes "driver: proxy" | "$@" -'],
  ["a FIFO", 'mkfifo endless; (yes "a: b" > endless 2>/dev/null) & "$@" endless'],
])(
  "validate reads no more than its limit from %s without an end",
  async (_, line) => {
    const { code, out } = await shell(line);
    expect([code, out]).toEqual([1, expect.stringContaining(tooLarge)]);
  },
  60_000,
);

test("validate reads a FIFO whose writer comes later, to its end", async () => {
  execFileSync("mkfifo", [join(folder, "late")]);
  const { code, out } = await shell('(printf "driver: proxy\\nproxy: { configFolder: /c }\\n" > late) & "$@" late');
  expect([code, out]).toEqual([0, "no problems in 1 file\n"]);
}, 60_000);

test("validate refuses a file of more documents than a cluster has objects, and a long pattern, without working long on them", async () => {
  writeFileSync(join(folder, "documents.yaml"), "---\n".repeat(250_000));
  const documents = await shell('"$@" documents.yaml');
  expect([documents.code, documents.out]).toEqual([1, expect.stringContaining("more than 5000 documents")]);
  const rule = `{ topologyKey: zone, source: nodeName, regex: '${"a".repeat(900_000)}', template: x }`;
  const proxy = `proxy:\n  configFolder: /c\n  nodeTopology:\n    type: zone\n    fromRegexp:\n      - ${rule}\n`;
  writeFileSync(join(folder, "pattern.yaml"), `driver: proxy\n${proxy}`);
  const pattern = await shell('"$@" pattern.yaml');
  expect([pattern.code, pattern.out]).toEqual([1, expect.stringContaining("longer than 1024 characters")]);
}, 90_000);

test("validate finds a connection in nas.yaml and nas.yml, also with equal text: csimux takes it out of service", async () => {
  mkdirSync(join(folder, "connections"));
  writeFileSync(join(folder, "proxy.yaml"), "driver: proxy\nproxy: { configFolder: ./connections }\n");
  const text = "driver: local-hostpath\nlocal-hostpath: { shareBasePath: /a, controllerBasePath: /a }\n";
  for (const name of ["nas.yaml", "nas.yml"]) writeFileSync(join(folder, "connections", name), text);
  const { code, out } = await shell('"$@" --config proxy.yaml');
  expect([code, out]).toEqual([1, expect.stringContaining('connection "nas" is defined twice')]);
}, 60_000);
