// lib/node/nvme: namespaces of NVMe over Fabrics. subsystem.ts describes a subsystem, its paths and disks as the
// context and the kernel give them, connections.ts connects through the kernel's /dev/nvme-fabrics, attacher.ts is the
// protocol's Attacher.

import { join } from "node:path";
import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { allEnded } from "../../core/semaphore.ts";
import type { Finding } from "../../health/finding.ts";
import type {
  AttachedDevice,
  Attacher,
  AttacherPorts,
  Attachment,
  AttachRequest,
  SaveNotes,
  StorageAddresses,
} from "../attach/attacher.ts";
import { ownSecrets } from "../attach/context.ts";
import { isHeld } from "../disks/in-use.ts";
import { Multipath } from "../disks/multipath.ts";
import { bytesOf, lostPaths, OpeningPaths, openPaths, pollUntil, Sysfs } from "../disks/sysfs.ts";
import { pathFindings } from "../health/findings.ts";
import type { VolumeContext } from "../requests.ts";
import { OpenedSessions } from "../state/record-folder.ts";
import { FabricConnections } from "./connections.ts";
import {
  type Controller,
  controllersOf,
  disksBehind,
  disksOf,
  type Namespace,
  namespaceOf,
  type Transport,
  transportText,
} from "./subsystem.ts";

/** Time limit for a namespace to appear, and interval of rescans, in milliseconds. */
const diskMs = 20_000;
const rescanMs = 2_000;

type Ports = Omit<AttacherPorts, "hostMounts" | "hostFolders" | "hostDatasets">;

/** Namespaces of NVMe over Fabrics subsystems, attached by the kernel alone. */
class Nvmeof implements Attacher {
  readonly access = protocols.nvmeof;
  readonly #ports: Ports;
  readonly #sysfs: Sysfs;
  readonly #multipath: Multipath;
  readonly #connections: FabricConnections;
  readonly #opening = new OpeningPaths();

  constructor(ports: Ports) {
    this.#ports = ports;
    this.#sysfs = new Sysfs(ports.sys, ports.runner);
    this.#multipath = new Multipath(ports, this.#sysfs);
    this.#connections = new FabricConnections(ports, this.#sysfs, new OpenedSessions(ports));
  }

  /** Volumes of one subsystem share its connections. */
  readonly lockOf = (context: VolumeContext): string | undefined => context["nqn"];

  readonly check = (context: VolumeContext, volumeId: string): void => void namespaceOf(context, volumeId);

  /** Also throws "unauthenticated" when the subsystem refuses this host, "unavailable" when no path connects. */
  async attach({ volumeId, context }: AttachRequest, note: SaveNotes, call: Call): Promise<AttachedDevice> {
    const wanted = namespaceOf(context, volumeId);
    await note({ connecting: "yes" });
    const connected = await this.#connect(wanted, ownSecrets(call.secrets, context), call);
    const names = await this.#disks(wanted, connected, call);
    const map = (await this.#isNative())
      ? undefined
      : await this.#multipath.waitForMap(names, wanted.transports.length > 1, call);
    if (map) await note({ map: map.uuid });
    const others = map ? [] : await this.#namesOf(wanted.nqn, wanted.nsid);
    const paths = map ? names : await this.#multipath.inUseFirst(names, others, "wwid", call);
    return await this.#multipath.device(paths, map, "wwid", `${wanted.nqn} ${wanted.nsid}`);
  }

  /** See Attacher. Throws "unavailable" while the disk is in use. */
  readonly detach = async (attachment: Attachment, others: readonly Attachment[], call: Call): Promise<void> => {
    const { nqn, nsid, transports } = namespaceOf(attachment.context, attachment.volumeId);
    await this.#opening.ended(nqn, call.signal);
    const siblings = others.filter(({ context }) => context["nqn"] === nqn);
    const disks = await disksOf(nqn, this.#sysfs);
    const own = disks.filter(disk => disk.nsid === nsid).map(({ name }) => name);
    if (!siblings.some(({ context }) => context["nsid"] === nsid))
      await this.#multipath.release(own, attachment.notes["map"], call);
    if (siblings.length > 0) return;
    for (const { name } of disks) {
      if (!(await isHeld(join(this.#ports.devices, name), call.signal))) continue;
      return call.log.info("keeping a connection: another disk of the subsystem is in use", { nqn, disk: name });
    }
    await allEnded(transports.map(transport => this.#connections.close({ nqn, transport }, call)));
  };

  /** Names the storage by its transport addresses; only those over TCP can be probed. */
  readonly storageOf = (context: VolumeContext): StorageAddresses => {
    const { transports } = namespaceOf(context, "");
    const tcp = transports.filter(({ type }) => type === "tcp");
    const addresses = tcp.map(({ address, service }) => ({ host: address, port: Number(service) }));
    return { name: `nvmeof ${transports.map(transportText).join(",")}`, addresses };
  };

  readonly health = async ({ volumeId, context }: Attachment): Promise<readonly Finding[]> => {
    const { nqn, nsid, transports } = namespaceOf(context, volumeId);
    const controllers = await controllersOf(nqn, this.#sysfs);
    const disks = await this.#namesOf(nqn, nsid);
    return pathFindings({
      target: nqn,
      up: controllers.filter(({ isLive }) => isLive).length,
      wanted: Math.max((await this.#isJoined()) ? transports.length : 1, controllers.length),
      disks: disks.length,
      running: disks.length,
    });
  };

  readonly grow = async ({ volumeId, context }: Attachment, least: bigint | undefined, call: Call): Promise<bigint> => {
    const { nqn, nsid } = namespaceOf(context, volumeId);
    await this.#rescan(await controllersOf(nqn, this.#sysfs), call);
    return await this.#multipath.grow(() => this.#namesOf(nqn, nsid), least, `growing volume "${volumeId}"`, call);
  };

  /** Fails if the subsystem requires the secret; the next staging has it and connects. */
  readonly restore = async ({ volumeId, context }: Attachment, call: Call): Promise<readonly string[]> => {
    const wanted = namespaceOf(context, volumeId);
    const { nqn, transports } = wanted;
    const isJoined = await this.#isJoined();
    const find = (transport: Transport) => this.#connections.find({ nqn, transport }, call);
    const reachable = await lostPaths(transports, isJoined, find, async ({ type, address, service }) =>
      type === "tcp" ? await this.#ports.answers(address, Number(service), call.signal) : true,
    );
    if (reachable.length === 0) return [];
    const connected = await this.#connect({ ...wanted, transports: reachable }, {}, call);
    if (!(await this.#isNative()))
      await this.#multipath.waitForMap(await this.#disks(wanted, connected, call), isJoined, call);
    return reachable.map(transportText);
  };

  /** Whether the kernel's native NVMe multipath joins all paths to a namespace into one disk. */
  async #isNative(): Promise<boolean> {
    return (await this.#sysfs.text("module/nvme_core/parameters/multipath")) === "Y";
  }

  /** Whether the kernel or multipathd joins all paths to a namespace. */
  async #isJoined(): Promise<boolean> {
    return (await this.#isNative()) || (await this.#multipath.runs());
  }

  /** Connects all paths if they are joined, else the first that works. Throws as openPaths. */
  async #connect({ nqn, transports }: Namespace, secrets: Call["secrets"], call: Call): Promise<readonly Controller[]> {
    const open = (transport: Transport) =>
      this.#opening.run(nqn, () => this.#connections.open({ nqn, transport }, secrets, call));
    const failed = (transport: Transport, reason: string) =>
      call.log.warn("cannot connect to a path of a subsystem", { nqn, transport: transportText(transport), reason });
    return await openPaths(transports, await this.#isJoined(), open, failed, call.signal, this.#ports.graceMs);
  }

  async #namesOf(nqn: string, nsid: string): Promise<readonly string[]> {
    return (await disksOf(nqn, this.#sysfs)).filter(disk => disk.nsid === nsid).map(({ name }) => name);
  }

  /**
   * The disks of a namespace to which these connections lead: a single one with native multipath. Throws "unavailable" when none appears.
   */
  async #disks({ nqn, nsid }: Namespace, connected: readonly Controller[], call: Call): Promise<readonly string[]> {
    let next = performance.now() + rescanMs;
    const ask = async () => {
      const behind = await disksBehind(connected, this.#sysfs);
      const found = (await this.#namesOf(nqn, nsid)).filter(name => behind.has(name));
      const sizes = await Promise.all(found.map(name => bytesOf(name, this.#sysfs)));
      if (found.length > 0 && sizes.every(size => size > 0n)) return found;
      if (performance.now() >= next) {
        await this.#rescan(await controllersOf(nqn, this.#sysfs), call);
        next = performance.now() + rescanMs;
      }
      return undefined;
    };
    const names = await pollUntil(diskMs, ask, `looking for namespace ${nsid} of ${nqn}`, call.signal);
    if (!names) {
      const [other] = await this.#namesOf(nqn, nsid);
      const also = other
        ? `, and that ${other} is not of another storage system with a subsystem of the same name`
        : "";
      throw new CsiError("unavailable", `${nqn} shows no namespace ${nsid}; check that the subsystem has it${also}`);
    }
    const identities = new Set(await Promise.all(names.map(name => this.#sysfs.text("class/block", name, "wwid"))));
    if (identities.size === 1) return names;
    const message = `the paths to ${nqn} show different disks (${names.join(", ")}); none of them is used`;
    throw new CsiError("failed-precondition", message);
  }

  async #rescan(controllers: readonly Controller[], call: Call): Promise<void> {
    const live = controllers.filter(({ isLive }) => isLive);
    await Promise.all(
      live.map(({ name }) => this.#sysfs.write(["class/nvme", name, "rescan_controller"], "1", call.signal, true)),
    );
  }
}

/** The attacher of `node_attach_driver: nvmeof`. */
export const nvmeof = (ports: Ports): Attacher => new Nvmeof(ports);
