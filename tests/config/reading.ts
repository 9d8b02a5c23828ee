import { readConnection } from "../../lib/config/connection.ts";
import { type Defaults, readProxyConfig } from "../../lib/config/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";
import type { Diagnostic } from "../../lib/schema/finding.ts";
import type { ValueResolver } from "../../lib/schema/value-resolver.ts";

/** An outside world made of two plain objects. */
export const outside = (env: Record<string, string> = {}, files: Record<string, string> = {}): ValueResolver => ({
  env: name => (Object.hasOwn(env, name) ? env[name] : undefined),
  file: path => (Object.hasOwn(files, path) ? files[path] : undefined),
});

export const noDefaults: Defaults = { values: {}, prefix: "org.democratic-csi.topology" };

export const connection = (text: string, defaults: Defaults = noDefaults, world: ValueResolver = outside()) =>
  readConnection("c1", "c1.yaml", text, defaults, world, modules);

export const main = (text: string, world: ValueResolver = outside()) => readProxyConfig("proxy.yaml", text, world);

/** `rule@line:column path`, the gist of a diagnostic. */
export const gist = (all: readonly Diagnostic[]): readonly string[] =>
  all.map(({ rule, line, column, path }) => `${rule}@${line}:${column} ${path}`);

export const nfs = `driver: nfs-client
nfs:
  shareHost: nas.example.org
  shareBasePath: /export/k8s
  controllerBasePath: /storage
`;
