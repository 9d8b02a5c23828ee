import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/** The model of a kernel's NVMe target: a folder in place of /sys/kernel/config/nvmet, and where nvmetcli saves it. */
export interface NvmetFolder {
  readonly root: string;
  readonly saved: string;
  /** "nolink", "noenable" and "nosave" are things that fail. */
  readonly fault: string;
}

interface Said {
  readonly out: string;
  readonly err: string;
  readonly code: number;
}

const write = (path: string, text: string): undefined => void writeFileSync(path, `${text}\n`);

class Session {
  out = "";
  readonly #host: NvmetFolder;
  #place = "/";

  constructor(host: NvmetFolder) {
    this.#host = host;
  }

  save(path: string): Said {
    if (this.#host.fault === "nosave")
      return { out: this.out, err: `OSError: [Errno 28] No space left on device: '${path}.temp'\n`, code: 1 };
    const subsystems = readdirSync(this.#at("subsystems"));
    const ports = readdirSync(this.#at("ports")).map(port => [port, readdirSync(this.#at(`ports/${port}/subsystems`))]);
    write(`${path}.temp`, JSON.stringify({ subsystems, ports }));
    copyFileSync(`${path}.temp`, path);
    rmSync(`${path}.temp`);
    return { out: this.out, err: "", code: 0 };
  }

  #create(name: string): undefined {
    if (existsSync(this.#at(`${this.#place}/${name}`)))
      return this.#complain(`This object already exists in configFS: ${name}`);
    if (this.#place === "/subsystems") {
      for (const each of ["namespaces", "allowed_hosts"])
        mkdirSync(this.#at(`${this.#place}/${name}/${each}`), { recursive: true });
      write(this.#at(`${this.#place}/${name}/attr_allow_any_host`), "0");
      return write(this.#at(`${this.#place}/${name}/attr_serial`), "0123456789abcdef");
    }
    if (this.#place.endsWith("/namespaces")) {
      mkdirSync(this.#at(`${this.#place}/${name}`));
      const attributes = { device_path: "(null)", device_uuid: "00000000-0000-0000-0000-000000000000", enable: "0" };
      for (const [key, value] of Object.entries(attributes)) write(this.#at(`${this.#place}/${name}/${key}`), value);
      return undefined;
    }
    if (!existsSync(this.#at(`subsystems/${name}`))) return this.#complain(`Could not symlink ${name} in configFS`);
    if (this.#host.fault !== "nolink") symlinkSync(this.#at(`subsystems/${name}`), this.#at(`${this.#place}/${name}`));
    return undefined;
  }

  #remove(name: string): undefined {
    if (!existsSync(this.#at(`${this.#place}/${name}`)))
      return this.#complain(`No such Subsystem in configfs: ${name}`);
    // The kernel refuses to remove what a port still leads to.
    const linked = readdirSync(this.#at("ports")).some(port =>
      existsSync(this.#at(`ports/${port}/subsystems/${name}`)),
    );
    if (this.#place === "/subsystems" && linked) return this.#complain(`[Errno 16] Device or resource busy: ${name}`);
    rmSync(this.#at(`${this.#place}/${name}`), { recursive: true });
    return undefined;
  }

  #set(group: string, pair: string): undefined {
    const [key = "", ...rest] = pair.split("=");
    const path = this.#at(`${this.#place}/${group}_${key}`);
    if (!existsSync(path)) return this.#complain(`Unknown parameter: ${key}`);
    if (group === "device" && readFileSync(this.#at(`${this.#place}/enable`), "utf8") === "1\n")
      return this.#complain("Cannot set attribute while Namespace is enabled");
    return write(path, rest.join("="));
  }

  #enable(): undefined {
    const path = readFileSync(this.#at(`${this.#place}/device_path`), "utf8").trim();
    if (this.#host.fault === "noenable" || !existsSync(path))
      return this.#complain("The Namespace could not be enabled.");
    return write(this.#at(`${this.#place}/enable`), "1");
  }

  command(line: string): undefined {
    const [verb = "", first = "", second = ""] = line.trim().split(/\s+/);
    if (verb === "cd") {
      if (!existsSync(this.#at(first))) return this.#complain(`No such path ${first}`);
      this.#place = first;
    } else if (verb === "create") this.#create(first);
    else if (verb === "delete") this.#remove(first);
    else if (verb === "set") this.#set(first, second);
    else if (verb === "enable") this.#enable();
    return undefined;
  }

  #at(path: string): string {
    return join(this.#host.root, path);
  }

  #complain(text: string): undefined {
    this.out += `${text}\n`;
    return undefined;
  }
}

/**
 * nvmetcli over its standard input, or as `save`. Like the real one it prints complaints, continues, and exits with 0, except for a
 * save that fails.
 */
export function nvmetcli(host: NvmetFolder, argv: readonly string[], input: string): Said {
  const session = new Session(host);
  const [verb, path = host.saved] = argv;
  if (verb === "save") return session.save(path);
  for (const line of input.split("\n")) session.command(line);
  return { out: session.out, err: "", code: 0 };
}

if (import.meta.main) {
  const { NVMET_ROOT: root = "", NVMET_SAVED: saved = "", NVMET_FAULT: fault = "" } = process.env;
  const argv = process.argv.slice(2);
  const { out, err, code } = nvmetcli({ root, saved, fault }, argv, argv[0] === "save" ? "" : readFileSync(0, "utf8"));
  process.stdout.write(out);
  process.stderr.write(err);
  process.exitCode = code;
}
