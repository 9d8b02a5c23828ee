import { dirname, join, resolve } from "node:path";
import { CsiError } from "../../lib/core/errors.ts";
import { connectionNameForm, encodeHandle, isConnectionName, parseHandle } from "../../lib/core/handle.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import type { NodeCalls } from "../../lib/csi/node.ts";
import { UsageError } from "../terminal/terminal.ts";

/** Another driver name that the process serves, and its connection: a driver that was taken over. */
export interface Alias {
  readonly name: string;
  readonly connection: string;
}

/** Parses `--alias`. `checked` throws UsageError for an invalid driver name. */
export function aliasesOf(given: readonly string[], main: string, checked: (name: string) => string): readonly Alias[] {
  const names = new Set([main]);
  return given.map(text => {
    const [name = "", connection = "", ...more] = text.split("=");
    if (more.length > 0 || !isConnectionName(connection))
      throw new UsageError(
        `--alias must be <old driver name>=<connection>, not "${text}"; a connection is ${connectionNameForm}`,
      );
    checked(name);
    if (names.has(name)) throw new UsageError(`--alias "${text}": the name "${name}" is already taken`);
    names.add(name);
    return { name, connection };
  });
}

/** The first Unix socket of these endpoints as an absolute path; undefined for a process that listens only on TCP. */
export function ownSocket(endpoints: readonly string[]): string | undefined {
  const [own] = endpoints.map(parseEndpoint).flatMap(each => (each.kind === "unix" ? [each.path] : []));
  return own && resolve(own);
}

/** The CSI socket of an alias: next to csimux's, named after the alias. */
export const aliasSocket = (csiSocket: string, { name }: Alias): string => join(dirname(csiSocket), `${name}.sock`);

/** The registration socket of an alias, in the same folder of kubelet. */
export const aliasRegistration = (socket: string, { name }: Alias): string => join(dirname(socket), `${name}-reg.sock`);

/**
 * Throws "failed-precondition" if an alias cannot be served: it needs a folder for its socket, and an existing
 * connection.
 */
export function refuseAliases(
  aliases: readonly Alias[],
  endpoints: readonly string[],
  single: string | undefined,
): void {
  const [first] = aliases;
  if (first === undefined) return;
  if (ownSocket(endpoints) === undefined)
    throw new CsiError("failed-precondition", "--alias needs a Unix socket: give --endpoint unix:///...");
  const wrong = single === undefined ? undefined : aliases.find(({ connection }) => connection !== single);
  if (wrong) {
    const text = `the main file configures one driver, as the connection "${single}": write --alias ${wrong.name}=${single}`;
    throw new CsiError("failed-precondition", text);
  }
}

/**
 * Wraps the volumes of this node for callers that use ids without a prefix: volumes are recorded under their full
 * handles, so that a volume is the same under every driver name, and equal ids of two connections are two volumes.
 */
export function unprefixed(volumes: NodeCalls, connection: string): NodeCalls {
  const whole = <T extends { readonly volumeId: string }>(request: T): T => {
    const { volumeId } = request;
    if (volumeId === "" || parseHandle(volumeId, "volume")) return request;
    return { ...request, volumeId: encodeHandle({ kind: "volume", connection, id: volumeId }) };
  };
  return {
    stage: (request, call) => volumes.stage(whole(request), call),
    unstage: (request, call) => volumes.unstage(whole(request), call),
    publish: (request, call) => volumes.publish(whole(request), call),
    unpublish: (request, call) => volumes.unpublish(whole(request), call),
    stats: (request, call) => volumes.stats(whole(request), call),
    health: (request, call) => volumes.health(whole(request), call),
    storageHealth: call => volumes.storageHealth(call),
    expand: (request, least, call) => volumes.expand(whole(request), least, call),
  };
}
