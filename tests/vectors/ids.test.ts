import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { type Spawned, spawned } from "../../scripts/spawned.ts";
import { vectors } from "./vectors.ts";

const { handles, node_ids: nodeIds } = vectors();

let program = "";
let folder = "";

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-ids-"));
}, 60_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const csimux = (...args: readonly string[]): Promise<Spawned> => spawned([program, "id", ...args]);

/** A main file with these node ids, as a path. */
async function mainFile(name: string, nodeId: object): Promise<string> {
  const file = join(folder, `${name}.yaml`);
  await writeFile(file, JSON.stringify({ driver: "proxy", proxy: { configFolder: folder, nodeId } }));
  return file;
}

describe("csimux id decode", () => {
  test.each(handles.decode.map(each => [each.id, each.input, each] as const))("%s: %p", async (_, input, vector) => {
    const legacy = vector.options ? ["--legacy-connection", vector.options.legacyConnection] : [];
    const { code, stdout } = await csimux("decode", "-o", "json", "--kind", vector.kind, ...legacy, "--", input);
    const { expect: want, kind } = vector;
    if ("malformed" in want) {
      expect(code).toBe(1);
      expect(JSON.parse(stdout)).toHaveProperty("error.code", "INVALID_ARGUMENT");
    } else {
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toEqual({ kind, connection: want.connection, id: want.handle });
    }
  });

  test.each(nodeIds.decode.map(each => [each.id, each.input, each] as const))(
    "%s: node id %p",
    async (id, input, { expect: want }) => {
      const config = await mainFile(`decode-${id}`, nodeIds.config);
      const { code, stdout } = await csimux("decode", "-o", "json", "--kind", "node", "--config", config, "--", input);
      expect(code).toBe("error" in want ? 1 : 0);
      if ("error" in want) expect(JSON.parse(stdout)).toHaveProperty("error.code", want.error);
      else expect(JSON.parse(stdout)).toEqual({ kind: "node", ...want });
    },
  );
});

describe("csimux id encode", () => {
  test.each(handles.encode.map(each => [each.id, each] as const))("%s", async (_, vector) => {
    const { kind, connection, handle, strictHandleLength, bytes, expect: want } = vector;
    const strict = strictHandleLength ? ["--strict"] : [];
    const { code, stdout } = await csimux("encode", ...strict, "--", kind, connection, handle);
    if (typeof want !== "string") return expect([code, stdout]).toEqual([1, ""]);
    expect([code, stdout]).toEqual([0, `${want}\n`]);
    expect(Buffer.byteLength(stdout.trimEnd())).toBe(bytes ?? -1);
  });

  test.each(nodeIds.encode.map(each => [each.id, each] as const))("%s: node id", async (id, vector) => {
    const { parts, node, expect: want } = vector;
    const config = await mainFile(`encode-${id}`, { ...nodeIds.config, parts });
    const flags = { "--node-name": node.nodeName, "--hostname": node.hostname, "--iqn": node.iqn, "--nqn": node.nqn };
    const given = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
    const { code, stdout, stderr } = await csimux("encode", "node", "--config", config, ...given);
    if (typeof want === "string") return expect([code, stdout]).toEqual([0, `${want}\n`]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toStartWith("csimux: ");
  });
});
