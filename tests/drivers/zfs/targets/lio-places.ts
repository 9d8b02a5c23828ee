import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import { below } from "../../../../scripts/check/below.ts";
import type { ZfsRig } from "../zfs-rig.ts";

/** Where the model of a host has the targets of LIO of a volume, and what is saved of them. */

export const base = "iqn.2024-01.org.example:storage";
export const nameOf = (rig: ZfsRig, id = "a"): string =>
  `${id.toLowerCase()}-${tagOf(rig.fake.find(`tank/k/v/${id}`)?.guid ?? "")}`;
export const lio = (rig: ZfsRig, ...parts: readonly string[]): string => join(rig.fake.folder, "lio", ...parts);
export const group = (rig: ZfsRig, id = "a"): string => lio(rig, "iscsi", `${base}:${nameOf(rig, id)}`, "tpgt_1");
export const savedPath = (rig: ZfsRig): string => join(rig.fake.folder, "lio-saveconfig.json");
export const backstore = (rig: ZfsRig, id = "a"): string => {
  const name = nameOf(rig, id);
  const hba = readdirSync(lio(rig, "core")).find(each => existsSync(lio(rig, "core", each, name))) ?? "";
  return lio(rig, "core", hba, name);
};

export const iqns = (rig: ZfsRig): readonly string[] =>
  readdirSync(lio(rig, "iscsi")).filter(name => name.startsWith("iqn."));

/** The model of the kernel, and what is saved of it. */
export const all = (rig: ZfsRig): readonly string[] => [...below(lio(rig)), readFileSync(savedPath(rig), "utf8")];

export const fault = (rig: ZfsRig, name: string) => writeFileSync(join(rig.fake.folder, "lio-fault"), name);

export const savedTargets = (rig: ZfsRig): readonly string[] => {
  const text = readFileSync(join(rig.fake.folder, "lio-saveconfig.json"), "utf8");
  return (JSON.parse(text) as { targets: { wwn: string }[] }).targets.map(({ wwn }) => wwn);
};
