/** A native property (zfsprops(7)), as the model implements it. */
export interface Native {
  /** Without a value of its own or an inherited one. */
  readonly default: string;
  readonly inherited: boolean;
  readonly types: readonly ("filesystem" | "volume" | "snapshot")[];
  /** Only when the dataset is made. */
  readonly createOnly?: true;
  /** Computed; it cannot be set. */
  readonly computed?: true;
  readonly valid?: RegExp;
}

const file = ["filesystem"] as const;
const block = ["volume"] as const;
const both = ["filesystem", "volume"] as const;
const all = ["filesystem", "volume", "snapshot"] as const;
const size = /^(?:none|auto|\d+(?:\.\d+)?[KMGTP]?B?)$/i;
const onOff = /^(?:on|off)$/;

const computed = (types: Native["types"]): Native => ({ default: "-", inherited: false, types, computed: true });
const inherited = (types: Native["types"], fallback: string, valid?: RegExp): Native => ({
  default: fallback,
  inherited: true,
  types,
  ...(valid && { valid }),
});

/** Native properties by name. */
export const natives: Readonly<Record<string, Native>> = {
  type: computed(all),
  creation: computed(all),
  guid: computed(all),
  createtxg: computed(all),
  used: computed(all),
  available: computed(both),
  referenced: computed(all),
  logicalreferenced: computed(all),
  origin: computed(both),
  mounted: computed(file),
  keystatus: computed(both),
  clones: computed(["snapshot"]),
  defer_destroy: computed(["snapshot"]),
  userrefs: computed(["snapshot"]),
  receive_resume_token: computed(both),
  refquota: { default: "0", inherited: false, types: file, valid: size },
  quota: { default: "0", inherited: false, types: file, valid: size },
  refreservation: { default: "0", inherited: false, types: both, valid: size },
  reservation: { default: "0", inherited: false, types: both, valid: size },
  volsize: { default: "-", inherited: false, types: ["volume", "snapshot"], valid: size },
  volblocksize: { default: "16384", inherited: false, types: block, createOnly: true, valid: size },
  casesensitivity: { default: "sensitive", inherited: false, types: file, createOnly: true },
  normalization: { default: "none", inherited: false, types: file, createOnly: true },
  utf8only: { default: "off", inherited: false, types: file, createOnly: true, valid: onOff },
  encryption: { default: "off", inherited: true, types: both, createOnly: true },
  keyformat: { default: "none", inherited: false, types: both, createOnly: true },
  keylocation: { default: "none", inherited: false, types: both },
  mountpoint: inherited(file, ""),
  canmount: { default: "on", inherited: false, types: file, valid: /^(?:on|off|noauto)$/ },
  readonly: inherited(both, "off", onOff),
  compression: inherited(both, "on", /^(?:on|off|lz4|zle|lzjb|gzip(?:-\d)?|zstd(?:-\d+)?)$/),
  dedup: inherited(both, "off", /^(?:on|off|verify|sha256(?:,verify)?)$/),
  atime: inherited(file, "on", onOff),
  sync: inherited(both, "standard", /^(?:standard|always|disabled)$/),
  logbias: inherited(both, "latency", /^(?:latency|throughput)$/),
  recordsize: { ...inherited(file, "131072", size) },
  volmode: inherited(block, "default", /^(?:default|full|geom|dev|none)$/),
  snapdev: inherited(block, "hidden"),
  snapdir: inherited(file, "hidden"),
  acltype: inherited(file, "off"),
  aclmode: inherited(file, "discard"),
  aclinherit: inherited(file, "restricted"),
  xattr: inherited(file, "on"),
  sharenfs: inherited(file, "off"),
  sharesmb: inherited(file, "off"),
  exec: inherited(file, "on", onOff),
  copies: inherited(both, "1", /^[123]$/),
};

/** Names of columns and properties that have a short form. */
export const aliases: Readonly<Record<string, string>> = { avail: "available", refer: "referenced" };

const units: Readonly<Record<string, number>> = { K: 1, M: 2, G: 3, T: 4, P: 5 };

/** "1.5G" and "1536M" in bytes; "none" is 0. */
export function bytesOf(text: string): number {
  const [, number = "0", unit = ""] = /^(\d+(?:\.\d+)?)([KMGTP]?)B?$/i.exec(text) ?? [];
  return Math.round(Number(number) * 1024 ** (units[unit.toUpperCase()] ?? 0));
}

const sizes =
  /^(?:used|available|referenced|logicalreferenced|refquota|quota|refreservation|reservation|volsize|volblocksize|recordsize)$/;

/** The value as people see it, without -p: sizes rounded, dates as text. */
export function shown(property: string, value: string): string {
  if (property === "creation" && value !== "-") return new Date(Number(value) * 1000).toUTCString();
  if (!sizes.test(property) || !/^\d+$/.test(value)) return value;
  if (value === "0" && /quota|reservation/.test(property)) return "none";
  for (const [unit, power] of Object.entries(units).reverse()) {
    const part = Number(value) / 1024 ** power;
    if (part >= 1) return `${Number(part.toPrecision(3))}${unit}`;
  }
  return value;
}
