import { join } from "node:path";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { bytesOf, Sysfs } from "../../lib/node/disks/sysfs.ts";
import { controllersOf, disksBehind, disksOf } from "../../lib/node/nvme/subsystem.ts";
import { pause } from "../waiting.ts";
import type { Sight } from "./host-cases.ts";

/** A node with NVMe over TCP, and a subsystem whose namespace 1 has 8 MiB: a model, or real ones. */
export interface FabricHost {
  readonly runner: CommandRunner;
  /** What stands before /sys and /dev. */
  readonly root: string;
  readonly nqn: string;
  /** Where the subsystem is reached, and where nothing listens, as "address:port". */
  readonly port: string;
  readonly closed: string;
  /** Gives namespace 1 another size. */
  resize(mebibytes: number): Promise<void>;
  /** Adds a namespace 2 of 8 MiB, or removes it. */
  second(isThere: boolean): Promise<void>;
}

/** One behaviour of the kernel's NVMe host. It leaves nothing behind. */
type FabricCase = (host: FabricHost) => Promise<Sight>;

const { signal } = new AbortController();
const uuid = "6b0b9bb2-2a2c-4f52-8b9c-0d4f2f2f7a11";

/** What csimux sends to a node and reads of it (lib/node/nvme). */
function nodeOf({ runner, root, nqn }: FabricHost) {
  const sysfs = new Sysfs(join(root, "sys"), runner);
  const dd = async (path: string, text: string, ...words: readonly string[]): Promise<string> => {
    const argv = ["dd", `of=${join(root, path)}`, ...words, "conv=notrunc,nocreat", "status=none"] as const;
    const { exitCode, stderr } = await runner.run({ argv, stdin: text, timeoutMs: 120_000 }, signal);
    return `${exitCode} ${stderr.trim().split("\n").at(-1)?.split(": ").at(-1) ?? ""}`.trim();
  };
  const controllers = () => controllersOf(nqn, sysfs);
  const disks = async () =>
    Promise.all(
      (await disksOf(nqn, sysfs)).map(async ({ name, nsid }) => `${nsid} ${(await bytesOf(name, sysfs)) >> 20n} MiB`),
    );
  return {
    connect(port: string, name = nqn): Promise<string> {
      const [address, service] = port.split(":");
      const host = `hostnqn=nqn.2014-08.org.nvmexpress:uuid:${uuid},hostid=${uuid}`;
      const text = `nqn=${name},transport=tcp,traddr=${address},trsvcid=${service},${host}`;
      return dd("dev/nvme-fabrics", text, "bs=4096", "iflag=fullblock");
    },
    controllers: async () =>
      (await controllers()).map(
        ({ type, address, service, isLive }) => `${type} ${address}:${service} ${isLive ? "live" : "not live"}`,
      ),
    names: async () => (await controllers()).map(({ name }) => name),
    /** Whether each disk of the subsystem is behind its connections. */
    behind: async () => {
      const reached = await disksBehind(await controllers(), sysfs);
      return (await disksOf(nqn, sysfs)).map(
        ({ name, nsid }) => `${nsid} ${reached.has(name) ? "behind" : "elsewhere"}`,
      );
    },
    write: (name: string, action: "delete_controller" | "rescan_controller") =>
      dd(`sys/class/nvme/${name}/${action}`, "1"),
    /** The disks, when there are as many as expected; those that are there at the end of the patience otherwise. */
    async disks(wanted: readonly string[]): Promise<readonly string[]> {
      for (let n = 0; n < 100 && (await disks()).join() !== wanted.join(); n++) await pause(100);
      return disks();
    },
  };
}

export const fabricCases: Readonly<Record<string, FabricCase>> = {
  "a subsystem is connected over a port once, and disconnected once": async host => {
    const node = nodeOf(host);
    const there = (all: readonly string[]) => all.map(each => each.replace(host.port, "its port"));
    const seen = [await node.connect(host.port), ...there(await node.controllers())];
    seen.push(await node.connect(host.port), ...there(await node.controllers()));
    seen.push(...(await node.disks(["1 8 MiB"])));
    const [name = "none"] = await node.names();
    seen.push(await node.write(name, "delete_controller"), ...(await node.controllers()));
    seen.push(await node.write(name, "delete_controller"), ...(await node.disks([])));
    return seen;
  },

  "a connection leads to the disks of its subsystem": async host => {
    const node = nodeOf(host);
    const seen = [await node.connect(host.port), ...(await node.disks(["1 8 MiB"])), ...(await node.behind())];
    const [name = "none"] = await node.names();
    seen.push(await node.write(name, "delete_controller"), ...(await node.behind()));
    return seen;
  },

  "a port at which nothing listens and an unknown subsystem are refused": async host => {
    const node = nodeOf(host);
    const seen = [await node.connect(host.closed), await node.connect(host.port, `${host.nqn}-absent`)];
    return [...seen, ...(await node.controllers())];
  },

  "a rescan shows new namespaces and new sizes": async host => {
    const node = nodeOf(host);
    await node.connect(host.port);
    const [name = "none"] = await node.names();
    const seen = [...(await node.disks(["1 8 MiB"]))];
    await host.resize(16);
    await host.second(true);
    seen.push(await node.write(name, "rescan_controller"), ...(await node.disks(["1 16 MiB", "2 8 MiB"])));
    await host.second(false);
    seen.push(await node.write(name, "rescan_controller"), ...(await node.disks(["1 16 MiB"])));
    await host.resize(8);
    await node.write(name, "delete_controller");
    return seen;
  },
};
