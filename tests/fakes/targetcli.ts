import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

const write = (path: string, text: string): void => writeFileSync(path, `${text}\n`);

/** Attributes of a target portal group (Linux 6.1, iscsi_target_configfs.c, DEF_TPG_ATTRIB). */
const groupAttributes = new Set([
  ...["authentication", "cache_dynamic_acls", "default_cmdsn_depth", "default_erl", "demo_mode_discovery"],
  ...["demo_mode_write_protect", "fabric_prot_type", "generate_node_acls", "login_keys_workaround", "login_timeout"],
  ...["netif_timeout", "prod_mode_write_protect", "t10_pi", "tpg_enabled_sendtargets"],
]);

const foldersIn = (path: string): readonly string[] => (existsSync(path) ? readdirSync(path) : []);

/** A run of targetcli on a folder in place of /sys/kernel/config/target. */
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
    mkdirSync(join(group, "acls"));
    // One name behind a NUL for each session of an initiator without an ACL (Linux 6.1, target_core_tpg.c, target_show_dynamic_sessions).
    writeFileSync(join(group, "dynamic_sessions"), "");
    // targetcli-fb 2.1.53 switches it off in every new group (ui_target.py, seen).
    write(join(group, "attrib", "authentication"), "0");
    if (this.#fault !== "noportal") mkdirSync(join(group, "np", "0.0.0.0:3260"));
    write(join(group, "enable"), "1");
    return undefined;
  }

  /** targetcli-fb 2.1.53, ui_target.py, UIPortals.ui_command_create: all addresses, port 3260. */
  #createPortal(iqn: string): undefined {
    const portals = join(this.#root, "iscsi", iqn, "tpgt_1", "np");
    if (this.#fault === "noportal" || !existsSync(portals)) return this.#complain("Could not create NetworkPortal");
    if (existsSync(join(portals, "0.0.0.0:3260")))
      return this.#complain("This NetworkPortal already exists in configFS");
    mkdirSync(join(portals, "0.0.0.0:3260"));
    return undefined;
  }

  /** Words by position or by name (configshell-fb, shell.py); without a serial rtslib takes a random one (rtslib-fb 2.1.75, tcm.py). */
  #createBackstore(words: readonly string[]): undefined {
    const named = new Map(words.filter(word => word.includes("=")).map(word => word.split("=") as [string, string]));
    const plain = words.filter(word => !word.includes("="));
    const {
      name: asset = "",
      dev: device = "",
      wwn = randomUUID(),
    } = {
      ...{ name: plain[0], dev: plain[1] },
      ...Object.fromEntries(named),
    };
    if (this.#backstoreOf(asset)) return this.#complain(`Storage object block/${asset} exists`);
    if (!existsSync(device))
      return this.#complain(`Cannot configure StorageObject because device ${device} is missing`);
    const core = join(this.#root, "core");
    mkdirSync(core, { recursive: true });
    const folder = join(core, `iblock_${readdirSync(core).length}-${process.pid}`, asset);
    mkdirSync(folder, { recursive: true });
    write(join(folder, "udev_path"), device);
    mkdirSync(join(folder, "wwn"));
    write(join(folder, "wwn", "vpd_unit_serial"), `T10 VPD Unit Serial Number: ${wwn}`);
    this.#members();
    return undefined;
  }

  /** Each backstore names the LUNs that lead to it (Linux 6.1, target_core_configfs.c, target_tg_pt_gp_members_show). */
  #members(): void {
    const core = join(this.#root, "core");
    const targets = join(this.#root, "iscsi");
    for (const hba of foldersIn(core))
      for (const asset of readdirSync(join(core, hba))) {
        const folder = join(core, hba, asset, "alua/default_tg_pt_gp");
        const luns = foldersIn(targets).flatMap(iqn =>
          foldersIn(join(targets, iqn, "tpgt_1/lun")).flatMap(lun =>
            foldersIn(join(targets, iqn, "tpgt_1/lun", lun))
              .filter(link => readlinkSync(join(targets, iqn, "tpgt_1/lun", lun, link)) === join(core, hba, asset))
              .map(() => `iSCSI/${iqn}/tpgt_1/${lun}\n`),
          ),
        );
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, "members"), luns.join(""));
      }
  }

  #createLun(iqn: string, asset: string): undefined {
    const lun = join(this.#root, "iscsi", iqn, "tpgt_1", "lun");
    const backstore = this.#backstoreOf(asset);
    if (!backstore || !existsSync(lun)) return this.#complain(`No such object`);
    if (existsSync(join(lun, "lun_0"))) return this.#complain(`lun for storage object block/${asset} already exists`);
    if (this.#fault === "nolun") return undefined;
    mkdirSync(join(lun, "lun_0"));
    symlinkSync(backstore, join(lun, "lun_0", "link"));
    this.#members();
    return undefined;
  }

  #remove(name: string): void {
    const target = join(this.#root, "iscsi", name);
    const backstore = this.#backstoreOf(name);
    if (this.#place === "/iscsi" && existsSync(target)) rmSync(target, { recursive: true });
    else if (this.#place === "/backstores/block" && backstore) this.#removeBackstore(backstore);
    else this.#complain(`No such object ${name}`);
    this.#members();
  }

  /** A backstore takes its LUNs along, of whatever target (rtslib-fb 2.1.75, tcm.py, StorageObject.delete). */
  #removeBackstore(backstore: string): void {
    const targets = join(this.#root, "iscsi");
    for (const iqn of foldersIn(targets))
      for (const lun of foldersIn(join(targets, iqn, "tpgt_1/lun"))) {
        const folder = join(targets, iqn, "tpgt_1/lun", lun);
        if (readdirSync(folder).some(link => readlinkSync(join(folder, link)) === backstore))
          rmSync(folder, { recursive: true });
      }
    rmSync(join(backstore, ".."), { recursive: true });
  }

  #set(what: string, pairs: readonly string[]): undefined {
    const group = join(this.#root, this.#place.replace("/tpg1", "/tpgt_1"), what === "auth" ? "auth" : "attrib");
    mkdirSync(group, { recursive: true });
    const unknown = what === "auth" ? undefined : pairs.find(pair => !groupAttributes.has(pair.split("=")[0] ?? ""));
    if (unknown !== undefined) return this.#complain(`Unknown configuration parameter ${unknown}`);
    for (const pair of pairs) write(join(group, pair.split("=")[0] ?? ""), pair.slice(pair.indexOf("=") + 1));
    return undefined;
  }

  /** Writes all that the kernel has to one file, from which a host restores it when it starts (rtslib-fb 2.1.75, root.py, save_to_file). */
  save(): void {
    const core = join(this.#root, "core");
    const targets = join(this.#root, "iscsi");
    const storage_objects = foldersIn(core).flatMap(hba =>
      readdirSync(join(core, hba)).map(name => ({
        ...{ name, plugin: "block" },
        dev: readFileSync(join(core, hba, name, "udev_path"), "utf8").trim(),
      })),
    );
    const saved = foldersIn(targets).map(wwn => {
      const group = join(targets, wwn, "tpgt_1");
      const luns = foldersIn(join(group, "lun")).map(lun => ({ index: Number(lun.replace("lun_", "")) }));
      const node_acls = foldersIn(join(group, "acls")).map(node_wwn => ({ node_wwn }));
      return { fabric: "iscsi", wwn, tpgs: [{ tag: 1, luns, node_acls }] };
    });
    write(`${this.#root}-saveconfig.json`, JSON.stringify({ storage_objects, targets: saved }));
    this.out += "Configuration saved to /etc/rtslib-fb-target/saveconfig.json\n";
  }

  run(line: string): void {
    const [verb = "", ...words] = line.trim().split(/\s+/);
    const [first = ""] = words;
    const iqn = this.#place.split("/")[2] ?? "";
    if (verb === "cd") this.#place = first;
    else if (verb === "saveconfig") this.save();
    else if (verb === "create" && this.#place === "/iscsi") this.#createTarget(first);
    else if (verb === "create" && this.#place === "/backstores/block") this.#createBackstore(words);
    else if (verb === "create" && this.#place.endsWith("/portals")) this.#createPortal(iqn);
    else if (verb === "create") this.#createLun(iqn, first.split("/").at(-1) ?? "");
    else if (verb === "delete") this.#remove(first);
    else if (verb === "set" && !this.#place.startsWith("/backstores")) this.#set(first, words.slice(1));
  }

  /** Prints a complaint; returns the value of a command that did nothing. */
  #complain(text: string): undefined {
    this.out += `${text}\n`;
    return undefined;
  }
}

/**
 * targetcli over its standard input, on a folder in place of /sys/kernel/config/target. Like the real one it prints complaints,
 * continues, and always exits with 0. `fault`: "nolun" and "noportal" fail silently, "noautosave" is its preference not to save when
 * it ends.
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
