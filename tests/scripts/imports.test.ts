import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { checkImports } from "../../scripts/check/imports.ts";
import { root } from "../../scripts/spawned.ts";

let checkout = "";

const tidy: Readonly<Record<string, string>> = {
  "lib/core/errors.ts": "export const errors = 1;",
  "lib/io/runner.ts": 'import { errors } from "../core/errors.ts"; export type Runner = typeof errors;',
  "lib/io/process-group.ts": 'import { spawn } from "node:child_process"; export const local = spawn;',
  "lib/drivers/module.ts": 'import type { Runner } from "../io/runner.ts"; export type Module = Runner;',
  "lib/drivers/zfs/zfs.ts": "export const zfs = 1;",
  "lib/drivers/memory/module.ts": 'import * as v from "valibot"; export const memory = v;',
  "lib/config/proxy.ts": 'import type { Module } from "../drivers/module.ts"; export type Proxy = Module;',
  "lib/csi/gen/csi_pb.ts": "export const generated = 1;",
  "lib/csi/server.ts": 'import { generated } from "./gen/csi_pb.ts"; export const server = generated;',
  "cmd/id/id.ts": 'import { errors } from "../../lib/core/errors.ts"; export const id = errors;',
  "cmd/cluster/move.ts": "export const move = 1;",
  "cmd/csimux.ts":
    'export const main = () => [import("./id/id.ts"), import("./cluster/move.ts"), import("../lib/csi/server.ts")];',
};

const planted: readonly (readonly [rule: string, file: string, text: string])[] = [
  ["lib-core-layer", "lib/core/bad.ts", 'import { local } from "../io/process-group.ts"; export const bad = local;'],
  ["lib-core-layer", "lib/core/bad.ts", 'import type { Runner } from "../io/runner.ts"; export type Bad = Runner;'],
  ["lib-core-layer", "lib/core/bad.ts", 'export type Bad = import("../io/runner.ts").Runner;'],
  ["lib-core-packages", "lib/core/bad.ts", 'import { parse } from "yaml"; export const bad = parse;'],
  [
    "lib-drivers-ts-types-only",
    "lib/drivers/driver.ts",
    'import { local } from "../io/process-group.ts"; export const bad = local;',
  ],
  ["lib-config-types-only", "lib/config/bad.ts", 'import "../drivers/module.ts"; export const bad = 1;'],
  [
    "driver-families-apart",
    "lib/drivers/zfs/bad.ts",
    'import { memory } from "../memory/module.ts"; export const bad = memory;',
  ],
  [
    "zfs-parts-for-zfs-families",
    "lib/drivers/memory/bad.ts",
    'import { zfs } from "../zfs/zfs.ts"; export const bad = zfs;',
  ],
  [
    "driver-schemas-only-use-valibot",
    "lib/drivers/memory/bad.ts",
    'import * as v from "valibot"; export const bad = v;',
  ],
  [
    "generated-code-in-csi",
    "lib/io/bad.ts",
    'import { generated } from "../csi/gen/csi_pb.ts"; export const bad = generated;',
  ],
  [
    "processes-in-local-runner",
    "lib/io/bad.ts",
    'import { spawn } from "node:child_process"; export const bad = spawn;',
  ],
  ["clients-of-a-cluster-apart", "cmd/id/bad.ts", 'import "../cluster/move.ts"; export const bad = 1;'],
  ["pure-core", "lib/core/bad.ts", 'import { readFile } from "node:fs/promises"; export const bad = readFile;'],
  ["process-in-cmd", "lib/io/bad.ts", 'import process from "node:process"; export const bad = process;'],
  ["portable", "lib/io/bad.ts", 'import { $ } from "bun"; export const bad = $;'],
  ["lib-below-all", "lib/io/bad.ts", 'import { id } from "../../cmd/id/id.ts"; export const bad = id;'],
  ["known-folder", "lib/utils/bad.ts", 'import { errors } from "../core/errors.ts"; export const bad = errors;'],
  ["resolvable", "lib/io/bad.ts", 'import { gone } from "./gone.ts"; export const bad = gone;'],
  ["no-cycle", "lib/io/bad.ts", 'import { worse } from "./worse.ts"; export const bad = worse;'],
  [
    "quick-commands-stay-light",
    "cmd/id/id.ts",
    'import { server } from "../../lib/csi/server.ts"; export const id = server;',
  ],
  [
    "serve-is-loaded-late",
    "cmd/csimux.ts",
    'import { server } from "../lib/csi/server.ts"; export const main = server;',
  ],
  ["cmd-packages", "cmd/id/id.ts", 'import { parse } from "yaml"; export const id = parse;'],
];

async function write(name: string, text: string): Promise<void> {
  await mkdir(dirname(join(checkout, name)), { recursive: true });
  await writeFile(join(checkout, name), text);
}

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), "csimux-imports-"));
  await symlink(join(root, "node_modules"), join(checkout, "node_modules"));
  for (const [name, text] of Object.entries(tidy)) await write(name, text);
});

afterAll(() => rm(checkout, { recursive: true, force: true }));

describe("the import rules", () => {
  test("accept a tidy checkout and really read its TypeScript", async () => {
    expect(await checkImports(checkout)).toEqual({ files: Object.keys(tidy).length, violations: [] });
  });

  test.each(planted)("refuse a planted import by rule %s", async (rule, file, text) => {
    await write("lib/io/worse.ts", 'import { bad } from "./bad.ts"; export const worse = bad;');
    await write("lib/io/bad.ts", "export const bad = 1;");
    await write(file, text);
    const { violations } = await checkImports(checkout);
    await rm(join(checkout, "lib/io/worse.ts"));
    await rm(join(checkout, "lib/io/bad.ts"), { force: true });
    if (tidy[file] === undefined) await rm(join(checkout, file), { force: true });
    else await write(file, tidy[file]);
    expect(
      violations.filter(line => line.startsWith(`${rule}: ${file}`) || line.startsWith(`${rule}: lib/io/`)),
    ).not.toBeEmpty();
  });
});
