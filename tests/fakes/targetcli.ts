import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const write = (path: string, text: string): void => writeFileSync(path, `${text}\n`);

/** A run of targetcli on a folder that stands for /sys/kernel/config/target. */
class Session {
  out = "";
  readonly #root: string;
  readonly #fault: string;
  #place = "/";

  constructor(root: string, fault: string) {
    this.#root = root;
    this.#fault = fault;
  }

  #backstoreOf(asset: string): string | undefined {
    const core = join(this.#root, "core");
    const found = existsSync(core) ? readdirSync(core).find(each => existsSync(join(core, each, asset))) : undefined;
    return found && join(core, found, asset);
  }

  #createTarget(iqn: string): undefined {
    if (!/^iqn\.\d{4}-\d{2}\.[^.:]+\.[^_ ]+$/.test(iqn)) return this.#complain(`WWN not valid as: iqn, naa, eui`);
    const group = join(this.#root, "iscsi", iqn, "tpgt_1");
    if (existsSync(group)) return this.#complain(`This Target already exists in configFS`);
    mkdirSync(join(group, "lun"), { recursive: true });
    mkdirSync(join(group, "np"));
    mkdirSync(join(group, "attrib"));
    if (this.#fault !== "noportal") mkdirSync(join(group, "np", "0.0.0.0:3260"));
    write(join(group, "enable"), "1");
    return undefined;
  }

  #createBackstore(asset: string, device: string): undefined {
    if (this.#backstoreOf(asset)) return this.#complain(`Storage object block/${asset} exists`);
    if (!existsSync(device))
      return this.#complain(`Cannot configure StorageObject because device ${device} is missing`);
    const core = join(this.#root, "core");
    mkdirSync(core, { recursive: true });
    const folder = join(core, `iblock_${readdirSync(core).length}-${process.pid}`, asset);
    mkdirSync(folder, { recursive: true });
    write(join(folder, "udev_path"), device);
    return undefined;
  }

  #createLun(iqn: string, asset: string): undefined {
    const lun = join(this.#root, "iscsi", iqn, "tpgt_1", "lun");
    const backstore = this.#backstoreOf(asset);
    if (!backstore || !existsSync(lun)) return this.#complain(`No such object`);
    if (existsSync(join(lun, "lun_0"))) return this.#complain(`lun for storage object block/${asset} already exists`);
    if (this.#fault === "nolun") return undefined;
    mkdirSync(join(lun, "lun_0"));
    symlinkSync(backstore, join(lun, "lun_0", "link"));
    return undefined;
  }

  #remove(name: string): void {
    const target = join(this.#root, "iscsi", name);
    const backstore = this.#backstoreOf(name);
    if (this.#place === "/iscsi" && existsSync(target)) rmSync(target, { recursive: true });
    else if (this.#place === "/backstores/block" && backstore) rmSync(join(backstore, ".."), { recursive: true });
    else this.#complain(`No such object ${name}`);
  }

  #set(what: string, pairs: readonly string[]): void {
    const group = join(this.#root, this.#place.replace("/tpg1", "/tpgt_1"), what === "auth" ? "auth" : "attrib");
    mkdirSync(group, { recursive: true });
    for (const pair of pairs) write(join(group, pair.split("=")[0] ?? ""), pair.slice(pair.indexOf("=") + 1));
  }

  /** Writes down which targets there are, for after a reboot. */
  save(): void {
    const targets = join(this.#root, "iscsi");
    write(`${this.#root}-saved`, (existsSync(targets) ? readdirSync(targets) : []).join("\n"));
    this.out += "Configuration saved to /etc/rtslib-fb-target/saveconfig.json\n";
  }

  run(line: string): void {
    const [verb = "", ...words] = line.trim().split(/\s+/);
    const [first = ""] = words;
    const iqn = this.#place.split("/")[2] ?? "";
    if (verb === "cd") this.#place = first;
    else if (verb === "saveconfig") this.save();
    else if (verb === "create" && this.#place === "/iscsi") this.#createTarget(first);
    else if (verb === "create" && this.#place === "/backstores/block") this.#createBackstore(first, words[1] ?? "");
    else if (verb === "create") this.#createLun(iqn, first.split("/").at(-1) ?? "");
    else if (verb === "delete") this.#remove(first);
    else if (verb === "set" && !this.#place.startsWith("/backstores")) this.#set(first, words.slice(1));
  }

  /** Says what is wrong, and is the value of what was not done. */
  #complain(text: string): undefined {
    this.out += `${text}\n`;
    return undefined;
  }
}

/**
 * targetcli over its standard input, on a folder that stands for /sys/kernel/config/target. Like the real one it says what is
 * wrong, goes on, and ends with 0 whatever happened. `fault`: "nolun" and "noportal" are things that silently fail, "noautosave" is
 * its preference not to save when it ends.
 */
export function targetcli(root: string, fault: string, input: string): string {
  const session = new Session(root, fault);
  for (const line of input.split("\n")) session.run(line);
  if (fault !== "noautosave") session.save();
  return session.out;
}

if (import.meta.main)
  process.stdout.write(
    targetcli(process.env["LIO_ROOT"] ?? "", process.env["LIO_FAULT"] ?? "", readFileSync(0, "utf8")),
  );
