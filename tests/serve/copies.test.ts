import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { askCopies } from "../../cmd/cluster/copies/socket.ts";
import type { CopyAnswer, CopyCommandInput } from "../../lib/copies/protocol.ts";
import { commandSocketOf } from "../../lib/observe/command-socket.ts";
import { pause } from "../waiting.ts";
import { status, World } from "./world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

/** The folder of a volume. */
const at = (connection: string, id: string, ...path: string[]) => join(world.base(connection), "v", id, ...path);

/** What external-provisioner does: asks again while the answer is ABORTED. */
async function created(name: string, connection: string, more: Parameters<World["create"]>[2]) {
  for (;;) {
    try {
      return (await world.create(name, connection, more)).volume;
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === status.aborted)) throw error;
      await pause(100);
    }
  }
}

const fromVolume = (volumeId: string) => ({
  volumeContentSource: { type: { case: "volume" as const, value: { volumeId } } },
});
const fromSnapshot = (snapshotId: string) => ({
  volumeContentSource: { type: { case: "snapshot" as const, value: { snapshotId } } },
});

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 0,
    (error: { code: number }) => error.code,
  );

async function commanded(command: CopyCommandInput) {
  const lines: CopyAnswer[] = [];
  const socket = commandSocketOf(world.sandbox.socket);
  const done = await askCopies(socket, command, 30_000, line => void lines.push(line));
  if (done.kind !== "done") throw new Error(`the command did not end well: ${JSON.stringify(done)}`);
  return { lines, done };
}

/** What is left of copies; the folders for it stay. */
async function left(connection: string): Promise<readonly string[]> {
  const all = await world.stored(connection);
  return all.filter(path => /^\.csimux\/(copies|snapshots|work)\/./.test(path));
}

async function nothingLeft(): Promise<void> {
  for (let tries = 0; tries < 100 && [...(await left("one")), ...(await left("two"))].length > 0; tries++)
    await pause(50);
  expect([...(await left("one")), ...(await left("two"))]).toEqual([]);
}

test("a volume, and a snapshot, become volumes on another connection", async () => {
  await world.create("source");
  await writeFile(at("one", "source", "hello"), "first");
  await mkdir(at("one", "source", "folder"));
  await symlink("/etc/passwd", at("one", "source", "folder", "link"));
  const copy = await created("copy", "two", fromVolume("v:one/source"));
  expect(copy).toMatchObject({ volumeId: "v:two/copy", capacityBytes: 1n << 20n });
  expect(copy?.contentSource?.type).toMatchObject({ case: "volume", value: { volumeId: "v:one/source" } });
  expect(copy?.volumeContext["path"]).toBe(at("two", "copy"));
  expect(await readFile(at("two", "copy", "hello"), "utf8")).toBe("first");

  const { snapshot } = await world.controller("createSnapshot", { sourceVolumeId: "v:one/source", name: "snap" });
  await writeFile(at("one", "source", "hello"), "second");
  const snapshotId = snapshot?.snapshotId ?? "";
  await created("restored", "two", fromSnapshot(snapshotId));
  expect(await readFile(at("two", "restored", "hello"), "utf8")).toBe("first");
  expect(await codeOf(world.create("copy", "two", fromSnapshot(snapshotId)))).toBe(status.alreadyExists);
  expect(await codeOf(world.create("none", "two", fromVolume("v:one/none")))).toBe(status.notFound);
  expect(await codeOf(world.create("none", "two", fromVolume("v:gone/none")))).toBe(status.unavailable);
  await nothingLeft();

  await world.controller("deleteSnapshot", { snapshotId });
  for (const volumeId of ["v:two/copy", "v:two/restored", "v:one/source"])
    await world.controller("deleteVolume", { volumeId });
  await nothingLeft();
});

test("the file of the source forbids that anything leaves", async () => {
  await world.create("source");
  const file = join(world.sandbox.connections, "one.yaml");
  const text = await readFile(file, "utf8");
  await writeFile(file, `${text}\ncopies: { to: { members: [] } }\n`);
  expect(await codeOf(world.create("copy", "two", fromVolume("v:one/source")))).toBe(status.failedPrecondition);
  await writeFile(file, text);
  await created("copy", "two", fromVolume("v:one/source"));
  for (const volumeId of ["v:two/copy", "v:one/source"]) await world.controller("deleteVolume", { volumeId });
  await nothingLeft();
});

test("a claim is moved by commands, in passes, and the last content arrives", async () => {
  await world.create("source");
  await writeFile(at("one", "source", "hello"), "first");
  const wanted = {
    ...{ source: "v:one/source", name: "moved", bytes: String(1 << 20), parameters: { connection: "two" } },
    ...{ capabilities: [{ kind: "mount", mode: "single-node-writer" } as const], mutable: {} },
  };
  expect((await stat(commandSocketOf(world.sandbox.socket))).mode & 0o777).toBe(0o600);
  expect((await commanded({ command: "plan", ...wanted })).done).toMatchObject({ method: "rsync" });
  expect((await commanded({ command: "begin", ...wanted })).done).toMatchObject({ target: "v:two/moved" });
  const target = "v:two/moved";
  expect((await commanded({ command: "pass", target })).done.pass).toMatchObject({ number: 0, continued: true });
  await writeFile(at("one", "source", "hello"), "last words");
  expect((await commanded({ command: "pass", target })).done.pass).toMatchObject({ number: 1, continued: false });
  expect((await commanded({ command: "list" })).lines).toMatchObject([
    { target, role: "move", state: "ready", pass: 1 },
  ]);
  expect(await codeOf(stat(at("two", "moved")))).not.toBe(0);
  const { done } = await commanded({ command: "finish", target });
  expect(done.volume).toMatchObject({ handle: target, bytes: 1n << 20n, context: { path: at("two", "moved") } });
  expect(await readFile(at("two", "moved", "hello"), "utf8")).toBe("last words");
  await nothingLeft();
  for (const volumeId of [target, "v:one/source"]) await world.controller("deleteVolume", { volumeId });
  await nothingLeft();
});

test("a copy that was begun and never asked for again is found by another process", async () => {
  await world.create("source");
  await writeFile(at("one", "source", "hello"), "kept");
  const asking = codeOf(world.create("copy", "two", fromVolume("v:one/source")));
  for (let tries = 0; tries < 500 && (await left("two")).length === 0; tries++) await pause(2);
  await world.daemon.stop();
  await asking;
  await world.restart();
  await created("copy", "two", fromVolume("v:one/source"));
  expect(await readFile(at("two", "copy", "hello"), "utf8")).toBe("kept");
  for (const volumeId of ["v:two/copy", "v:one/source"]) await world.controller("deleteVolume", { volumeId });
  await nothingLeft();
});
