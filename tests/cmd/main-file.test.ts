import { afterEach, beforeEach, expect, setSystemTime, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { valueResolver } from "../../cmd/host.ts";
import { connectionFiles } from "../../lib/daemon/connection-files.ts";
import { MainFile } from "../../lib/daemon/main-file.ts";
import type { Connection } from "../../lib/mux/connection.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";

const { log } = testCall();
let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-main-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const text = (more = "", comment = "") =>
  `${comment}driver: proxy\nproxy:\n  configFolder: ${folder}/connections\n${more}`;

/** A main file, connections that read their defaults from it, and how often each name was opened: each opening is a login. */
async function world(first: string) {
  const path = join(folder, "proxy.yaml");
  await writeFile(path, first);
  const main = await MainFile.load(path, valueResolver({}), log);
  const logins: string[] = [];
  const memories: MemoryDriver[] = [];
  const open = (name: string): Connection => {
    logins.push(name);
    const memory = new MemoryDriver();
    memories.push(memory);
    const driver = memory.driver();
    const plain = { name, driverName: "memory", family: "memory", driver, access: driver.access };
    return { ...plain, accessibleTopology: [], labels: {}, suspended: false, retain: false };
  };
  const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
  const connections = new Connections(
    { names: async () => names, read: async () => "driver: memory", labels: async () => undefined },
    async () => open,
    () => main.config.defaults,
    { kind: "forever" },
    log,
  );
  const edit = async (now: string) => {
    await writeFile(path, now);
    await main.reread();
    await connections.survey();
    for (const name of names) await connections.use(name, "retry", async () => {});
  };
  await edit(first);
  return { main, logins, memories, edit };
}

test("a comment, or a setting that no connection inherits, logs in nowhere again; a default that they inherit does", async () => {
  const { main, logins, memories, edit } = await world(text());
  expect(logins).toHaveLength(20);
  await edit(text("", "# a comment\n"));
  await edit(text("  listing: partial\n  groups:\n    g: { members: [c0, c1] }\n"));
  expect(main.config.listing).toBe("partial");
  expect(main.config.groups.has("g")).toBe(true);
  expect(logins).toHaveLength(20);
  expect(memories.every(({ closed }) => closed === 0)).toBe(true);
  await edit(text("zfs:\n  cli: { sudoEnabled: true }\n"));
  expect(logins).toHaveLength(40);
});

test("the legacy connection may become another one, but not none while csimux runs", async () => {
  const { main, edit } = await world(text("  legacyConnection: c0\n"));
  await edit(text("  listing: partial\n"));
  expect(main.config).toMatchObject({ listing: "partial", legacyConnection: "c0" });
  await edit(text("  legacyConnection: c1\n"));
  expect(main.config).toMatchObject({ listing: "complete", legacyConnection: "c1" });
});

test("checks of the main file run one after the other, so that the last one counts", async () => {
  const { main } = await world(text());
  const path = join(folder, "proxy.yaml");
  for (let round = 0; round < 20; round++) {
    const looks: Promise<void>[] = [];
    for (const listing of ["partial", "complete"]) {
      await writeFile(path, text(`  listing: ${listing}\n`));
      looks.push(main.reread());
    }
    await Promise.all(looks);
    expect(main.config.listing).toBe("complete");
  }
});

test("a main file that cannot be read is not called invalid, and the last valid version stays in use", async () => {
  const path = join(folder, "proxy.yaml");
  await writeFile(path, text("  listing: partial\n"));
  const warned: string[] = [];
  const warn = (message: string, fields?: object) => void warned.push(`${message}: ${JSON.stringify(fields)}`);
  const main = await MainFile.load(path, valueResolver({}), { ...log, warn });
  await rm(path);
  await main.reread();
  await writeFile(path, "driver: proxy\nproxy: [");
  await main.reread();
  const last = "still using the last valid version";
  expect(warned).toEqual([
    `the main file could not be read; ${last}: {"reason":"the main file ${path} is gone"}`,
    expect.stringContaining(`the main file is invalid; ${last}: `),
  ]);
  expect(main.config.listing).toBe("partial");
});

test("a changed main file is read also after the clock was set back", async () => {
  const { main } = await world(text());
  try {
    setSystemTime(new Date(Date.now() - 86_400_000));
    await writeFile(join(folder, "proxy.yaml"), text("  listing: partial\n"));
    const until = performance.now() + 10_000;
    while (main.config.listing !== "partial" && performance.now() < until) {
      await pause(20);
      await main.refresh();
    }
    expect(main.config.listing).toBe("partial");
  } finally {
    setSystemTime();
  }
});

test("the flags of mounts that are in files of their own are those that the files have now", async () => {
  const at = (name: string) => join(folder, name);
  await mkdir(at("connections"));
  const node = (name: string) => `node: { mount: { mount_flagsFile: ${at(name)} } }\n`;
  await writeFile(at("proxy.yaml"), `driver: proxy\nproxy: { configFolder: ${at("connections")} }\n${node("all")}`);
  const nas = "driver: smb-client\nsmb: { shareHost: nas, shareBasePath: data, controllerBasePath: /x }\n";
  await writeFile(at("connections/nas.yaml"), nas + node("own"));
  const write = async (password: string) => {
    for (const name of ["all", "own"]) await writeFile(at(name), `username=${name},password=${password}`);
  };
  await write("old");
  const resolver = valueResolver({});
  const main = await MainFile.load(at("proxy.yaml"), resolver, log);
  const { mountFlags } = connectionFiles(main, resolver);
  const flags = async () => [await mountFlags("v:nas/a"), await mountFlags("v:other/a")];
  const flagsWith = (password: string) => ["own", "all"].map(name => [`username=${name}`, `password=${password}`]);
  expect(await flags()).toEqual(flagsWith("old"));
  await write("new");
  await main.reread();
  expect(await flags()).toEqual(flagsWith("new"));
});
