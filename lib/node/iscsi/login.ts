import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner, Output } from "../../io/runner.ts";
import { Turns } from "../../io/turns.ts";
import { pollUntil } from "../attach/poll-until.ts";
import type { Sysfs } from "../disks/sysfs.ts";
import { bounded } from "../mount/files.ts";
import type { OpenedSessions } from "../state/opened-sessions.ts";
import { type Attributes, attributeOf, commonAttributes, recordFile, setAttributes } from "./node-record.ts";
import { goesTo, type Session, sessionsOf } from "./sessions.ts";
import { type Portal, portalText, type Target } from "./target.ts";

/** Exit codes of iscsiadm(8). */
const exit = {
  noSession: 2,
  database: 6,
  sessionExists: 15,
  noDaemon: 20,
  noRecord: 21,
  refused: 24,
  missing: 127,
} as const;

/** A portal that does not answer is given up after this; open-iscsi itself stops a little earlier. */
const loginMs = 25_000;

/** open-iscsi's database answers with an error while another iscsiadm changes it; for so long it is asked again, in milliseconds. */
const databaseMs = 5_000;

/** How long the kernel may take to show what iscsiadm reported, in milliseconds. */
const showMs = 5_000;

/** What sessions need from outside. */
export interface LoginPorts {
  /** The host's programs: iscsid is the host's. */
  readonly host: CommandRunner;
  /** Where the host's root is seen from here: "/host", or "/" where csimux runs on the host itself. */
  readonly hostRoot: string;
  readonly sysfs: Sysfs;
  readonly opened: OpenedSessions;
}

/** Opens and closes sessions through the host's iscsiadm. What it reports is believed only when the kernel shows it. */
export class Login {
  readonly #host: CommandRunner;
  readonly #root: string;
  readonly #sysfs: Sysfs;
  readonly #opened: OpenedSessions;
  readonly #turns = new Turns();

  constructor({ host, hostRoot, sysfs, opened }: LoginPorts) {
    this.#host = host;
    this.#root = hostRoot;
    this.#sysfs = sysfs;
    this.#opened = opened;
  }

  /** The session with one portal, or undefined. */
  async find(target: Target, portal: Portal, call: Call): Promise<Session | undefined> {
    return (await this.all(target, portal, call))[0];
  }

  /** The sessions with one portal over the target's interface; over other ones it has sessions that are not csimux's. */
  async all(target: Target, portal: Portal, call: Call): Promise<readonly Session[]> {
    const sessions = await sessionsOf(target.iqn, this.#sysfs);
    if (sessions.length === 0) return [];
    const ways = [portal, ...(await addressesOf(portal, call.signal))];
    return sessions.filter(session => session.iface === target.iface && goesTo(session, ways));
  }

  /**
   * The session with one portal, opened with these attributes of the node record if there is none. Throws "unauthenticated" when
   * the target refuses the credentials, "unavailable" when it does not answer, "failed-precondition" without iscsiadm.
   */
  async open(target: Target, portal: Portal, attributes: Attributes, call: Call): Promise<Session> {
    const found = await this.find(target, portal, call);
    if (found?.isLoggedIn) return found;
    const name = `${target.iqn} at ${portalText(portal)}`;
    if (!found) {
      await this.#record(target, portal, attributes, call);
      await this.#opened.add(keyOf(target, portal));
      const output = await this.#run(target, portal, ["--login"], call.signal, loginMs);
      if (output.exitCode !== 0 && output.exitCode !== exit.sessionExists)
        throw refused(output, `logging in to ${name}`);
    }
    const ask = async () => {
      const session = await this.find(target, portal, call);
      return session?.isLoggedIn ? session : undefined;
    };
    const session = await pollUntil(showMs, ask, `logging in to ${name}`, call.signal);
    if (session) return session;
    throw new CsiError("unavailable", `the session with ${name} is not logged in; the portal may be down`);
  }

  /** With what a portal of the target was logged in to before, credentials included; undefined where csimux never did. */
  async known(target: Target): Promise<Attributes | undefined> {
    for (const portal of target.portals) {
      const file = await recordFile(this.#root, target, portal);
      const found = file && (await commonAttributes(file));
      if (found) return found;
    }
    return undefined;
  }

  /** Closes the session with one portal and forgets its record, both only where csimux made them. */
  async close(target: Target, portal: Portal, call: Call): Promise<void> {
    const key = keyOf(target, portal);
    const opened = await this.#opened.has(key);
    if (!opened) return;
    const session = await this.find(target, portal, call);
    if (session && opened === "before") return await this.#opened.remove(key);
    if (session) await this.#logout(session, call);
    const file = await recordFile(this.#root, target, portal);
    if (file && (await attributeOf(file, "node.startup")) === "manual") {
      const output = await this.#run(target, portal, ["-o", "delete"], call.signal);
      if (output.exitCode !== 0 && output.exitCode !== exit.noRecord)
        throw refused(output, `forgetting ${target.iqn} at ${portalText(portal)}`);
    }
    await this.#opened.remove(key);
  }

  async #logout({ id, iqn }: Session, call: Call): Promise<void> {
    const task = `logging out of ${iqn}`;
    const output = await this.#iscsiadm(["-m", "session", "-r", id, "-u"], task, call.signal);
    const good: readonly number[] = [0, exit.noSession, exit.noRecord];
    if (!good.includes(output.exitCode)) throw refused(output, task);
    const gone = async () =>
      (await this.#sysfs.text("class/iscsi_session", `session${id}`, "targetname")) ? undefined : true;
    if (!(await pollUntil(showMs, gone, task, call.signal)))
      throw new CsiError("unavailable", `${task}: the session is still there; it will be tried again`);
  }

  /** A record that starts by itself is the node's own: it is used as it is. */
  async #record(target: Target, portal: Portal, attributes: Attributes, call: Call): Promise<void> {
    const before = await recordFile(this.#root, target, portal);
    const startup = before && (await attributeOf(before, "node.startup"));
    if (startup && startup !== "manual") return;
    const task = `making open-iscsi's record of ${target.iqn}`;
    const made = await this.#run(target, portal, ["-o", "new"], call.signal);
    if (made.exitCode !== 0) throw refused(made, task);
    const file = await recordFile(this.#root, target, portal);
    if (file) return await setAttributes(file, attributes);
    throw new CsiError(
      "failed-precondition",
      `${task}: it is in none of the folders of open-iscsi below ${this.#root}`,
    );
  }

  #run(target: Target, portal: Portal, words: readonly string[], signal: AbortSignal, timeoutMs?: number) {
    const iface = target.iface === "default" ? [] : ["-I", target.iface];
    const argv = ["-m", "node", "-T", target.iqn, "-p", portalText(portal), ...iface, ...words];
    return this.#iscsiadm(argv, `asking for ${target.iqn}`, signal, timeoutMs);
  }

  /** One at a time for each database, except where the network is waited for. */
  async #iscsiadm(words: readonly string[], task: string, signal: AbortSignal, timeoutMs = 30_000): Promise<Output> {
    const ask = async () => {
      const output = await this.#host
        .run({ argv: ["iscsiadm", ...words], timeoutMs }, signal)
        .catch((error: unknown) => {
          throw commandFailure(error, task);
        });
      last = output;
      return output.exitCode === exit.database ? undefined : output;
    };
    let last: Output | undefined;
    const waited = () => pollUntil(databaseMs, ask, task, signal);
    const output = (words.includes("-o") ? await this.#turns.take("", signal, waited) : await waited()) ?? last;
    if (output && output.exitCode !== exit.missing) return output;
    throw new CsiError("failed-precondition", `${task}: this node has no iscsiadm; install open-iscsi on it`);
  }
}

const keyOf = (target: Target, portal: Portal): string => `iscsi ${target.iqn} ${portalText(portal)} ${target.iface}`;

/** The kernel shows addresses where a portal was given by its name. */
async function addressesOf({ host, port }: Portal, signal: AbortSignal): Promise<readonly Portal[]> {
  if (isIP(host)) return [];
  const found = await bounded(lookup(host, { all: true }), `resolving ${host}`, signal).catch(() => []);
  return found.map(({ address }) => ({ host: address, port }));
}

const codes: Readonly<Record<number, Code>> = { [exit.refused]: "unauthenticated" };

function refused(output: Output, task: string): CsiError {
  const { exitCode, stderr } = output;
  const lines = stderr.split("\n").filter(line => line.trim() !== "");
  // The last line sums up ("Could not log into all portals"); the reason stands before it.
  const words =
    (lines.find(line => line.includes("reported error")) ?? lines.at(-1))?.trim().slice(0, 300) ||
    `iscsiadm ended with exit code ${exitCode}`;
  const advice = exitCode === exit.noDaemon ? "; iscsid of this node does not answer, start it" : "";
  return new CsiError(codes[exitCode] ?? "unavailable", `${task} failed: ${words}${advice}`);
}
