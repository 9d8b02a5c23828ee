import { type Level, levels } from "../../lib/core/log.ts";
import { isLoopback } from "../../lib/observe/page-access.ts";
import { UsageError } from "../terminal/terminal.ts";
import { type Alias, aliasesOf } from "./aliases.ts";

/** The flags of `serve`, under commander's names. */
export interface ServeFlags {
  readonly endpoint?: readonly string[];
  readonly config?: string;
  readonly driverConfigFile?: string;
  readonly name?: string;
  readonly csiName?: string;
  readonly mode?: readonly string[];
  readonly csiMode?: readonly string[];
  readonly csiVersion?: string;
  readonly logLevel?: string;
  readonly logFormat?: string;
  readonly serverSocket?: string;
  readonly serverAddress?: string;
  readonly serverPort?: string;
  readonly serverSocketPermissionsMode?: string;
  readonly stateDir?: string;
  readonly nodeId?: string;
  readonly statusSocket?: string;
  readonly metricsAddress?: string;
  readonly healthAddress?: string;
  readonly pageAddress?: string;
  readonly pageTokenFile?: string;
  readonly healthInterval?: string;
  readonly pluginRegistrationSocket?: string;
  readonly kubeletRegistrationPath?: string;
  readonly alias?: readonly string[];
}

/** A half of csimux. */
export type Mode = "controller" | "node";

/** The validated command line of `serve`, with defaults filled in. */
export interface ServeOptions {
  readonly endpoints: readonly string[];
  readonly config: string;
  readonly name: string;
  /** Other driver names that are served, each for one connection. */
  readonly aliases: readonly Alias[];
  readonly modes: ReadonlySet<Mode>;
  /** [major, minor]: nothing newer is advertised. */
  readonly csiVersion: readonly [number, number];
  readonly logLevel: Level;
  readonly logFormat: "json" | "text" | undefined;
  readonly socketMode: number;
  readonly stateDir: string | undefined;
  /** CSI_NODE_ID: the name of this node in the cluster. */
  readonly nodeName: string | undefined;
  /** The socket for `csimux status`; undefined: next to the CSI socket. */
  readonly statusSocket: string | undefined;
  /** The address of the metrics; undefined: off. */
  readonly metricsAddress: Address | undefined;
  /** The address of /healthz and /readyz; undefined: off. */
  readonly healthAddress: Address | undefined;
  /** The address of the status page, and the file of its token, which only a loopback address may lack; undefined: off. */
  readonly page: { readonly address: Address; readonly tokenFile: string | undefined } | undefined;
  /** The interval of the health checks of storage systems and volumes, in milliseconds; 0: only on request. */
  readonly healthMs: number;
  /** The registration with kubelet; undefined: another program registers the driver. */
  readonly registration: { readonly socket: string; readonly csiSocket: string | undefined } | undefined;
}

/** A host (IPv6 in brackets; empty: all addresses of the machine) and a port. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The defaults if neither a flag nor a variable is set. */
export const defaults = {
  endpoint: "unix:///csi/csi.sock",
  name: "csimux.storage",
  modes: "controller,node",
  version: "1.13.0",
  logLevel: "info",
  healthInterval: "60",
  mode: "0600",
} as const;

/** democratic-csi's log levels and their equivalents. */
const levelNames: Readonly<Record<string, Level>> = { verbose: "debug", silly: "debug" };

/**
 * Combines flags and environment. A flag takes precedence over DEMOCRATIC_CSI_<FLAG>, which takes precedence over
 * CSI_ENDPOINT and the defaults; CSI_VERSION takes precedence over everything, as in democratic-csi. Throws UsageError.
 */
export function serveOptions(flags: ServeFlags, env: Readonly<Record<string, string | undefined>>): ServeOptions {
  const old = (flag: string) => env[`DEMOCRATIC_CSI_${flag}`] || undefined;
  const config = flags.config ?? flags.driverConfigFile ?? old("DRIVER_CONFIG_FILE");
  if (!config)
    throw new UsageError(
      "--config is missing: the path of the main file (proxy.yaml); csimux --help lists the commands",
    );
  const name = driverName("--name", flags.name ?? flags.csiName ?? old("CSI_NAME") ?? defaults.name);
  return {
    endpoints: endpoints(flags, env),
    config,
    name,
    aliases: aliasesOf(flags.alias ?? [], name, alias => driverName("--alias", alias)),
    modes: modes(flags.mode ?? flags.csiMode ?? [old("CSI_MODE") ?? defaults.modes]),
    csiVersion: version(env["CSI_VERSION"] || flags.csiVersion || old("CSI_VERSION") || defaults.version),
    logLevel: level(flags.logLevel ?? old("LOG_LEVEL") ?? defaults.logLevel),
    logFormat: format(flags.logFormat),
    socketMode: socketMode(flags.serverSocketPermissionsMode ?? old("SERVER_SOCKET_PERMISSIONS_MODE") ?? defaults.mode),
    stateDir: pathOf("--state-dir", flags.stateDir),
    nodeName: flags.nodeId || env["CSI_NODE_ID"] || undefined,
    statusSocket: pathOf("--status-socket", flags.statusSocket),
    metricsAddress: address("--metrics-address", flags.metricsAddress),
    healthAddress: address("--health-address", flags.healthAddress),
    page: page(flags),
    healthMs: healthMs(flags.healthInterval ?? defaults.healthInterval),
    registration: registration(flags),
  };
}

function endpoints(flags: ServeFlags, env: Readonly<Record<string, string | undefined>>): readonly string[] {
  const old = (flag: string) => env[`DEMOCRATIC_CSI_${flag}`] || undefined;
  const socket = flags.serverSocket ?? old("SERVER_SOCKET");
  const address = flags.serverAddress ?? old("SERVER_ADDRESS");
  const port = flags.serverPort ?? old("SERVER_PORT");
  if ((address === undefined) !== (port === undefined))
    throw new UsageError("--server-address and --server-port must be given together; give both or neither");
  const given = [...(flags.endpoint ?? [])];
  if (socket) given.push(socket);
  if (address && port) given.push(`tcp://${/^[^[].*:/.test(address) ? `[${address}]` : address}:${port}`);
  return given.length > 0 ? given : [env["CSI_ENDPOINT"] || defaults.endpoint];
}

/**
 * CSI GetPluginInfo: at most 63 characters, domain-name style. csi-sanity also requires a letter at both ends, but
 * existing volumes bind a cluster to the name under which they were created, which may end in a digit.
 */
export function driverName(flag: string, name: string): string {
  if (/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/.test(name)) return name;
  const text = `${flag} "${name}" is not a driver name: up to 63 letters, digits, "-" and ".", with a letter or digit at both ends`;
  throw new UsageError(text);
}

/** An empty path, for example from an unset variable, would be below the working folder, where files get lost. */
function pathOf(flag: string, path: string | undefined): string | undefined {
  if (path === "") throw new UsageError(`${flag} is empty; name a path, or omit the flag`);
  return path;
}

function registration({
  pluginRegistrationSocket: socket,
  kubeletRegistrationPath: csiSocket,
  mode,
  csiMode,
}: ServeFlags) {
  if (socket === undefined) {
    if (csiSocket === undefined) return undefined;
    throw new UsageError("--kubelet-registration-path requires --plugin-registration-socket; give both or neither");
  }
  if (!socket.startsWith("/")) throw new UsageError("--plugin-registration-socket must be an absolute path");
  if (csiSocket !== undefined && !csiSocket.startsWith("/"))
    throw new UsageError("--kubelet-registration-path must be an absolute path of the host");
  if ((mode ?? csiMode) && !modes(mode ?? csiMode ?? []).has("node"))
    throw new UsageError("--plugin-registration-socket is for nodes; this process is only a controller (--mode)");
  return { socket, csiSocket };
}

/** host:port, or :port for all addresses of the machine, as in the flags of the Kubernetes sidecars. */
function address(flag: string, text: string | undefined): Address | undefined {
  if (text === undefined) return undefined;
  const [, host, digits] = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]*):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined || Number(digits) > 65_535)
    throw new UsageError(`${flag} must be host:port or :port, not "${text}"`);
  return { host, port: Number(digits) };
}

function page({ pageAddress, pageTokenFile: tokenFile }: ServeFlags): ServeOptions["page"] {
  const at = address("--page-address", pageAddress);
  if (tokenFile === "") throw new UsageError("--page-token-file is empty; name a file, or omit the flag");
  if (at && tokenFile === undefined && !isLoopback(at.host))
    throw new UsageError(
      `--page-address ${pageAddress} can be reached from other machines: give --page-token-file, or use 127.0.0.1:${at.port}`,
    );
  if (!at && tokenFile !== undefined) throw new UsageError("--page-token-file requires --page-address");
  return at && { address: at, tokenFile };
}

function healthMs(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== "" && seconds >= 0 && seconds <= 86_400) return Math.round(seconds * 1000);
  throw new UsageError(`--health-interval must be a number of seconds, 0 for never, not "${text}"`);
}

function modes(given: readonly string[]): ReadonlySet<Mode> {
  const names = given.flatMap(text => text.split(",")).map(text => text.trim());
  const bad = names.find(name => name !== "controller" && name !== "node");
  if (bad !== undefined) throw new UsageError(`--mode takes controller, node or both, not "${bad}"`);
  return new Set(names as readonly Mode[]);
}

/** Any version of the specification is accepted; the newest supported one is the upper bound. */
function version(text: string): readonly [number, number] {
  const [, major, minor] = /^v?(\d+)\.(\d+)(?:\.\d+)?$/.exec(text) ?? [];
  if (major === undefined || minor === undefined)
    throw new UsageError(`--csi-version must be a version such as 1.5.0, not "${text}"`);
  return [Number(major), Number(minor)];
}

function level(text: string): Level {
  const found = levelNames[text] ?? levels.find(each => each === text);
  if (!found)
    throw new UsageError(`--log-level must be one of error, warn, info, verbose, debug, silly, not "${text}"`);
  return found;
}

function format(text: string | undefined): "json" | "text" | undefined {
  if (text === undefined || text === "json" || text === "text") return text;
  throw new UsageError(`--log-format must be json or text, not "${text}"`);
}

function socketMode(text: string): number {
  if (/^0?[0-7]{3}$/.test(text)) return Number.parseInt(text, 8);
  throw new UsageError(`--server-socket-permissions-mode must be three octal digits, not "${text}"`);
}
