import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * targetcli over its standard input, on a folder that stands for /sys/kernel/config/target (LIO_ROOT). Like the real one it says
 * what is wrong, goes on, and ends with 0 whatever happened. LIO_FAULT: "nolun" and "noportal" are things that silently fail.
 */
const root = process.env["LIO_ROOT"] ?? "";
const fault = process.env["LIO_FAULT"] ?? "";
let place = "/";

const write = (path: string, text: string): void => writeFileSync(path, `${text}\n`);
/** Says what is wrong, and is the value of what was not done. */
const complain = (text: string): undefined => void process.stdout.write(`${text}\n`);

function backstoreOf(asset: string): string | undefined {
  const core = join(root, "core");
  const found = existsSync(core) ? readdirSync(core).find(each => existsSync(join(core, each, asset))) : undefined;
  return found && join(core, found, asset);
}

function createTarget(iqn: string): undefined {
  if (!/^iqn\.\d{4}-\d{2}\.[^.:]+\.[^_ ]+$/.test(iqn)) return complain(`WWN not valid as: iqn, naa, eui`);
  const group = join(root, "iscsi", iqn, "tpgt_1");
  if (existsSync(group)) return complain(`This Target already exists in configFS`);
  mkdirSync(join(group, "lun"), { recursive: true });
  mkdirSync(join(group, "np"));
  mkdirSync(join(group, "attrib"));
  if (fault !== "noportal") mkdirSync(join(group, "np", "0.0.0.0:3260"));
  write(join(group, "enable"), "1");
  return undefined;
}

function createBackstore(asset: string, device: string): undefined {
  if (backstoreOf(asset)) return complain(`Storage object block/${asset} exists`);
  if (!existsSync(device)) return complain(`Cannot configure StorageObject because device ${device} is missing`);
  const core = join(root, "core");
  mkdirSync(core, { recursive: true });
  const folder = join(core, `iblock_${readdirSync(core).length}-${process.pid}`, asset);
  mkdirSync(folder, { recursive: true });
  write(join(folder, "udev_path"), device);
  return undefined;
}

function createLun(iqn: string, asset: string): undefined {
  const lun = join(root, "iscsi", iqn, "tpgt_1", "lun");
  const backstore = backstoreOf(asset);
  if (!backstore || !existsSync(lun)) return complain(`No such object`);
  if (existsSync(join(lun, "lun_0"))) return complain(`lun for storage object block/${asset} already exists`);
  if (fault === "nolun") return undefined;
  mkdirSync(join(lun, "lun_0"));
  symlinkSync(backstore, join(lun, "lun_0", "link"));
  return undefined;
}

function remove(name: string): void {
  const target = join(root, "iscsi", name);
  const backstore = backstoreOf(name);
  if (place === "/iscsi" && existsSync(target)) rmSync(target, { recursive: true });
  else if (place === "/backstores/block" && backstore) rmSync(join(backstore, ".."), { recursive: true });
  else complain(`No such object ${name}`);
}

function set(what: string, pairs: readonly string[]): void {
  const group = join(root, place.replace("/tpg1", "/tpgt_1"), what === "auth" ? "auth" : "attrib");
  mkdirSync(group, { recursive: true });
  for (const pair of pairs) write(join(group, pair.split("=")[0] ?? ""), pair.slice(pair.indexOf("=") + 1));
}

for (const line of readFileSync(0, "utf8").split("\n")) {
  const [verb = "", ...words] = line.trim().split(/\s+/);
  const [first = ""] = words;
  const iqn = place.split("/")[2] ?? "";
  if (verb === "cd") place = first;
  else if (verb === "create" && place === "/iscsi") createTarget(first);
  else if (verb === "create" && place === "/backstores/block") createBackstore(first, words[1] ?? "");
  else if (verb === "create") createLun(iqn, first.split("/").at(-1) ?? "");
  else if (verb === "delete") remove(first);
  else if (verb === "set" && !place.startsWith("/backstores")) set(first, words.slice(1));
}
