import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Command, CommandRunner, Output } from "../../../lib/io/runner.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import { nvmeof } from "../../../lib/node/nvme/attacher.ts";

const done = (exitCode = 0, stderr = ""): Output => ({ exitCode, stderr, stdout: "" });

export const nqn = "nqn.2005-10.org.example:one";

/** A node with NVMe over TCP and native multipath in its kernel: a folder in place of /sys that changes when written to. */
export class FakeHost implements CommandRunner {
  readonly where = "fake";
  readonly root = mkdtempSync(join(tmpdir(), "csimux-nvme-"));
  readonly ran: string[] = [];
  /** The texts written to /dev/nvme-fabrics. */
  readonly asked: string[] = [];
  /** Ports that answer, as "address:service". */
  readonly alive = new Set<string>();
  /** Namespace id → size in MiB. */
  readonly namespaces = new Map([["1", 8]]);
  /** Ports of another storage system, whose subsystem has the same name and a namespace of the same id. */
  readonly elsewhere = new Set<string>();
  /** The secret that the subsystem requires. */
  secret: string | undefined;
  /** Called before each program; may throw instead, or make it slow. */
  before: (line: string) => unknown = () => {};
  /** How long further paths may take once one is open, in milliseconds; csimux's own time if undefined. */
  graceMs: number | undefined;
  #next = 0;

  constructor(...ways: string[]) {
    for (const way of ways) this.alive.add(way);
    for (const folder of ["sys/class/nvme", "sys/class/nvme-subsystem", "sys/class/block", "dev"])
      mkdirSync(join(this.root, folder), { recursive: true });
    this.write("sys/module/nvme_core/parameters/multipath", "Y\n");
    this.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    this.write("proc/net/unix", "\n");
    this.boot("first");
  }

  /** Restarts the machine: connections are gone. */
  boot(id: string): void {
    this.write("proc/sys/kernel/random/boot_id", `${id}\n`);
    for (const name of this.controllers) this.#end(name);
  }

  attacher(): Attacher {
    const at = (name: string) => join(this.root, name);
    const places = {
      sys: at("sys"),
      devices: at("dev"),
      proc: at("proc"),
      opened: at("opened"),
      hostRoot: this.root,
      rootOf: async () => this.root,
      ...(this.graceMs !== undefined && { graceMs: this.graceMs }),
    };
    const answers = async (host: string, port: number) => this.alive.has(`${host}:${port}`);
    return nvmeof({ runner: this, host: this, answers, ...places });
  }

  get controllers(): readonly string[] {
    return readdirSync(join(this.root, "sys/class/nvme")).sort();
  }

  async run({ argv, stdin }: Command): Promise<Output> {
    const line = argv.join(" ");
    this.ran.push(line);
    await this.before(line);
    if (argv[0] !== "dd") return done();
    const path = (argv[1] ?? "").slice(3 + this.root.length + 1);
    if (path === "dev/nvme-fabrics") return this.#connect(stdin ?? "");
    const [, name = "", action] =
      /^sys\/class\/nvme\/(nvme[0-9]+)\/(delete_controller|rescan_controller)$/.exec(path) ?? [];
    if (!this.controllers.includes(name)) return done(1, "dd: No such file or directory");
    if (action === "delete_controller") this.#end(name);
    else this.#namespaces();
    return done();
  }

  /** Makes a connection that is not csimux's. */
  foreign(way: string): void {
    this.#controller(way);
  }

  /** A connection that is lost, or is back: its controller stays meanwhile (Linux 6.1, drivers/nvme/host/sysfs.c, nvme_sysfs_show_state). */
  become(controller: string, state: "live" | "connecting"): void {
    this.write(`sys/class/nvme/${controller}/state`, `${state}\n`);
  }

  #connect(text: string): Output {
    this.asked.push(text);
    const value = (key: string) => new RegExp(`(?:^|,)${key}=([^,]*)`).exec(text)?.[1];
    const way = `${value("traddr")}:${value("trsvcid")}`;
    if (!this.alive.has(way)) return done(1, "dd: error writing '/dev/nvme-fabrics': Connection refused");
    // Linux 6.1, drivers/nvme/host/tcp.c, nvme_tcp_create_ctrl: one connection over a path unless more are asked for.
    if (this.#ways().includes(way))
      return done(1, "dd: error writing '/dev/nvme-fabrics': Operation already in progress");
    if (value("nqn") !== nqn) return done(1, "dd: error writing '/dev/nvme-fabrics': Input/output error");
    if (value("dhchap_secret") !== this.secret)
      return done(1, "dd: error writing '/dev/nvme-fabrics': Operation not permitted");
    this.#controller(way);
    return done();
  }

  #controller(way: string): void {
    const name = `nvme${this.#next++}`;
    const [address, service] = way.split(":");
    const texts = {
      subsysnqn: nqn,
      transport: "tcp",
      address: `traddr=${address},trsvcid=${service},src_addr=10.0.0.9`,
      state: "live",
      uevent: "x",
    };
    for (const [file, text] of Object.entries(texts)) this.write(`sys/class/nvme/${name}/${file}`, `${text}\n`);
    this.write("sys/class/nvme-subsystem/nvme-subsys0/subsysnqn", `${nqn}\n`);
    this.#namespaces();
  }

  #ways(): readonly string[] {
    return this.controllers.map(name => {
      const text = readFileSync(join(this.root, "sys/class/nvme", name, "address"), "utf8");
      return text.replace(/^traddr=([^,]*),trsvcid=([^,]*),.*\n$/s, "$1:$2");
    });
  }

  /** A look shows what is there, and hides what is not (Linux 6.1, drivers/nvme/host/core.c, nvme_scan_work). */
  #namespaces(): void {
    for (const name of readdirSync(join(this.root, "sys/class/nvme-subsystem/nvme-subsys0"))) {
      if (!name.startsWith("nvme0n") || this.namespaces.has(name.slice("nvme0n".length))) continue;
      rmSync(join(this.root, "sys/class/nvme-subsystem/nvme-subsys0", name), { recursive: true });
      for (const link of [`sys/class/block/${name}`, `dev/${name}`]) rmSync(join(this.root, link), { force: true });
    }
    const connected = this.controllers.map((name, index) => ({ name, way: this.#ways()[index] ?? "" }));
    for (const { name, way } of connected) {
      const folder = join(this.root, "sys/class/nvme", name);
      for (const path of readdirSync(folder).filter(each => /^nvme0c[0-9]+n/.test(each)))
        rmSync(join(folder, path), { recursive: true });
      // The kernel refuses a second namespace of the same id (Linux 6.1, drivers/nvme/host/core.c, nvme_init_ns_head).
      if (this.elsewhere.has(way)) continue;
      for (const nsid of this.namespaces.keys()) mkdirSync(join(folder, `nvme0c${name.slice("nvme".length)}n${nsid}`));
    }
    for (const [nsid, mebibytes] of this.namespaces) {
      const folder = `sys/class/nvme-subsystem/nvme-subsys0/nvme0n${nsid}`;
      const texts = { nsid, size: mebibytes * 2048, wwid: `uuid.${nsid}`, dev: `259:${nsid}` };
      for (const [file, text] of Object.entries(texts)) this.write(`${folder}/${file}`, `${text}\n`);
      mkdirSync(join(this.root, folder, "holders"), { recursive: true });
      this.write(`dev/nvme0n${nsid}`, "");
      const link = join(this.root, "sys/class/block", `nvme0n${nsid}`);
      if (!existsSync(link)) symlinkSync(join(this.root, folder), link);
    }
  }

  #end(name: string): void {
    rmSync(join(this.root, "sys/class/nvme", name), { recursive: true });
    if (this.controllers.length > 0) return;
    rmSync(join(this.root, "sys/class/nvme-subsystem/nvme-subsys0"), { recursive: true });
    for (const nsid of this.namespaces.keys())
      rmSync(join(this.root, "sys/class/block", `nvme0n${nsid}`), { force: true });
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    writeFileSync(join(this.root, path), text);
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
