import { noDefaults } from "../../lib/config/proxy.ts";
import type { Call } from "../../lib/core/call.ts";
import { leveledLog } from "../../lib/core/log.ts";
import { mapLimit } from "../../lib/core/semaphore.ts";
import { visible } from "../../lib/core/visible.ts";
import { opener } from "../../lib/daemon/opener.ts";
import type { DriverPorts } from "../../lib/drivers/module.ts";
import type { LintProblem } from "../../lib/lint/lint.ts";
import type { ConnectionFile, LintInput } from "../../lib/lint/lint-input.ts";
import { located, problem } from "../../lib/schema/finding.ts";
import type { Host } from "../host.ts";
import { openPorts } from "../ports.ts";

/** The number of storage systems checked at once. */
const parallel = 8;

/** Time limit for one storage system, in milliseconds. */
const defaultLimitMs = 20_000;

/** Opens one connection and runs its driver's check. Rejects with the problem. */
export type CheckConnection = (connection: ConnectionFile, signal: AbortSignal) => Promise<void>;

/** The share of a connection is not mounted on this machine. */
export class NotMountedHere extends Error {
  override readonly name = "NotMountedHere";
}

/** The result of checking storage systems: failures, and in words what could not be checked here. */
export interface OnlineResult {
  readonly problems: readonly LintProblem[];
  readonly unseen: readonly string[];
}

/**
 * Checks every connection with a valid file; each failure is a problem of its file. A share that is not mounted here is not a failure,
 * because csimux serve mounts it itself. Changes nothing on this machine.
 */
export async function online(
  input: LintInput,
  host: Host,
  given?: CheckConnection,
  limitMs = defaultLimitMs,
): Promise<OnlineResult> {
  const { check, close } = given ? { check: given, close: async () => {} } : opening(input, host);
  const waiting = input.connections.filter(({ read }) => read.config);
  const total = waiting.length;
  const problems: LintProblem[] = [];
  const unseen: string[] = [];
  let done = 0;
  await mapLimit(waiting, parallel, async connection => {
    const failed = await checked(connection, check, limitMs);
    if (typeof failed === "string") unseen.push(failed);
    else if (failed) problems.push(failed);
    done++;
    if (host.colour) host.err(`\r\x1b[Kchecked ${done} of ${total} connections, ${problems.length} failed`);
  });
  if (host.colour && total > 0) host.err("\r\x1b[K");
  await close();
  return { problems: problems.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0)), unseen: unseen.sort() };
}

async function checked(connection: ConnectionFile, check: CheckConnection, limitMs: number) {
  const { document, name } = connection;
  const signal = AbortSignal.timeout(limitMs);
  try {
    await Promise.race([check(connection, signal), aborted(signal)]);
    return undefined;
  } catch (error) {
    if (isNotMountedHere(error))
      return `connection "${name}" was not checked: its share is not mounted on this machine; csimux serve mounts it itself`;
    const reason = signal.aborted
      ? `no answer within ${limitMs / 1000} s`
      : error instanceof Error
        ? error.message
        : String(error);
    const position = document.outward({ line: 1, column: 1 }) ?? document.start;
    const head = `connection "${name}": `;
    const finding = problem("connection-check", [], reason.startsWith(head) ? reason : `${head}${reason}`);
    return { ...located(document.file, position, finding), excerpt: undefined };
  }
}

const isNotMountedHere = (error: unknown): boolean =>
  error instanceof NotMountedHere || (error instanceof Error && isNotMountedHere(error.cause));

const notMounted: NonNullable<DriverPorts["share"]> = () => {
  const refuse = () => Promise.reject(new NotMountedHere("the share is not mounted on this machine"));
  return { value: { folder: refuse, renew: refuse }, release: async () => {} };
};

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

function opening(input: LintInput, host: Host) {
  const main = input.main?.read.config;
  const log = leveledLog("error", () => {});
  const { ports, close } = openPorts(host, {}, log);
  const defaults = main?.defaults ?? noDefaults;
  const open = opener({
    main: () => ({ defaults, single: main?.single }),
    prefix: defaults.prefix,
    resolver: input.resolver,
    ports: { ...ports, share: notMounted },
    ownSegments: undefined,
    log,
  });
  const check: CheckConnection = async ({ name, document }, signal) => {
    const { driver } = open(name, document.text, () => {});
    // What a driver wants known although its storage can be used.
    const own = leveledLog("warn", ({ message }) => host.err(`csimux: connection "${name}": ${visible(message)}\n`));
    const call: Call = { id: "validate", signal, log: own, secrets: {} };
    try {
      await driver.check?.(call);
    } finally {
      await driver.close?.();
    }
  };
  return { check, close };
}
