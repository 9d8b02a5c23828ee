import { describe, expect, test } from "bun:test";
import { execFile, execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { deviceOf, devicesOf, FileThreads } from "../../lib/io/file-threads.ts";
import { engineSettings } from "../../scripts/engine.ts";

const table = [
  "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
  "30 22 8:1 / /srv rw,relatime shared:1 - xfs /dev/sda1 rw",
  "31 30 8:1 /slow /srv/bound rw,relatime - xfs /dev/sda1 rw",
  "32 22 8:17 / /mnt/my\\040disk rw,relatime - ext4 /dev/sdb1 rw",
  "",
].join("\n");

describe("a path is on the device of the mount that is nearest above it", () => {
  test.each([
    ["/srv", "8:1"],
    ["/srv/fast/v/pvc-1", "8:1"],
    ["/srv/bound/v", "8:1"],
    ["/srvother/v", "254:0"],
    ["/mnt/my disk/v", "8:17"],
    ["/mnt", "254:0"],
    ["/", "254:0"],
  ])("%s is on %s", (path, device) => {
    expect(deviceOf(path, devicesOf(table))).toBe(device);
  });

  test("without a mount table everything is on one device", () => {
    expect(deviceOf("/srv/fast", devicesOf(""))).toBe("");
  });
});

describe("threads by disk", () => {
  test("folders of one device share their slots, those of another have their own", () => {
    const threads = new FileThreads(() => devicesOf(table));
    expect(threads.on("/srv/a")).toBe(threads.on("/srv/bound/b"));
    expect(threads.on("/srv/a")).toBe(threads.onDevice("8:1"));
    expect(threads.on("/srv/a")).not.toBe(threads.on("/mnt/my disk/v"));
  });

  test("all mounts of a server share one set of slots, separate from the devices", () => {
    const threads = new FileThreads(() => devicesOf(table));
    expect(threads.onServer("nas")).toBe(threads.onServer("nas"));
    expect(threads.onServer("8:1")).not.toBe(threads.onDevice("8:1"));
  });

  test("idle devices are forgotten", async () => {
    const threads = new FileThreads(() => devicesOf(table));
    const idle = threads.onDevice("9:1");
    const { promise, resolve } = Promise.withResolvers<void>();
    const busy = threads.onDevice("9:2");
    const work = busy.run(() => promise);
    for (let n = 0; n < 300; n++) threads.onDevice(`10:${n}`);
    expect(threads.onDevice("9:1")).not.toBe(idle);
    expect(threads.onDevice("9:2")).toBe(busy);
    resolve();
    await work;
  });

  test("a disk that is mounted later is a device of its own after ten seconds", () => {
    let now = 0;
    let text = table;
    const threads = new FileThreads(
      () => devicesOf(text),
      () => now,
    );
    const before = threads.on("/srv/new/v");
    text = `${table}40 30 8:33 / /srv/new rw - ext4 /dev/sdc1 rw\n`;
    expect(threads.on("/srv/new/v")).toBe(before);
    now = 10_001;
    expect(threads.on("/srv/new/v")).not.toBe(before);
    expect(threads.on("/srv/old/v")).toBe(before);
  });
});

test("fifteen file servers that hang leave threads for the others and for the node", async () => {
  const folder = await mkdtemp(`${tmpdir()}/csimux-threads-`);
  try {
    // Reading a pipe without a writer hangs like a share without its server (fifo(7)).
    execFileSync("mkfifo", [`${folder}/share`]);
    const files = new URL("../../lib/io/files.ts", import.meta.url).pathname;
    const program = `
      import { stat } from "node:fs/promises";
      import { filesOn } from ${JSON.stringify(files)};
      for (let server = 0; server < 15; server++)
        for (let call = 0; call < 9; call++) void filesOn("nas" + server).readText("${folder}/share").catch(() => {});
      await new Promise(setImmediate);
      for (const work of [filesOn("another").entry("/"), stat("/")]) await work;
      process.stdout.write("answered", () => process.kill(process.pid, "SIGKILL"));`;
    const env = { ...engineSettings, PATH: "/usr/bin:/bin" };
    const ended = promisify(execFile)(process.execPath, ["-e", program], {
      env,
      timeout: 20_000,
      killSignal: "SIGKILL",
    });
    expect(await ended.catch((error: { readonly stdout: string }) => error)).toMatchObject({ stdout: "answered" });
  } finally {
    await rm(folder, { recursive: true });
  }
}, 30_000);
