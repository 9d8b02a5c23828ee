import { expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import type { Status } from "../../lib/observe/status.ts";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { later, pause } from "../waiting.ts";
import { World } from "./world.ts";

/** A csimux with two connections and a group, and these further flags. */
async function started(flags: readonly string[] = []): Promise<World> {
  const sandbox = await makeSandbox("group");
  return World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
}

async function asked(...args: readonly string[]) {
  return spawnSync(await build(), ["status", ...args], { timeout: 60_000, encoding: "utf8" });
}

/** Asks until the status is as wanted. */
async function until(
  world: World,
  wanted: (status: Status) => boolean,
): Promise<{ status: Status; code: number | null }> {
  const limit = Date.now() + 60_000;
  for (;;) {
    const { stdout, stderr, status: code } = await asked("--endpoint", world.sandbox.socket, "--output", "json");
    const status = stdout === "" ? undefined : (JSON.parse(stdout) as Status);
    if (status && wanted(status)) return { status, code };
    if (Date.now() > limit) throw new Error(`not told:\n${stdout}${stderr}`);
    await pause(50);
  }
}

const stateOf = (status: Status, name: string) => status.connections.find(each => each.name === name)?.state;

test("status prints connections, groups and calls, and its exit code says whether all of them work", async () => {
  const world = await started();
  try {
    const isGood = ({ storage }: Status["connections"][number]) => storage?.state === "good";
    const first = await until(world, ({ connections: all }) => all.length === 2 && all.every(isGood));
    expect(first.code).toBe(0);
    expect(first.status.groups).toEqual([{ name: "pool", policy: "ordered", members: ["one", "two"] }]);
    const { volume } = await world.create("pvc-1", "pool");
    await world.create("pvc-2", "nowhere").catch(() => {});
    await world.controller("listVolumes", {});
    const { status } = await until(world, () => true);
    const owner = status.connections.find(each => volume?.volumeId.startsWith(`v:${each.name}/`));
    expect(owner?.lastSuccess?.method).toBe("CreateVolume");
    expect(owner?.volumes?.value).toBe(1);
    expect(status.connections.map(each => each.name)).toEqual(["one", "two"]);
    const file = join(world.sandbox.connections, "two.yaml");
    await writeFile(file, "driver: local-hostpth\n");
    const degraded = await until(world, each => stateOf(each, "two") === "degraded");
    expect(degraded.code).toBe(1);
    expect(degraded.status.connections[1]?.problem).toContain("two.yaml:1:");
    await rm(file);
    await until(world, each => stateOf(each, "two") === "gone");
    const text = await asked("--endpoint", `unix://${world.sandbox.socket}`);
    expect(text.status).toBe(1);
    expect(text.stdout).toContain("two: its file was removed");
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 120_000);

test("an unknown key degrades a connection or the main file; one that resembles a known key makes the file invalid", async () => {
  const world = await started();
  const { config, connections } = world.sandbox;
  const [one, two] = ["one", "two"].map(name => join(connections, `${name}.yaml`));
  const right = readFileSync(`${one}`, "utf8");
  try {
    await writeFile(`${one}`, `${right}colour: red\n`);
    await writeFile(`${two}`, `${right}colour: red # csimux-ignore unknown-key\n`);
    const unknown = await until(world, each => stateOf(each, "one") === "degraded" && stateOf(each, "two") === "good");
    const place = `one.yaml:${right.split("\n").length}:1: unknown key "colour"`;
    expect([unknown.code, unknown.status.connections[0]?.defect]).toEqual([1, expect.stringContaining(place)]);
    expect((await asked("--endpoint", world.sandbox.socket)).stdout).toContain(`one: ${place}`);
    await writeFile(`${one}`, `${right}supended: true\n`);
    const near = await until(world, ({ connections: [first] }) => first?.problem !== undefined);
    expect(near.status.connections[0]?.problem).toContain('unknown key "supended"; did you mean "suspended"?');
    await writeFile(`${one}`, right);
    const main = readFileSync(config, "utf8");
    for (const [key, words] of [
      ["colour", `proxy.yaml:${main.split("\n").length}:1: unknown key "colour"`],
      ["supended", 'did you mean "suspended"?) (still using the last valid version)'],
    ] as const) {
      await writeFile(config, `${main}${key}: red\n`);
      const { code, status } = await until(world, ({ mainProblem }) => mainProblem?.includes(key) === true);
      expect([code, status.mainProblem]).toEqual([1, expect.stringContaining(words)]);
    }
    await writeFile(config, main);
    expect((await until(world, each => each.mainProblem === undefined)).code).toBe(0);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 120_000);

test("a missing folder of connections is reported, with exit code 1, also as YAML", async () => {
  const sandbox = await makeSandbox("off");
  await rm(sandbox.connections, { recursive: true });
  const world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags: [] }));
  try {
    const { code } = await until(world, ({ folderProblem }) => folderProblem !== undefined);
    expect(code).toBe(1);
    const text = await asked("--endpoint", world.sandbox.socket);
    expect([text.status, text.stdout]).toEqual([1, expect.stringContaining("cannot read the connection files: ")]);
    const yaml = await asked("--endpoint", world.sandbox.socket, "-o", "yaml");
    expect([yaml.status, yaml.stdout]).toEqual([1, expect.stringMatching(/^folderProblem: .*/m)]);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("only the user that csimux runs as may ask; a peer that does not read holds nothing up; the socket goes with csimux", async () => {
  const world = await started();
  const socket = `${world.sandbox.socket}.status`;
  try {
    await until(world, () => true);
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const mute = connect({ path: socket });
    await once(mute, "connect");
    mute.pause();
    expect((await until(world, () => true)).status.name).toBe("csimux.example");
    const { code, ms } = await world.daemon.stop();
    mute.destroy();
    expect(code).toBe(0);
    expect(ms).toBeLessThan(15_000);
    expect(existsSync(socket)).toBe(false);
    const gone = await asked("--endpoint", world.sandbox.socket);
    expect([gone.status, gone.stdout]).toEqual([2, ""]);
    expect(gone.stderr).toContain("does not exist; is csimux running");
  } finally {
    await world.end();
  }
}, 120_000);

/** Peers that connect and then do what no client should, many at once; what each of them sends. */
async function abuse(where: { readonly path: string } | { readonly port: number }, text: string): Promise<void> {
  const peers = Array.from({ length: 40 }, async (_, index) => {
    const peer = "path" in where ? connect({ path: where.path }) : connect({ host: "127.0.0.1", port: where.port });
    peer.on("error", () => {});
    const closed = once(peer, "close");
    await Promise.race([once(peer, "connect"), closed]);
    if (index % 2 === 0) peer.write(text);
    if (index % 4 === 0) peer.end();
    else if (index % 4 === 1 && "port" in where) peer.resetAndDestroy();
    else if (index % 4 === 3) peer.once("data", () => peer.destroy());
    else peer.destroy();
    // One that waits for an answer goes away in the middle of it, or of nothing.
    later(() => peer.destroy(), 20).unref();
    await closed;
  });
  await Promise.all(peers);
}

test("nothing that a client does to the other sockets than the CSI one ends the process", async () => {
  const world = await started(["--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"]);
  try {
    const port = async (what: string): Promise<number> => {
      const line = new RegExp(`"serving ${what}","address":"127\\.0\\.0\\.1:(\\d+)"`);
      const limit = Date.now() + 20_000;
      for (;;) {
        const found = line.exec(await world.daemon.log())?.[1];
        if (found !== undefined || Date.now() > limit) return Number(found);
        await pause(20);
      }
    };
    const [metrics, health] = [await port("metrics"), await port("health probes")];
    for (const text of [
      "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nx",
      "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\0".repeat(100_000),
      `GET /${"x".repeat(100_000)} HTTP/1.1\r\n\r\n`,
    ]) {
      for (const each of [metrics, health]) await abuse({ port: each }, text);
      await abuse({ path: `${world.sandbox.socket}.status` }, text);
    }
    expect((await fetch(`http://127.0.0.1:${metrics}/metrics`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${health}/healthz`)).status).toBe(200);
    expect((await until(world, () => true)).status.name).toBe("csimux.example");
    expect(await world.daemon.log()).not.toContain('"level":"error"');
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 120_000);

test("a status socket that cannot be created is logged, and volumes are served anyway", async () => {
  const world = await started(["--status-socket", "/nowhere/at/all/status.sock"]);
  try {
    expect((await world.probe()) !== undefined).toBe(true);
    const limit = Date.now() + 20_000;
    while (!(await world.daemon.log()).includes("csimux status is not available") && Date.now() < limit)
      await pause(20);
    expect(await world.daemon.log()).toContain("the folder /nowhere/at/all of the socket does not exist");
    await world.create("pvc-1");
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("--watch prints it repeatedly, in JSON one line for each time", async () => {
  const world = await started();
  const args = ["status", "--endpoint", world.sandbox.socket, "--output", "json", "--watch", "0.05"];
  try {
    await until(world, () => true);
    const child = spawn(await build(), args, { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    for await (const chunk of child.stdout) {
      text += String(chunk);
      if (text.split("\n").length > 3) break;
    }
    child.kill("SIGINT");
    const times = text
      .split("\n")
      .slice(0, 3)
      .map(line => (JSON.parse(line) as Status).now);
    expect(new Set(times).size).toBe(3);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("metrics are served where they are asked for, and only then", async () => {
  const world = await started(["--metrics-address", "127.0.0.1:0"]);
  try {
    await world.create("pvc-1", "one");
    await world.create("pvc-2", "made-up").catch(() => {});
    const port = async () => /"serving metrics","address":"127\.0\.0\.1:(\d+)"/.exec(await world.daemon.log())?.[1];
    const limit = Date.now() + 20_000;
    while ((await port()) === undefined && Date.now() < limit) await pause(20);
    const answer = await fetch(`http://127.0.0.1:${await port()}/metrics`);
    expect(answer.headers.get("content-type")).toStartWith("application/openmetrics-text; version=1.0.0");
    const page = await answer.text();
    expect(page).toContain('csimux_calls_total{method="CreateVolume",connection="one",code="ok"} 1');
    expect(page).toContain('csimux_connection_state{connection="two",state="good"} 1');
    expect(page).not.toContain("made-up");
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("an address for metrics that is taken stops the start, in words", async () => {
  const world = await started(["--metrics-address", "127.0.0.1:0"]);
  try {
    const port = async () => /"address":"127\.0\.0\.1:(\d+)"/.exec(await world.daemon.log())?.[1];
    const limit = Date.now() + 20_000;
    while ((await port()) === undefined && Date.now() < limit) await pause(20);
    const { config, folder } = world.sandbox;
    const flags = ["serve", "--config", config, "--endpoint", join(folder, "b.sock"), "--state-dir", join(folder, "b")];
    const address = `127.0.0.1:${await port()}`;
    const second = spawnSync(await build(), [...flags, "--metrics-address", address], {
      timeout: 30_000,
      encoding: "utf8",
    });
    expect(second.status).toBe(1);
    expect(second.stderr).toContain(`cannot serve metrics on ${address}: EADDRINUSE`);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("status --bundle writes a report into a new file that only its owner may read, and the status stays as it was", async () => {
  const world = await started(["--metrics-address", "127.0.0.1:0"]);
  try {
    await world.create("pvc-1", "one");
    await until(world, each => each.connections.length === 2);
    const file = join(world.sandbox.folder, "report.txt");
    const run = await asked("--endpoint", world.sandbox.socket, "--bundle", file);
    expect([run.status, run.stdout, run.stderr]).toEqual([0, "", ""]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const text = await Bun.file(file).text();
    for (const words of [
      `===== ${world.sandbox.config} =====`,
      "driver: local-hostpath",
      '"CreateVolume"',
      "csimux_build_info",
    ])
      expect(text).toContain(words);
    const again = await asked("--endpoint", world.sandbox.socket, "--bundle", file);
    expect([again.status, again.stderr]).toEqual([2, expect.stringContaining("EEXIST")]);
    expect(await Bun.file(file).text()).toBe(text);
    const printed = await asked("--endpoint", world.sandbox.socket, "--bundle", "-");
    expect([printed.status, printed.stdout]).toEqual([0, expect.stringContaining("===== status =====")]);
    const json = await asked("--endpoint", world.sandbox.socket, "--output", "json");
    expect(Object.keys(JSON.parse(json.stdout))).not.toContain("details");
  } finally {
    await world.end();
  }
}, 60_000);
