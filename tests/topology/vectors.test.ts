import { describe, expect, test } from "bun:test";
import { stringify } from "yaml";
import { readConnection } from "../../lib/config/connection.ts";
import { type ProxyConfig, readProxyConfig } from "../../lib/config/proxy.ts";
import { insideRange, wantedBytes } from "../../lib/core/bytes.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { encodeHandle, isConnectionName, maxHandleBytes, parseHandle } from "../../lib/core/handle.ts";
import { modules } from "../../lib/drivers/index.ts";
import { type AccessibleTopology, accessibleTopologyFor } from "../../lib/topology/accessible-topology.ts";
import { evaluate } from "../../lib/topology/evaluate.ts";
import { decodeNodeId, encodeNodeId } from "../../lib/topology/node-id.ts";
import { compileTopology } from "../../lib/topology/rules.ts";
import { statusName, vectors } from "../vectors/vectors.ts";

const published = vectors();
const nowhere = { env: () => undefined, file: () => undefined };

const titled = <T extends { readonly id: string; readonly note?: string }>(cases: readonly T[]): [string, T][] =>
  cases.map(each => [each.note === undefined ? each.id : `${each.id}: ${each.note}`, each]);

/** The result of the work, or the failure as the vectors name it. */
async function resultOf<T>(work: () => T | Promise<T>): Promise<T | { readonly error: string }> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CsiError) return { error: statusName(error.code) };
    throw error;
  }
}

const refusedConfig = { error: "CONFIG" };

function mainConfig(proxy: Readonly<Record<string, unknown>>): ProxyConfig | undefined {
  const text = stringify({ driver: "proxy", proxy: { configFolder: "/c", ...proxy } });
  return readProxyConfig("proxy.yaml", text, nowhere).config;
}

describe("what nodes report", () => {
  test.each(titled(published.node_topology))(
    "%s",
    async (_, { config, env = {}, files = {}, hostname, expect: want }) => {
      const topology = mainConfig({ nodeTopology: config })?.nodeTopology;
      const compiled = topology && (await Promise.try(() => compileTopology(topology)).catch(() => undefined));
      const facts = {
        nodeName: env["CSI_NODE_ID"],
        hostname,
        env: (name: string) => env[name],
        file: async (path: string) => files[path],
        label: async () => undefined,
      };
      const got = compiled
        ? await resultOf(async () => {
            const { segments, failure } = await evaluate(compiled, facts);
            if (failure) throw failure;
            return { segments };
          })
        : refusedConfig;
      expect(got as unknown).toEqual(want);
    },
  );
});

function placesOf(topology: unknown, prefix: string): readonly AccessibleTopology[] | undefined {
  const perDriver = topology === null ? {} : { topology };
  const text = stringify({
    driver: "local-hostpath",
    "local-hostpath": { shareBasePath: "/srv", controllerBasePath: "/srv" },
    proxy: { perDriver },
  });
  const { config } = readConnection("c", "c.yaml", text, { values: {}, prefix }, nowhere, modules);
  return (
    config &&
    (config.topology ?? []).map(({ requirements, extra }) => ({
      requirements: Object.fromEntries(Object.entries(requirements).map(([key, value]) => [`${prefix}/${key}`, value])),
      extra,
    }))
  );
}

describe("where volumes are placed", () => {
  test.each(titled(published.connection_topology))("%s", async (_, vector) => {
    const { topology, options = {}, requisite, preferred, expect: want } = vector;
    const prefix = "t.example";
    const main = mainConfig(options);
    const places = placesOf(topology, prefix);
    const { topologyMatch = "lenient", reportTopology = "all", honourPreferred = "off" } = main ?? {};
    const policy = { prefix, match: topologyMatch, report: reportTopology, honourPreferred };
    const demand = { requisite: requisite ?? [], preferred: preferred ?? [] };
    const got = places
      ? await resultOf(() => {
          const reported = accessibleTopologyFor(places, demand, policy);
          return { accept: true, accessible_topology: reported.length === 0 ? null : reported };
        })
      : refusedConfig;
    expect(got as unknown).toEqual(want);
  });

  test.each(titled(published.local_driver_topology))("%s", (_, { prefix, expect: want }) => {
    const [segments = {}] = want;
    const own: AccessibleTopology = { requirements: segments, extra: {} };
    const policy = { prefix, match: "strict", report: "all", honourPreferred: "off" } as const;
    expect(accessibleTopologyFor([own], { requisite: [segments], preferred: [segments] }, policy)).toEqual(want);
  });
});

describe("node ids", () => {
  const { config, encode, decode } = published.node_ids;

  test.each(titled(encode))("%s is encoded", async (_, { parts, node, expect: want, bytes }) => {
    const main = mainConfig({ nodeId: { ...config, parts } });
    const got = main ? await resultOf(() => encodeNodeId(node, main.nodeId)) : refusedConfig;
    expect(got).toEqual(want);
    if (typeof got === "string" && bytes !== undefined) expect(Buffer.byteLength(got)).toBe(bytes);
  });

  test.each(titled(decode))("%s is decoded", async (_, { input, expect: want }) => {
    const prefixes = { iqnPrefixes: config.iqnPrefix, nqnPrefixes: config.nqnPrefix };
    expect(await resultOf(() => decodeNodeId(input, prefixes))).toEqual(want);
  });
});

describe("handles", () => {
  // That an id has steps of a path is said by the command alone: below another CSI driver an id may hold anything.
  const plain = titled(published.handles.decode).filter(
    ([, { options, input }]) => options === undefined && !/(^|\/)\.\.?(\/|$)/.test(input),
  );
  test.each(plain)("%s is decoded", (_, { input, kind, expect: want }) => {
    const got = parseHandle(input, kind);
    const wanted = "malformed" in want ? undefined : { kind, connection: want.connection, id: want.handle };
    expect(got).toEqual(wanted);
  });

  test.each(titled(published.handles.encode))("%s is encoded", async (_, vector) => {
    const { kind, connection, handle, bytes, strictHandleLength, expect: want } = vector;
    const got = await resultOf(() => encodeHandle({ kind, connection, id: handle }));
    if (typeof got === "string" && bytes !== undefined) expect(Buffer.byteLength(got)).toBe(bytes);
    const tooLong = strictHandleLength === true && typeof got === "string" && Buffer.byteLength(got) > maxHandleBytes;
    expect(tooLong ? { error: "INVALID_ARGUMENT" } : got).toEqual(want);
  });

  test.each([...published.connection_names.valid])("%j can name a connection", name => {
    expect(isConnectionName(name)).toBe(true);
  });

  test.each([...published.connection_names.invalid])("%j cannot name a connection", name => {
    expect(isConnectionName(name)).toBe(false);
  });
});

describe("sizes", () => {
  test.each(titled(published.capacity_ranges))("%s", async (_, vector) => {
    const required = vector.required === null ? undefined : BigInt(vector.required);
    const limit = vector.limit === null ? undefined : BigInt(vector.limit);
    const got = await resultOf(() => (insideRange(wantedBytes({ required, limit }), { required, limit }) ? "OK" : "?"));
    expect(typeof got === "string" ? got : got.error).toBe(vector.expect);
  });
});

describe("how long connections stay open", () => {
  test.each(titled(published.cache_timeouts))("%s", (_, { value, expect: want }) => {
    const config = mainConfig(value === null ? {} : { cacheTimeoutMinutes: value });
    if (!config) return expect<unknown>(refusedConfig).toEqual(want);
    const { cacheTimeout } = config;
    const minutes = cacheTimeout.kind === "idle" ? { minutes: cacheTimeout.ms / 60_000 } : {};
    expect<unknown>({ mode: cacheTimeout.kind, ...minutes }).toEqual(want);
  });
});
