import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const memoryMiB = 2048;
const processors = 2;

/** The processor: the host's hardware, or emulation, which works everywhere and is about 20 times slower. */
export type Accelerator = "kvm" | "tcg";

/** The ports of a guest that the host reaches, on 127.0.0.1: ssh, SMB, NFS, iSCSI and NVMe/TCP. */
export const guestPorts = { ssh: 22, smb: 445, nfs: 2049, iscsi: 3260, nvme: 4420 } as const;

/** The host's port for a port of a guest. */
export const hostPort = (number: number, port: number): number => number * 10_000 + port;

/** A machine to start. */
export interface Machine {
  readonly number: number;
  readonly accelerator: Accelerator;
  /** Holds the kernel and the initrd. */
  readonly image: string;
  /** For the console's output and QEMU's errors. */
  readonly folder: string;
  readonly disks: readonly [root: string, pool: string];
  /** A file with the memory of a frozen machine to resume; boots if absent. */
  readonly frozen?: string;
  /** Whether the machine ends with this process, however that ends. */
  readonly tethered: boolean;
}

const hardware = (accelerator: Accelerator): readonly string[] => [
  ...["-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none"],
  ...["-accel", accelerator === "kvm" ? "kvm" : "tcg,thread=multi,tb-size=512"],
  ...["-cpu", accelerator === "kvm" ? "host" : "max", "-m", String(memoryMiB), "-smp", String(processors)],
  ...["-device", "virtio-rng-pci", "-device", "virtio-balloon-pci,free-page-reporting=on"],
];

const kernelLine =
  "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off audit=0 apparmor=0 panic=-1 loglevel=4";

const drive = (file: string): readonly string[] => [
  "-drive",
  `file=${file},if=virtio,format=qcow2,cache=unsafe,discard=unmap`,
];

/** Two network cards: QEMU's user network with forwarded ports, and a segment shared by all guests of this host. */
function network(number: number): readonly string[] {
  const forwards = Object.values(guestPorts).map(
    port => `hostfwd=tcp:127.0.0.1:${hostPort(number, port)}-10.0.2.15:${port}`,
  );
  return [
    ...["-nic", ["user", "model=virtio-net-pci", "mac=52:54:00:77:00:01", ...forwards].join(",")],
    ...["-nic", "socket,model=virtio-net-pci,mac=52:54:00:77:01:00,mcast=239.77.0.1:17077,localaddr=127.0.0.1"],
  ];
}

/** Everything that must not change for a frozen machine to resume: part of the image's name. */
export const machineShape = (): string => JSON.stringify([hardware("kvm"), hardware("tcg"), network(0), kernelLine]);

/** The socket on which QEMU takes commands (QMP). */
export const controlSocket = (folder: string): string => join(folder, "qmp");

/** QEMU's arguments for a machine. They include its name, to detect reused process ids. */
const machineArguments = ({ number, accelerator, image, folder, disks, frozen }: Machine): readonly string[] => [
  ...["-name", `csimux-lab-${number}`, ...hardware(accelerator), ...disks.flatMap(drive), ...network(number)],
  ...["-kernel", join(image, "vmlinuz"), "-initrd", join(image, "initrd.img"), "-append", kernelLine],
  ...["-serial", `file:${join(folder, "console.log")}`, "-qmp", `unix:${controlSocket(folder)},server=on,wait=off`],
  ...(frozen === undefined ? [] : ["-incoming", `exec:cat '${frozen}'`]),
];

/**
 * Starts a machine. The kernel kills a tethered one with its parent (prctl(2), PR_SET_PDEATHSIG), because a killed parent
 * cannot clean up.
 */
export function startMachine(machine: Machine): ChildProcess {
  const errors = openSync(join(machine.folder, "qemu.log"), "a");
  const qemu = ["qemu-system-x86_64", ...machineArguments(machine)] as const;
  const [program, ...args] = machine.tethered ? (["setpriv", "--pdeathsig", "KILL", ...qemu] as const) : qemu;
  const child = spawn(program, args, { detached: !machine.tethered, stdio: ["ignore", errors, errors] });
  closeSync(errors);
  child.on("error", () => {});
  if (!machine.tethered) child.unref();
  return child;
}

const signal = (pid: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
};

/** Ends a machine's process with SIGTERM, or SIGKILL after five seconds, and waits for it. */
export async function endProcess(pid: number): Promise<void> {
  const impatient = Date.now() + 5000;
  let name: NodeJS.Signals = "SIGTERM";
  while (signal(pid, name)) {
    await pause(50);
    if (Date.now() > impatient) name = "SIGKILL";
  }
}
