import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Call, Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Output, run } from "../../io/runner.ts";
import type { AttacherPorts } from "../attach/attacher.ts";
import { addressesOf, pollUntil, type Sysfs } from "../disks/sysfs.ts";
import type { OpenedSessions } from "../state/record-folder.ts";
import { type Controller, controllersOf, goesBy, type Transport, transportText } from "./subsystem.ts";

/** Time limits for the kernel to reach a subsystem, and to show or remove a connection, in milliseconds. */
const connectMs = 25_000;
const showMs = 10_000;

/** Keys of the stage secret, named after the options of nvme-connect(1). */
const dhchap = { dhchap_secret: "dhchap-secret", dhchap_ctrl_secret: "dhchap-ctrl-secret" } as const;

/** A path to a subsystem, for one connection. */
export interface FabricPath {
  readonly nqn: string;
  readonly transport: Transport;
}

type Ports = Pick<AttacherPorts, "runner" | "host" | "hostRoot" | "devices">;

/** Connects and disconnects through the kernel as nvme-connect(1) does, without secrets in argv. */
export class FabricConnections {
  readonly #ports: Ports;
  readonly #sysfs: Sysfs;
  readonly #opened: OpenedSessions;

  constructor(ports: Ports, sysfs: Sysfs, opened: OpenedSessions) {
    this.#ports = ports;
    this.#sysfs = sysfs;
    this.#opened = opened;
  }

  /** The connection over this path, or undefined. */
  async find({ nqn, transport }: FabricPath, call: Call): Promise<Controller | undefined> {
    const controllers = await controllersOf(nqn, this.#sysfs);
    if (controllers.length === 0) return undefined;
    const addresses = await addressed(transport, call.signal);
    return controllers.find(controller => goesBy(controller, addresses));
  }

  /**
   * The live connection over this path; connects if there is none. Throws "unauthenticated" when the subsystem refuses
   * this host, "unavailable" when it does not answer, "failed-precondition" if the kernel cannot connect.
   */
  async open(path: FabricPath, secrets: Secrets, call: Call): Promise<Controller> {
    const found = await this.find(path, call);
    if (found?.isLive) return found;
    if (!found) {
      const [first] = await addressed(path.transport, call.signal);
      if (!first) throw new CsiError("unavailable", `cannot resolve the name ${path.transport.address}`);
      await this.#opened.add(keyOf(path), first.address);
      await this.#connect(path, first, secrets, call);
    }
    const task = `connecting to ${path.nqn} at ${transportText(path.transport)}`;
    const live = async () => {
      const controller = await this.find(path, call);
      return controller?.isLive ? controller : undefined;
    };
    const controller = await pollUntil(showMs, live, task, call.signal);
    if (controller) return controller;
    throw new CsiError("unavailable", `${task}: the connection is not live`);
  }

  /**
   * Ends the connections over this path that csimux made since the machine started. Throws "unavailable" while one may be left: its name
   * cannot be resolved, and no record says where it led.
   */
  async close(path: FabricPath, call: Call): Promise<void> {
    const key = keyOf(path);
    const made = (await this.#opened.has(key)) === "now" ? await this.#made(path, call) : [];
    for (const controller of made) {
      const folder = ["class/nvme", controller.name] as const;
      await this.#sysfs.write([...folder, "delete_controller"], "1", call.signal, true);
      const gone = async () => ((await this.#sysfs.text(...folder, "subsysnqn")) === path.nqn ? undefined : true);
      const task = `disconnecting from ${path.nqn}`;
      if (!(await pollUntil(showMs, gone, task, call.signal)))
        throw new CsiError("unavailable", `${task}: ${controller.name} still exists; retrying`);
    }
    await this.#opened.remove(key);
  }

  /** The connections over this path, also those at addresses that its name had when they were made. */
  async #made(path: FabricPath, call: Call): Promise<readonly Controller[]> {
    const { nqn, transport } = path;
    const controllers = await controllersOf(nqn, this.#sysfs);
    if (controllers.length === 0) return [];
    const before = (await this.#opened.addresses(keyOf(path))).map(address => ({ ...transport, address }));
    const addresses = [...before, ...(await addressed(transport, call.signal))];
    if (addresses.length === 0)
      throw new CsiError("unavailable", `cannot resolve the name ${transport.address}, over which ${nqn} is connected`);
    return controllers.filter(controller => goesBy(controller, addresses));
  }

  async #connect({ nqn, transport }: FabricPath, first: Transport, secrets: Secrets, call: Call): Promise<void> {
    const { hostnqn, hostid, ...options } = transport.options;
    const own = hostnqn && hostid ? { nqn: hostnqn, id: hostid } : await hostIdentity(this.#ports.hostRoot);
    const authentication = Object.entries(dhchap).flatMap(([option, key]) => {
      const value = secrets[key];
      if (value === undefined) return [];
      if (/^DHHC-1:[0-9]{2}:[A-Za-z0-9+/=]{1,200}:$/.test(value)) return [[option, value] as const];
      throw new CsiError("invalid-argument", `the secret ${key} is not of the form DHHC-1:…: (nvme gen-dhchap-key)`);
    });
    const pairs = [
      ["nqn", nqn],
      ["transport", first.type],
      ["traddr", first.address],
      ...(first.service ? [["trsvcid", first.service] as const] : []),
      ["hostnqn", hostnqn ?? own.nqn],
      ["hostid", hostid ?? own.id],
      ...Object.entries(options),
      ...authentication,
    ] as const;
    const task = `connecting to ${nqn} at ${transportText(transport)}`;
    const text = pairs.map(([name, value]) => (value === "" ? name : `${name}=${value}`)).join(",");
    const output = await this.#write(text, task, call);
    if (output.exitCode !== 0) throw refused(output, task);
  }

  /** Connects with a single write, made by a program because it blocks until the subsystem answers. */
  async #write(text: string, task: string, call: Call): Promise<Output> {
    const { runner, host, devices } = this.#ports;
    const device = join(devices, "nvme-fabrics");
    const argv = ["dd", `of=${device}`, "bs=4096", "iflag=fullblock", "conv=notrunc,nocreat", "status=none"] as const;
    const write = () => run(runner, { argv, stdin: text, timeoutMs: connectMs }, task, call.signal);
    const output = await write();
    if (!/No such (?:file|device)/.test(output.stderr)) return output;
    // Loading the transport's module also loads the one of the device.
    const module = `nvme-${/transport=([a-z]+)/.exec(text)?.[1]}`;
    await host.run({ argv: ["modprobe", module] }, call.signal).catch(() => {});
    return await write();
  }
}

const keyOf = ({ nqn, transport }: FabricPath): string => `nvmeof ${nqn} ${transportText(transport)}`;

/** The addresses of a transport. Empty if its name cannot be resolved. */
async function addressed(transport: Transport, signal: AbortSignal): Promise<readonly Transport[]> {
  const { type, address } = transport;
  if (type === "fc") return [transport];
  return (await addressesOf(address, signal)).map(each => ({ ...transport, address: each }));
}

/** Converts the error output of dd(1), which holds the text of the kernel's errno. */
function refused({ stderr, exitCode }: Output, task: string): CsiError {
  const words = stderr.trim().split("\n").at(-1)?.slice(-200) ?? "";
  if (/already in progress/.test(words)) return new CsiError("unavailable", `${task}: already in progress; retrying`);
  if (/No such (?:file|device)/.test(words)) {
    const advice = "load the module of the transport on this node (nvme-tcp, nvme-rdma, nvme-fc)";
    return new CsiError("failed-precondition", `${task}: this node does not support NVMe over Fabrics; ${advice}`);
  }
  const isRefused = /Permission denied|not permitted|Key was rejected|Required key/i.test(words);
  const text = `${task} failed: ${words || `exit code ${exitCode}`}; see the kernel log of this node`;
  return new CsiError(isRefused ? "unauthenticated" : "unavailable", text);
}

/** The identity of this node towards subsystems. */
export interface HostIdentity {
  readonly nqn: string;
  readonly id: string;
}

const uuidForm = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i;

/**
 * The host's identity: from its /etc/nvme if present, as in nvme-connect(1), otherwise derived from its machine-id(5).
 * It must be unique and permanent for each node, because access lists and reservations depend on it. Throws
 * "failed-precondition" if the host has neither.
 */
export async function hostIdentity(root: string): Promise<HostIdentity> {
  const text = async (file: string) => (await readFile(join(root, file), "utf8").catch(() => "")).trim();
  const nqn = await text("etc/nvme/hostnqn");
  const id = uuidForm.exec(await text("etc/nvme/hostid"))?.[0];
  const own = uuidForm.exec(nqn)?.[0] ?? (await derived(text));
  if (nqn && id) return { nqn, id };
  if (nqn && own) return { nqn, id: own };
  const uuid = id ?? own;
  if (uuid) return { nqn: `nqn.2014-08.org.nvmexpress:uuid:${uuid}`, id: uuid };
  const message = "this node has neither /etc/nvme/hostnqn nor /etc/machine-id; create the first with nvme gen-hostnqn";
  throw new CsiError("failed-precondition", message);
}

/** Derives an application-specific id from the machine-id, which must not be exposed itself (machine-id(5)). */
async function derived(text: (file: string) => Promise<string>): Promise<string | undefined> {
  const machine = await text("etc/machine-id");
  if (!/^[0-9a-f]{32}$/.test(machine)) return undefined;
  const hex = createHash("sha256").update(`csimux nvme host ${machine}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
