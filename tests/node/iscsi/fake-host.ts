import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Command, CommandRunner, Output } from "../../../lib/io/runner.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import { iscsi } from "../../../lib/node/iscsi/attacher.ts";
import { later } from "../../waiting.ts";

const done = (exitCode = 0, stderr = "", stdout = ""): Output => ({ exitCode, stderr, stdout });

const nameOf = (index: number): string => `sd${String.fromCharCode(97 + index)}`;

export const iqn = "iqn.2005-10.org.example:one";

/**
 * A node with open-iscsi and dm-multipath as an attacher sees them: programs that change a folder in place of /sys.
 * `ran` holds all commands.
 */
export class FakeHost implements CommandRunner {
  readonly where = "fake";
  readonly root = mkdtempSync(join(tmpdir(), "csimux-iscsi-"));
  readonly ran: string[] = [];
  /** All show the same LUNs. Whether each is alive, and when it answers a login; at once if undefined. */
  readonly portals = new Map<string, { alive: boolean; answers?: Promise<void> }>();
  /** LUN → its identity and size in MiB. */
  readonly luns = new Map<string, { wwid: string; mebibytes: number }>([["0", { wwid: "naa.0", mebibytes: 8 }]]);
  credentials: { readonly username: string; readonly password: string } | undefined;
  /** Whether multipathd runs and makes maps. */
  multipath = false;
  mapBusy = 0;
  /** Whether multipathd takes every disk, as with find_multipaths "no" (multipath.conf(5)); `multipath -c` ends with 0 then (multipath(8)). */
  greedy = false;
  /** Whether multipathd knows the disk, and how often it is asked before udev has finished processing it. */
  known = false;
  udevBehind = 0;
  databaseBusy = 0;
  /** How long a disk takes to appear after a scan, in milliseconds. */
  lateMs = 0;
  /** Whether csimux can reach the network of the portals. */
  probes = true;
  /** How long further portals may take once one is open, in milliseconds; csimux's own time if undefined. */
  graceMs: number | undefined;
  /** Called before each program; may throw instead. */
  before: (line: string) => void = () => {};
  #next = 1;

  constructor(...addresses: string[]) {
    for (const address of addresses) this.portals.set(address, { alive: true });
    const sys = ["sys/class/iscsi_session", "sys/class/iscsi_connection", "sys/class/block", "sys/block"];
    for (const folder of [...sys, "dev", "proc/net", "proc/sys/kernel/random", "etc/iscsi/nodes"])
      mkdirSync(join(this.root, folder), { recursive: true });
    this.boot("first");
  }

  /** Restarts the machine: sessions are gone, records of open-iscsi stay. */
  boot(id: string): void {
    this.#write("proc/sys/kernel/random/boot_id", `${id}\n`);
    for (const name of this.sessions) this.#end(name);
  }

  attacher(): Attacher {
    const socket = this.multipath ? "@/org/kernel/linux/storage/multipathd" : "";
    this.#write("proc/net/unix", `Num RefCount Protocol\n0: 2 ${socket}\n`);
    const at = (name: string) => join(this.root, name);
    const grace = this.graceMs === undefined ? {} : { graceMs: this.graceMs };
    const ports = { ...grace, sys: at("sys"), devices: at("dev"), proc: at("proc"), opened: at("opened") };
    const answers = async (host: string, port: number) =>
      this.probes && (this.portals.get(`${host}:${port}`)?.alive ?? false);
    return iscsi({ runner: this, host: this, hostRoot: this.root, rootOf: async () => this.root, answers, ...ports });
  }

  get sessions(): readonly string[] {
    return readdirSync(join(this.root, "sys/class/iscsi_session")).sort();
  }

  get disks(): readonly string[] {
    return readdirSync(join(this.root, "sys/block")).sort();
  }

  get records(): readonly string[] {
    const folder = join(this.root, "etc/iscsi/nodes", iqn);
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  recordText(name: string): string {
    return readFileSync(join(this.root, "etc/iscsi/nodes", iqn, name), "utf8");
  }

  async run({ argv, stdin }: Command): Promise<Output> {
    this.ran.push(argv.join(" "));
    this.before(argv.join(" "));
    const [program, ...words] = argv;
    if (program === "iscsiadm") return this.databaseBusy-- > 0 ? done(6, "database failure") : this.#iscsiadm(words);
    if (program === "dd") return this.#attribute((words[0] ?? "").slice(3 + this.root.length + 5), stdin ?? "");
    if (program === "multipathd" && words[0] === "add") this.#added(words[2] ?? "");
    if (program === "multipath") return this.#multipath(words);
    return done();
  }

  resizeMap(map: string, mebibytes: number): void {
    this.#write(`sys/class/block/${map}/size`, `${mebibytes * 2048}\n`);
  }

  /** Opens a session that is not csimux's. */
  foreignSession(address: string, ...luns: string[]): void {
    this.#session(address);
    for (const lun of luns) this.#disk(`session${this.#next - 1}`, lun);
  }

  /** Builds something other than multipath on a disk, such as LVM. */
  stack(disk: string, map: string, uuid: string): void {
    this.#write(`sys/class/block/${map}/dm/uuid`, `${uuid}\n`);
    this.#write(`sys/class/block/${map}/dm/name`, "vg-data\n");
    this.#write(`sys/class/block/${disk}/holders/${map}`, "");
  }

  /** Adds a disk to a map of multipathd. */
  join(disk: string, map: string): void {
    this.#write(`sys/class/block/${disk}/holders/${map}`, "");
    // The link leads nowhere once the disk is gone (Linux 6.1, block/holder.c, bd_link_disk_holder).
    this.#link(`sys/class/block/${map}/slaves/${disk}`, this.#real(`sys/class/block/${disk}`));
  }

  /**
   * A disk whose session is lost for longer than its recovery time-out, or is back (Linux 6.1, drivers/scsi/scsi_sysfs.c, sdev_states;
   * scsi_transport_iscsi.c, session_recovery_timedout).
   */
  transport(disk: string, state: "transport-offline" | "running"): void {
    this.#write(`sys/block/${disk}/device/state`, `${state}\n`);
  }

  /** Ends a session with its disks. */
  lose(session: string): void {
    this.#end(session);
  }

  async #iscsiadm(words: readonly string[]): Promise<Output> {
    const after = (flag: string) => words[words.indexOf(flag) + 1] ?? "";
    if (words[1] === "session") {
      const session = `session${after("-r")}`;
      // What the kernel does not have: ISCSI_ERR_SYSFS_LOOKUP (open-iscsi 2.1.8, include/iscsi_err.h).
      if (!this.sessions.includes(session)) return done(22, "iscsiadm: Could not get session info");
      this.#end(session);
      return done();
    }
    const portal = after("-p");
    const wanted = words.includes("-I") ? after("-I") : undefined;
    // A record without a portal group is one file for all interfaces (open-iscsi 2.1.8, usr/idbm.c, idbm_rec_write).
    const file = `etc/iscsi/nodes/${iqn}/${portal.replace(":", ",")}`;
    if (after("-o") === "new") {
      const lines = [
        `node.name = ${iqn}`,
        "node.startup = automatic",
        `iface.iscsi_ifacename = ${wanted ?? "default"}`,
      ];
      this.#write(file, ["# BEGIN RECORD 2.1.8", ...lines, "# END RECORD", ""].join("\n"));
      return done();
    }
    const record = existsSync(join(this.root, file)) ? this.#read(file) : "";
    const iface = /^iface.iscsi_ifacename = (.*)$/m.exec(record)?.[1];
    if (iface === undefined || (wanted ?? iface) !== iface) return done(21, "iscsiadm: No records found");
    if (after("-o") !== "delete") return this.#login(portal, iface, record);
    // open-iscsi 2.1.8, usr/iscsiadm.c, delete_node: the record of a session stays.
    if (this.#sessionWith(portal, iface)) return done(15, "iscsiadm: a session is using the record");
    rmSync(join(this.root, file));
    return done();
  }

  /** iscsid logs in by the record as iscsiadm has sent it, whatever becomes of that (open-iscsi 2.1.8, usr/iscsid_req.c, iscsid_req_by_rec). */
  async #login(portal: string, iface: string, record: string): Promise<Output> {
    await this.portals.get(portal)?.answers;
    const refused = (code: number, why: string) => done(code, `iscsiadm: initiator reported error (${code} - ${why})`);
    if (!this.portals.get(portal)?.alive) return refused(8, "connection timed out");
    const said = (name: string) => new RegExp(`^node.session.auth.${name} = (.*)$`, "m").exec(record)?.[1];
    const { username, password } = this.credentials ?? {};
    const isKnown = said("authmethod") === "CHAP" && said("username") === username && said("password") === password;
    if (username !== undefined && !isKnown) return refused(24, "iSCSI login failed due to authorization failure");
    // iscsiadm(8), "EXIT STATUS": 15, session is logged in.
    if (this.#sessionWith(portal, iface)) return done(15, "iscsiadm: 1 session requested, but 1 already present.");
    this.#session(portal, iface);
    return done();
  }

  #sessionWith(portal: string, iface: string): boolean {
    const read = (name: string, file: string) => this.#read(`sys/class/${name}/${file}`).trim();
    return this.sessions.some(name => {
      const connection = `iscsi_connection/${name.replace("session", "connection")}:0`;
      const own = `${read(connection, "persistent_address")}:${read(connection, "persistent_port")}`;
      return own === portal && read(`iscsi_session/${name}`, "ifacename") === iface;
    });
  }

  #session(portal: string, iface = "default"): void {
    const id = this.#next++;
    const [address = "", port = ""] = portal.split(":");
    const device = `sys/devices/platform/host${id}/session${id}`;
    const own = { targetname: iqn, state: "LOGGED_IN", ifacename: iface, target_id: "0" };
    for (const [name, text] of Object.entries(own))
      this.#write(`${device}/iscsi_session/session${id}/${name}`, `${text}\n`);
    for (const [name, text] of Object.entries({ persistent_address: address, persistent_port: port, address, port }))
      this.#write(`sys/class/iscsi_connection/connection${id}:0/${name}`, `${text}\n`);
    this.#link(`sys/class/iscsi_session/session${id}`, `${device}/iscsi_session/session${id}`);
    this.#link(`${device}/iscsi_session/session${id}/device`, device);
    this.#write(`sys/class/scsi_host/host${id}/scan`, "");
  }

  #disk(session: string, lun: string): void {
    const id = session.slice("session".length);
    const known = this.luns.get(lun);
    const scsi = `sys/devices/platform/host${id}/${session}/target${id}:0:0/${id}:0:0:${lun}`;
    if (!known || existsSync(join(this.root, scsi))) return;
    const index = this.#freeIndex();
    const name = nameOf(index);
    const block = `${scsi}/block/${name}`;
    this.#write(`${block}/size`, `${known.mebibytes * 2048}\n`);
    this.#write(`${block}/dev`, `8:${(index + 1) * 16}\n`);
    for (const [attribute, text] of Object.entries({
      state: "running",
      wwid: known.wwid,
      delete: "",
      rescan: "",
      uevent: "x",
    }))
      this.#write(`${scsi}/${attribute}`, `${text}\n`);
    mkdirSync(join(this.root, block, "holders"));
    this.#link(`${block}/device`, scsi);
    this.#link(`sys/block/${name}`, block);
    this.#link(`sys/class/block/${name}`, block);
    this.#write(`dev/${name}`, "");
  }

  /** A new disk gets the first unused name and number (drivers/scsi/sd.c of 6.1, sd_probe: ida_alloc). */
  #freeIndex(): number {
    const used = new Set(this.disks);
    return [...Array(26).keys()].find(index => !used.has(nameOf(index))) ?? 26;
  }

  /** multipathd adds a disk that it knows, once udev has finished processing it. */
  #added(disk: string): void {
    if ((this.known || this.greedy) && this.udevBehind-- <= 0)
      this.#map(disk, this.#read(`sys/block/${disk}/device/wwid`).trim());
  }

  #map(name: string, wwid: string): void {
    const map = `dm-${wwid.at(-1)}`;
    this.#write(`sys/class/block/${map}/dm/uuid`, `mpath-${wwid}\n`);
    this.#write(`sys/class/block/${map}/dm/name`, `mpath${wwid.at(-1)}\n`);
    this.#write(`sys/class/block/${map}/dev`, "254:0\n");
    this.#write(`sys/class/block/${map}/size`, this.#read(`sys/class/block/${name}/size`));
    this.#write(`dev/${map}`, "");
    this.join(name, map);
  }

  #multipath(words: readonly string[]): Output {
    if (words[0] === "-c") return done(this.greedy || this.known ? 0 : 1);
    if (words[0] === "-a" || words[0] === "-w") this.known = words[0] === "-a";
    if (words[0] !== "-f") return done(1);
    if (this.mapBusy-- > 0) return done(1, "map in use");
    const map = `dm-${words[1]?.slice("mpath".length)}`;
    rmSync(join(this.root, "sys/class/block", map), { recursive: true, force: true });
    for (const disk of this.disks) rmSync(join(this.root, "sys/class/block", disk, "holders", map), { force: true });
    return done();
  }

  /** Acts as the kernel does when an attribute is written. */
  #attribute(path: string, text: string): Output {
    const host = /^class\/scsi_host\/host([0-9]+)\/scan$/.exec(path)?.[1];
    const session = `session${host}`;
    const show = () => this.sessions.includes(session) && this.#disk(session, text.split(" ")[2] ?? "");
    // The disk of a new device is made by a probe of its own (Linux 6.1, drivers/scsi/sd.c, PROBE_PREFER_ASYNCHRONOUS).
    if (host) this.lateMs > 0 ? later(show, this.lateMs) : show();
    const [, disk, action] = /^block\/(sd[a-z])\/device\/(delete|rescan)$/.exec(path) ?? [];
    if (!host && !(disk && existsSync(join(this.root, "sys/block", disk)))) return done(1, "No such file or directory");
    if (disk && action === "delete") this.#remove(disk);
    if (disk && action === "rescan") this.#measure(disk);
    return done();
  }

  /** A rescan asks for the size, and for who the disk is (Linux 6.1, drivers/scsi/scsi_scan.c, scsi_rescan_device: scsi_attach_vpd). */
  #measure(disk: string): void {
    const lun = this.luns.get(this.#real(`sys/block/${disk}/device`).split(":").at(-1) ?? "");
    if (!lun) return;
    this.#write(`sys/block/${disk}/size`, `${lun.mebibytes * 2048}\n`);
    this.#write(`sys/block/${disk}/device/wwid`, `${lun.wwid}\n`);
  }

  #remove(disk: string): void {
    rmSync(dirname(dirname(this.#real(`sys/block/${disk}`))), { recursive: true });
    for (const link of [`sys/block/${disk}`, `sys/class/block/${disk}`, `dev/${disk}`]) rmSync(join(this.root, link));
  }

  #end(session: string): void {
    const id = session.slice("session".length);
    for (const disk of this.disks.filter(name => this.#real(`sys/block/${name}`).includes(`/${session}/`)))
      this.#remove(disk);
    rmSync(join(this.root, `sys/class/iscsi_session/${session}`));
    rmSync(join(this.root, `sys/class/iscsi_connection/connection${id}:0`), { recursive: true });
    rmSync(join(this.root, `sys/devices/platform/host${id}`), { recursive: true });
  }

  #real(path: string): string {
    return realpathSync(join(this.root, path));
  }

  #read(path: string): string {
    return readFileSync(join(this.root, path), "utf8");
  }

  #write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    writeFileSync(join(this.root, path), text);
  }

  #link(path: string, to: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    rmSync(join(this.root, path), { force: true });
    symlinkSync(resolve(this.root, to), join(this.root, path));
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
