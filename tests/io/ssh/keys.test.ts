import { afterEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeLeftFolders } from "../../../lib/io/ssh/left-folders.ts";
import { until } from "./rig.ts";
import { keyPair } from "./sshd.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "csimux-keys-"));
  ends.push(() => rm(made, { recursive: true, force: true }));
  return made;
}

const listening = (path: string): Promise<Server> =>
  new Promise(resolve => {
    const server = createServer().listen(path, () => resolve(server));
  });

/** The text of every file in the folders of logins below a folder. */
async function textsBelow(parent: string): Promise<string> {
  const entries = await readdir(parent, { recursive: true, withFileTypes: true });
  const files = entries.filter(each => each.isFile());
  return (await Promise.all(files.map(each => readFile(join(each.parentPath, each.name), "utf8")))).join("\n");
}

test("a process that is killed during a login leaves no private key in any file", async () => {
  const [privateKey] = await keyPair(await folder(), "own");
  // It accepts the connection and never says a word, so that the login is in progress.
  const silent = createServer(() => {});
  let asked = 0;
  silent.on("connection", () => asked++);
  await new Promise<void>(resolve => silent.listen(0, "127.0.0.1", resolve));
  ends.push(async () => silent.close());
  const address = silent.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const settings = { host: "127.0.0.1", port, username: "csi", privateKey, readyTimeout: 60_000 };
  const more = { keepaliveInterval: 10_000, forceIPv4: false, forceIPv6: false, debug: false };
  // A /dev/shm of its own: others are at work in the machine's.
  const memory = await folder();
  const own = 'mount --bind "$0" /dev/shm && exec "$@"';
  const argv = [process.execPath, join(import.meta.dir, "key-client.ts"), JSON.stringify({ ...settings, ...more })];
  const client = spawn("unshare", ["--mount", "sh", "-c", own, memory, ...argv], { stdio: "ignore" });
  await until("the login is in progress", () => asked > 0);
  client.kill("SIGKILL");
  await new Promise(resolve => client.once("exit", resolve));
  const [, body = ""] = privateKey.split("\n");
  expect(body.length).toBeGreaterThan(30);
  expect(await readdir(memory)).toHaveLength(1);
  expect(await textsBelow(memory)).not.toContain(body);
  await removeLeftFolders(memory, 0);
  expect(await readdir(memory)).toEqual([]);
}, 60_000);

test("only the login folders of ended processes are removed", async () => {
  const parent = await folder();
  const gone = ["csimux-ssh-abcdef", "csimux-Abc012"];
  const others = ["csimux-ssh-nosock", "csimux-serving-1", "csimux-ssh-abcde", "elsewhere"];
  for (const name of [...gone, ...others, "csimux-ssh-lively", "csimux-ssh-linked"]) await mkdir(join(parent, name));
  for (const name of gone) {
    const server = Bun.listen({ unix: join(parent, name, "real"), socket: { data() {} } });
    // A hard link keeps what a killed process leaves: a socket without a listener.
    await Bun.$`ln ${join(parent, name, "real")} ${join(parent, name, "ask")}`.quiet();
    server.stop(true);
    await writeFile(join(parent, name, "key"), "secret");
  }
  const lively = await listening(join(parent, "csimux-ssh-lively", "ask"));
  ends.push(async () => lively.close());
  await writeFile(join(parent, "csimux-ssh-linked", "ask"), "no socket");
  await removeLeftFolders(parent);
  expect((await readdir(parent)).length).toBe(gone.length + others.length + 2);
  await removeLeftFolders(parent, 0);
  expect((await readdir(parent)).sort()).toEqual([...others, "csimux-ssh-lively", "csimux-ssh-linked"].sort());
  expect((await stat(join(parent, "csimux-ssh-lively", "ask"))).isSocket()).toBe(true);
});
