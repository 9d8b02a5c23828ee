import { basename } from "node:path";
import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { type Output, run } from "../../io/runner.ts";
import type { AttacherPorts } from "../attach/attacher.ts";
import { addressesOf, pollUntil, type Sysfs } from "../disks/sysfs.ts";
import type { OpenedSessions } from "../state/record-folder.ts";
import { attributeOf, changeRecord, commonAttributes, interfaceOf, markedBoot, recordFile } from "./node-record.ts";
import {
  type Attributes,
  chapAdvice,
  goesTo,
  type Portal,
  portalText,
  type Session,
  sessionsOf,
  type Target,
} from "./target.ts";

/** Exit codes of iscsiadm(8). */
const exit = {
  noSession: 2,
  database: 6,
  sessionExists: 15,
  noDaemon: 20,
  noRecord: 21,
  noInfo: 22,
  refused: 24,
  missing: 127,
} as const;

/** Time limit for a login, in milliseconds; open-iscsi itself gives up slightly earlier. */
const loginMs = 25_000;

/** How long iscsiadm is retried when another iscsiadm is changing open-iscsi's database, in milliseconds. */
const databaseMs = 5_000;

/** Time limit for the kernel to show what iscsiadm reported, in milliseconds. */
const showMs = 5_000;

/** The dependencies of Login: `host` runs iscsiadm, because iscsid runs on the host; `rootOf` says where its files are. */
type LoginPorts = Pick<AttacherPorts, "host" | "rootOf" | "answers"> & {
  readonly sysfs: Sysfs;
  readonly opened: OpenedSessions;
};

/** Opens and closes sessions through the host's iscsiadm. Trusts the kernel instead of the output of iscsiadm. */
export class OpenIscsi {
  readonly #ports: LoginPorts;
  readonly #database = new Semaphore(1);

  constructor(ports: LoginPorts) {
    this.#ports = ports;
  }

  /** The session with a portal, or undefined. */
  async find(target: Target, portal: Portal, call: Call): Promise<Session | undefined> {
    return (await this.all(target, portal, call))[0];
  }

  /** The sessions with a portal over the target's interface; sessions over other interfaces are not csimux's. */
  async all(target: Target, portal: Portal, call: Call): Promise<readonly Session[]> {
    const sessions = await sessionsOf(target.iqn, this.#ports.sysfs);
    if (sessions.length === 0) return [];
    const addresses = await addressesOf(portal.host, call.signal);
    const portals = [portal, ...addresses.map(host => ({ ...portal, host }))];
    return sessions.filter(session => session.iface === target.iface && goesTo(session, portals));
  }

  /**
   * The session with a portal; opens it with these node record attributes if there is none. Throws "unauthenticated"
   * when the target refuses the credentials, "unavailable" when it does not answer, "failed-precondition" without
   * iscsiadm.
   */
  async open(target: Target, portal: Portal, attributes: Attributes, call: Call): Promise<Session> {
    const found = await this.find(target, portal, call);
    if (found?.isLoggedIn) return found;
    const name = `${target.iqn} at ${portalText(portal)}`;
    if (!found) {
      const key = keyOf(target, portal);
      const opened = await this.#openedBy(target, portal);
      await this.#record(target, portal, attributes, call);
      await this.#ports.opened.add(key);
      const output = await this.#run(target, portal, ["--login"], call.signal, loginMs);
      if (output.exitCode !== 0 && output.exitCode !== exit.sessionExists)
        throw refused(output, `logging in to ${name}`, output.exitCode === exit.refused ? chapAdvice(attributes) : "");
      // Another program opened the session in the meantime, so csimux must not close it.
      if (output.exitCode === exit.sessionExists && opened !== "now") await this.#disown(target, portal);
    }
    const ask = async () => {
      const session = await this.find(target, portal, call);
      return session?.isLoggedIn ? session : undefined;
    };
    const session = await pollUntil(showMs, ask, `logging in to ${name}`, call.signal);
    if (session) return session;
    const answers = await this.#ports.answers(portal.host, portal.port, call.signal);
    const why = answers
      ? "although the portal answers; csimux opens its own sessions again when their recovery time has passed and no disk in use depends on them"
      : "and the portal does not answer; it may be down";
    throw new CsiError("unavailable", `the session with ${name} is not logged in, ${why}`);
  }

  /** Logs out of a session if csimux opened it, and keeps its record, with which it is opened again. Returns whether it did. */
  async end(target: Target, portal: Portal, session: Session, call: Call): Promise<boolean> {
    if ((await this.#openedBy(target, portal)) !== "now") return false;
    await this.#logout(session, call);
    return true;
  }

  /** The attributes, with credentials, of csimux's earlier login to any portal of the target; undefined without one. */
  async known(target: Target): Promise<Attributes | undefined> {
    for (const portal of target.portals) {
      const file = await this.#recordFile(target, portal);
      const found = file && (await commonAttributes(file));
      if (found) return found;
    }
    return undefined;
  }

  /** Whether csimux opened a session with one of the target's portals since the last boot. */
  async hasOpened(target: Target): Promise<boolean> {
    for (const portal of target.portals) if ((await this.#openedBy(target, portal)) === "now") return true;
    return false;
  }

  /** Closes the session with a portal and deletes its record, each only if csimux created it. */
  async close(target: Target, portal: Portal, call: Call): Promise<void> {
    const opened = await this.#openedBy(target, portal);
    if (!opened) return await this.#forgetBegun(target, portal, call);
    const session = await this.find(target, portal, call);
    if (session && opened === "before") return await this.#disown(target, portal);
    if (session) await this.#logout(session, call);
    await this.#forget(target, portal, call);
    await this.#ports.opened.remove(keyOf(target, portal));
  }

  /** Deletes a node record that csimux has begun and not completed: the host could log in with it when it starts. Keeps that of a session. */
  async #forgetBegun(target: Target, portal: Portal, call: Call): Promise<void> {
    const begun = begunKey(target, portal);
    if (!(await this.#ports.opened.has(begun))) return;
    if (await this.#recordFile(target, portal)) {
      const output = await this.#run(target, portal, ["-o", "delete"], call.signal);
      const good: readonly number[] = [0, exit.noRecord, exit.sessionExists];
      if (!good.includes(output.exitCode)) throw refused(output, `deleting the node record of ${target.iqn}`);
    }
    await this.#ports.opened.remove(begun);
  }

  /** Deletes csimux's node record, unless it also is the one of csimux's session over another interface. */
  async #forget(target: Target, portal: Portal, call: Call): Promise<void> {
    const file = await this.#recordFile(target, portal);
    if (!file || (await attributeOf(file, "node.startup")) !== "manual") return;
    if (basename(file) !== target.iface && (await this.#hasOther(target, portal, call))) return;
    const written = { ...target, iface: await interfaceOf(file) };
    const output = await this.#run(written, portal, ["-o", "delete"], call.signal);
    if (output.exitCode !== 0 && output.exitCode !== exit.noRecord)
      throw refused(output, `deleting the node record of ${target.iqn} at ${portalText(portal)}`);
  }

  /** Whether csimux has a session with the portal over another interface. */
  async #hasOther(target: Target, portal: Portal, call: Call): Promise<boolean> {
    const sessions = await sessionsOf(target.iqn, this.#ports.sysfs);
    for (const iface of new Set(sessions.map(session => session.iface))) {
      const other = { ...target, iface };
      if (iface === target.iface || !(await this.find(other, portal, call))) continue;
      if ((await this.#openedBy(other, portal)) === "now") return true;
    }
    return false;
  }

  /**
   * When csimux opened the session with a portal: since the last boot ("now"), earlier ("before"), or not at all. If the
   * state folder was lost, the node record of open-iscsi says so, which is outside of it.
   */
  async #openedBy(target: Target, portal: Portal): Promise<"now" | "before" | undefined> {
    const { opened } = this.#ports;
    const kept = await opened.has(keyOf(target, portal));
    if (kept !== undefined) return kept;
    const file = await this.#recordFile(target, portal);
    const boot = file && (await markedBoot(file, target));
    if (!boot) return undefined;
    return boot === (await opened.bootId()) ? "now" : "before";
  }

  /** Remembers that the session with a portal is not csimux's. */
  async #disown(target: Target, portal: Portal): Promise<void> {
    const file = await this.#recordFile(target, portal);
    if (file && (await markedBoot(file, target))) await changeRecord(file, {}, undefined);
    await this.#ports.opened.remove(keyOf(target, portal));
  }

  async #recordFile(target: Target, portal: Portal): Promise<string | undefined> {
    return await recordFile(await this.#ports.rootOf("iscsiadm"), target, portal);
  }

  async #logout({ id, iqn }: Session, call: Call): Promise<void> {
    const task = `logging out of ${iqn}`;
    const output = await this.#iscsiadm(["-m", "session", "-r", id, "-u"], task, call.signal);
    const good: readonly number[] = [0, exit.noSession, exit.noRecord, exit.noInfo];
    if (!good.includes(output.exitCode)) throw refused(output, task);
    const gone = async () =>
      (await this.#ports.sysfs.text("class/iscsi_session", `session${id}`, "targetname")) ? undefined : true;
    if (!(await pollUntil(showMs, gone, task, call.signal)))
      throw new CsiError("unavailable", `${task}: the session still exists; retrying`);
  }

  /**
   * Creates the node record. A record with automatic startup belongs to the host and stays unchanged, unless csimux has begun it: many
   * hosts have "automatic" for new records (iscsid.conf, node.startup), and csimux changes that in a second step.
   */
  async #record(target: Target, portal: Portal, attributes: Attributes, call: Call): Promise<void> {
    const before = await this.#recordFile(target, portal);
    const startup = before && (await attributeOf(before, "node.startup"));
    const begun = begunKey(target, portal);
    if (startup && startup !== "manual" && !(await this.#ports.opened.has(begun))) return;
    if (!before) await this.#ports.opened.add(begun);
    const task = `creating the node record of ${target.iqn}`;
    const made = await this.#run(target, portal, ["-o", "new"], call.signal);
    if (made.exitCode !== 0) throw refused(made, task);
    const file = await this.#recordFile(target, portal);
    if (file) {
      await changeRecord(file, attributes, await this.#ports.opened.bootId());
      return await this.#ports.opened.remove(begun);
    }
    const text = `${task}: found no record in the folders of open-iscsi below ${await this.#ports.rootOf("iscsiadm")}`;
    throw new CsiError("failed-precondition", text);
  }

  #run(target: Target, portal: Portal, words: readonly string[], signal: AbortSignal, timeoutMs?: number) {
    const iface = target.iface === "default" ? [] : ["-I", target.iface];
    const argv = ["-m", "node", "-T", target.iqn, "-p", portalText(portal), ...iface, ...words];
    return this.#iscsiadm(argv, `running iscsiadm for ${target.iqn}`, signal, timeoutMs);
  }

  /** Runs iscsiadm. Changes of the database run one at a time; calls that wait for the network do not. */
  async #iscsiadm(words: readonly string[], task: string, signal: AbortSignal, timeoutMs = 30_000): Promise<Output> {
    const ask = async () => {
      const output = await run(this.#ports.host, { argv: ["iscsiadm", ...words], timeoutMs }, task, signal);
      last = output;
      return output.exitCode === exit.database ? undefined : output;
    };
    let last: Output | undefined;
    const waited = () => pollUntil(databaseMs, ask, task, signal);
    const output = (words.includes("-o") ? await this.#database.run(waited, signal) : await waited()) ?? last;
    if (output && output.exitCode !== exit.missing) return output;
    throw new CsiError("failed-precondition", `${task}: iscsiadm is not installed on this node; install open-iscsi`);
  }
}

const keyOf = (target: Target, portal: Portal): string => `iscsi ${target.iqn} ${portalText(portal)} ${target.iface}`;

/** Says that csimux was about to create the node record of a portal. */
const begunKey = (target: Target, portal: Portal): string => `node record of ${keyOf(target, portal)}`;

const codes: Readonly<Record<number, Code>> = { [exit.refused]: "unauthenticated" };

function refused(output: Output, task: string, more = ""): CsiError {
  const { exitCode, stderr } = output;
  const lines = stderr.split("\n").filter(line => line.trim() !== "");
  // The last line is a summary ("Could not log into all portals"); the reason comes before it.
  const words =
    (lines.find(line => line.includes("reported error")) ?? lines.at(-1))?.trim().slice(0, 300) ||
    `iscsiadm failed with exit code ${exitCode}`;
  const advice = exitCode === exit.noDaemon ? "; iscsid on this node does not answer, start it" : "";
  return new CsiError(codes[exitCode] ?? "unavailable", `${task} failed: ${words}${advice}${more}`);
}
