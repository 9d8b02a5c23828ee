import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Argv, CommandRunner } from "../../lib/io/runner.ts";
import { bytesOf, Sysfs } from "../../lib/node/disks/sysfs.ts";
import {
  disksIn,
  identityOf,
  isRunning,
  remove,
  rescan,
  scan,
  sessionsOf,
  unitOf,
} from "../../lib/node/iscsi/target.ts";
import { pause } from "../waiting.ts";
import type { Sight } from "./host-cases.ts";

/** What a target asks of those who log in. */
interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** A node with open-iscsi, and a target whose LUN 0 has 8 MiB: a model, or real ones. */
export interface InitiatorHost {
  readonly runner: CommandRunner;
  /** What stands before /sys and /etc. */
  readonly root: string;
  readonly iqn: string;
  readonly portal: string;
  /** The name of another interface than "default". */
  readonly iface: string;
  /** A portal at which nothing listens. */
  readonly closed: string;
  /** Has the target require credentials, or none. */
  require(credentials: Credentials | undefined): Promise<void>;
  /** Gives LUN 0 another size. */
  resize(mebibytes: number): Promise<void>;
}

/** One behaviour of open-iscsi and the kernel's initiator. It leaves nothing behind. */
type InitiatorCase = (host: InitiatorHost) => Promise<Sight>;

const { signal } = new AbortController();

/** The attributes of csimux's records (lib/node/iscsi/target.ts). */
const own = {
  "node.session.initial_login_retry_max": "2",
  "node.conn[0].timeo.login_timeout": "10",
  "node.startup": "manual",
  "node.session.scan": "manual",
};

/** What csimux sends to a node and reads of it (lib/node/iscsi). */
function nodeOf({ runner, root, iqn, portal }: InitiatorHost) {
  const sysfs = new Sysfs(join(root, "sys"), runner);
  /** The exit code, and the line with the reason. */
  const iscsiadm = async (...words: readonly string[]): Promise<string> => {
    const argv: Argv = ["iscsiadm", ...words];
    const { exitCode, stderr } = await runner.run({ argv, timeoutMs: 120_000 }, signal);
    const reason = stderr.split("\n").find(line => line.includes("reported error")) ?? "";
    return `${exitCode} ${reason}`.trim();
  };
  const folder = join(root, "etc/iscsi/nodes", iqn);
  const records = () => (existsSync(folder) ? readdirSync(folder) : []);
  /** A record is a file, or a folder with a file for each interface. */
  const file = () => {
    const path = join(folder, records()[0] ?? "");
    return statSync(path).isDirectory() ? join(path, "default") : path;
  };
  const sessions = () => sessionsOf(iqn, sysfs);
  const first = async () => {
    const [session] = await sessions();
    if (!session) throw new Error(`there is no session with ${iqn}`);
    return session;
  };
  const disk = async () => unitOf(await first(), 0n, sysfs);
  return {
    at: (to: string, ...words: readonly string[]) => iscsiadm("-m", "node", "-T", iqn, "-p", to, ...words),
    logout: async (id?: string) => iscsiadm("-m", "session", "-r", id ?? (await first()).id, "-u"),
    id: async () => (await first()).id,
    sessions: async () =>
      (await sessions()).map(({ iface, isLoggedIn, portals }) => {
        const isReached = portals.length > 0 && portals.every(({ host, port }) => `${host}:${port}` === portal);
        return `${iface} ${isLoggedIn ? "logged in" : "lost"} ${isReached ? "at its portal" : "elsewhere"}`;
      }),
    /** Whether records are there, and the names that begin with the portal. */
    records: () => records().map(name => (name.startsWith(portal.replace(":", ",")) ? "its portal" : name)),
    read: (key: string) =>
      new RegExp(`^${key.replaceAll(/[[\]]/g, "\\$&")} = (.*)$`, "m").exec(readFileSync(file(), "utf8"))?.[1] ?? "none",
    /** Sets attributes of the record in its file (lib/node/iscsi/open-iscsi.ts, changeRecord). */
    set(attributes: Readonly<Record<string, string>>): void {
      const lines = readFileSync(file(), "utf8").split("\n");
      const kept = lines.filter(line => !Object.keys(attributes).some(key => line.startsWith(`${key} =`)));
      const added = Object.entries(attributes).map(([key, value]) => `${key} = ${value}`);
      const end = kept.findIndex(line => line.startsWith("# END RECORD"));
      writeFileSync(file(), [...kept.slice(0, end), ...added, ...kept.slice(end)].join("\n"), { mode: 0o600 });
    },
    scan: async (lun = 0n) => scan(await first(), lun, sysfs, signal),
    units: async () => (await disksIn(await first(), sysfs)).length,
    async disk(): Promise<string> {
      for (let n = 0; n < 100 && !(await disk()); n++) await pause(100);
      const unit = await disk();
      if (!unit) return "no disk";
      const identity = (await identityOf(unit, sysfs)) === "" ? "unknown" : "known";
      const [bytes, runs] = [await bytesOf(unit.name, sysfs), await isRunning(unit, sysfs)];
      return `${identity} ${bytes >> 20n} MiB ${runs ? "running" : "not running"}`;
    },
    async rescan(): Promise<void> {
      const unit = await disk();
      if (unit) await rescan(unit, sysfs, signal);
    },
    /** Removes the disk twice, as a repeated call does. */
    async remove(): Promise<string> {
      const unit = await disk();
      if (!unit) return "no disk";
      await remove(unit, sysfs, signal);
      for (let n = 0; n < 100 && (await disk()); n++) await pause(100);
      await remove(unit, sysfs, signal);
      return (await disk()) ? "still there" : "gone";
    },
  };
}

export const initiatorCases: Readonly<Record<string, InitiatorCase>> = {
  "a node record is made, made again, and deleted once": async host => {
    const node = nodeOf(host);
    const seen = [await node.at(host.portal, "-o", "new"), ...node.records()];
    node.set({ "node.startup": "manual", "node.session.auth.username": "someone" });
    seen.push(node.read("node.startup"), node.read("node.session.auth.username"));
    seen.push(await node.at(host.portal, "-o", "new"), node.read("node.session.auth.username"));
    seen.push(
      await node.at(host.portal, "-o", "delete"),
      await node.at(host.portal, "-o", "delete"),
      ...node.records(),
    );
    return seen;
  },

  "a login needs a record, and a logout a session": async host => {
    const node = nodeOf(host);
    return [await node.at(host.portal, "--login"), await node.logout("4711")];
  },

  "a portal is logged in to once, its record stays as long as the session": async host => {
    const node = nodeOf(host);
    await node.at(host.portal, "-o", "new");
    node.set(own);
    const seen = [await node.at(host.portal, "--login"), ...(await node.sessions())];
    seen.push(await node.at(host.portal, "--login"), ...(await node.sessions()));
    seen.push(await node.at(host.portal, "-o", "delete"), ...node.records());
    const id = await node.id();
    seen.push(await node.logout(id), await node.logout(id), ...(await node.sessions()));
    seen.push(await node.at(host.portal, "-o", "delete"), ...node.records());
    return seen;
  },

  "a portal has one record, whose interface is the last one": async host => {
    const node = nodeOf(host);
    const other = ["-I", host.iface] as const;
    const named = (texts: readonly string[]) => texts.map(text => text.replace(host.iface, "other"));
    await node.at(host.portal, "-o", "new");
    node.set(own);
    const seen = [await node.at(host.portal, "--login"), await node.at(host.portal, ...other, "--login")];
    seen.push(await node.at(host.portal, ...other, "-o", "new"), ...node.records());
    seen.push(...named([node.read("iface.iscsi_ifacename")]));
    node.set(own);
    seen.push(await node.at(host.portal, ...other, "--login"), ...named(await node.sessions()));
    seen.push(await node.at(host.portal, "-o", "delete"), ...node.records());
    seen.push(await node.logout(), ...named(await node.sessions()), await node.at(host.portal, "-o", "delete"));
    seen.push(await node.logout(), await node.at(host.portal, ...other, "-o", "delete"), ...node.records());
    return seen;
  },

  "a target that requires CHAP refuses others": async host => {
    const node = nodeOf(host);
    await host.require({ username: "someone", password: "twelve bytes" });
    await node.at(host.portal, "-o", "new");
    node.set(own);
    const seen = [await node.at(host.portal, "--login")];
    const chap = { "node.session.auth.authmethod": "CHAP", "node.session.auth.username": "someone" };
    for (const password of ["other twelve", "twelve bytes"]) {
      node.set({ ...chap, "node.session.auth.password": password });
      seen.push(await node.at(host.portal, "--login"));
    }
    seen.push(...(await node.sessions()), await node.logout(), await node.at(host.portal, "-o", "delete"));
    await host.require(undefined);
    return seen;
  },

  "a portal at which nothing listens is given up, and leaves its record": async host => {
    const node = nodeOf(host);
    await node.at(host.closed, "-o", "new");
    node.set(own);
    const seen = [await node.at(host.closed, "--login"), ...(await node.sessions())];
    seen.push(await node.at(host.closed, "-o", "delete"), ...node.records());
    return seen;
  },

  "a session shows the LUNs that it is scanned for, with their size when they were last read": async host => {
    const node = nodeOf(host);
    await node.at(host.portal, "-o", "new");
    node.set(own);
    await node.at(host.portal, "--login");
    const seen = [`${await node.units()} before`];
    await node.scan(7n);
    seen.push(`${await node.units()} of an absent one`);
    await node.scan();
    seen.push(await node.disk(), `${await node.units()} of one`);
    await host.resize(16);
    seen.push(await node.disk());
    await node.rescan();
    seen.push(await node.disk(), await node.remove(), `${await node.units()} after`);
    await host.resize(8);
    await node.logout();
    await node.at(host.portal, "-o", "delete");
    return seen;
  },
};
