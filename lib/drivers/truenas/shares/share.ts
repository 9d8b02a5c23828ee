import { createHash } from "node:crypto";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { findingsOf, type VolumeFindings } from "../../../health/finding.ts";
import type { Context } from "../../driver.ts";
import type { Notes, StoredVolume } from "../../store.ts";
import { rendered, type TemplateValues } from "../../template.ts";
import { bearsTag, tagOf } from "../../zfs/targets/names.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { isMissing, isRefused } from "../api-error.ts";
import type { Api } from "../client.ts";
import { type ApiUse, checkRoles } from "../roles.ts";
import { listOf } from "../rows.ts";

/** What the four ways to share have in common. */

/** A volume as a share sees it. */
export type SharedDataset = ZfsVolume;

/** Where shares are made. */
export interface ShareContext {
  readonly api: Api;
  readonly connection: string;
  /** The value of `driver:`, for comments. */
  readonly driver: string;
  readonly use: ApiUse;
}

/** Notes that stand as ZFS properties of their own, behind "democratic-csi:"; they are as old as that driver. */
export const noteKeys = {
  nfs: ["freenas_nfs_share_id"],
  smb: ["freenas_smb_share_id"],
  iscsi: [
    "freenas_iscsi_target_id",
    "freenas_iscsi_extent_id",
    "freenas_iscsi_targettoextent_id",
    "freenas_iscsi_assets_name",
  ],
  nvmeof: ["freenas_nvmeof_subsystem_id", "freenas_nvmeof_namespace_id", "freenas_nvmeof_assets_name"],
} as const;

/** The name of a volume's target or subsystem, kept before anything of it is made. */
export const nameNote = { iscsi: "freenas_iscsi_assets_name", nvmeof: "freenas_nvmeof_assets_name" } as const;

/** Keeps those notes that are new. */
export async function kept<A extends StoredVolume>(
  asset: A,
  notes: Notes,
  keep: (notes: Notes) => Promise<A>,
): Promise<A> {
  const fresh = Object.entries(notes).filter(([key, value]) => asset.notes[key] !== value);
  return fresh.length > 0 ? keep(Object.fromEntries(fresh)) : asset;
}

/** Of the notes those that lead a node to the volume. */
export const noted = ({ notes }: StoredVolume, keys: readonly string[]): Context =>
  Object.fromEntries(keys.flatMap(key => (notes[key] === undefined ? [] : [[key, notes[key]]])));

/** A row of a table of the server. */
export type Row = Readonly<Record<string, unknown>> & { readonly id: number };

/** A condition on a field of a row. */
export type Filter = readonly [field: string, operator: "=" | "C=", value: unknown];

/** A table of the server, such as `iscsi.target`, as one call uses it. */
export interface Table {
  /** The rows that fit. */
  find(...filters: readonly Filter[]): Promise<readonly Row[]>;
  make(request: object): Promise<Row>;
  /** Deletes a row; one that is gone is gone. */
  drop(id: number, ...options: readonly unknown[]): Promise<void>;
}

/** The table of this name. */
export const tableOf = ({ api }: ShareContext, name: string, { signal }: Call): Table => ({
  find: async (...filters) => listOf<Row>(`${name}.query`, await api.call(`${name}.query`, [filters], signal)),
  make: async request => (await api.call(`${name}.create`, [request], signal)) as Row,
  async drop(id, ...options) {
    try {
      await api.call(`${name}.delete`, [id, ...options], signal);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  },
});

/** An object that stands on the server, and whether this call has made it. */
export interface ExistingRow {
  readonly row: Row;
  readonly fresh: boolean;
}

/**
 * An object of which the server takes only one: made, or found when the server refuses a second. What it says then differs from
 * version to version, so after any refusal it is looked for. `clash` throws when what is in the way is somebody else's.
 */
export async function unique(
  make: () => Promise<Row>,
  find: () => Promise<Row | undefined>,
  clash?: () => Promise<void>,
): Promise<ExistingRow> {
  try {
    return { row: await make(), fresh: true };
  } catch (error) {
    if (!isRefused(error)) throw error;
    const row = await find();
    if (row) return { row, fresh: false };
    await clash?.();
    throw error;
  }
}

/** As unique(), of which the server would take a second one: looked for first. */
export async function ensured(
  make: () => Promise<Row>,
  find: () => Promise<Row | undefined>,
  clash?: () => Promise<void>,
): Promise<Row> {
  return (await find()) ?? (await unique(make, find, clash)).row;
}

/** Volumes of which `leads` is false: nodes have no way to them. */
export const unshared = (
  assets: readonly SharedDataset[],
  leads: (asset: SharedDataset) => boolean,
  reason: "ShareMissing" | "TargetMissing",
): VolumeFindings =>
  findingsOf(
    assets.map(asset => {
      const what = reason === "ShareMissing" ? "shares" : "shows";
      const message = `TrueNAS ${what} ${asset.dataset} to nobody, or it is switched off`;
      return [asset.id, leads(asset) ? [] : [{ reason, message }]] as const;
    }),
  );

/** How a target, share or subsystem is named after its volume. */
export interface ShareNaming {
  readonly nameTemplate?: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
}

/** What names may consist of, in lower case, and how long they may be. */
export interface NameRule {
  readonly foreign: RegExp;
  readonly most: number;
}

/** What templates of shares may use. */
export const templateValues = (asset: SharedDataset, parameters: Context): TemplateValues => ({
  name: asset.name ?? asset.id,
  parameters,
  zfs: { datasetName: asset.dataset },
});

/**
 * The name of a volume's target, share or subsystem: from the template or the volume's id, in lower case, since some
 * initiators take no other. One that the server would refuse is told apart from its like by a hash.
 */
export function assetName(asset: SharedDataset, parameters: Context, naming: ShareNaming, rule: NameRule): string {
  const { nameTemplate, namePrefix, nameSuffix } = naming;
  const middle = nameTemplate ? rendered(nameTemplate, templateValues(asset, parameters)) : asset.id;
  const whole = `${namePrefix}${middle}${nameSuffix}`.toLowerCase();
  const plain = whole.replace(rule.foreign, "-");
  if (plain === whole && whole.length <= rule.most && middle === middle.toLowerCase()) return whole;
  if (plain === whole && whole.length <= rule.most && nameTemplate) return whole;
  const hash = createHash("sha256").update(`${namePrefix}${middle}${nameSuffix}`).digest("hex").slice(0, 10);
  return `${plain.slice(0, rule.most - hash.length - 1)}-${hash}`;
}

/**
 * What a volume has in common with no other, best first: the guid of its dataset, and its name with the second of its creation,
 * which a later dataset of this name does not share. Up to 25.04 the API shows no guid, so a system that was upgraded has names of
 * both kinds.
 */
const identitiesOf = ({ guid, dataset, creation }: SharedDataset): readonly string[] => [
  ...(guid === "" ? [] : [guid]),
  ...(creation === "" ? [] : [`${dataset} ${creation}`]),
];

/**
 * The name of a disk's target or subsystem: the one that is kept; for a volume that was finished without one, as democratic-csi
 * falls back; for a new one with the tag of its zvol, before the suffix. What would be too long or not allowed is cut and changed.
 */
export function targetName(
  asset: SharedDataset,
  kept: string | undefined,
  parameters: Context,
  naming: ShareNaming,
  rule: NameRule,
): string {
  if (kept !== undefined) return kept;
  const [identity] = identitiesOf(asset);
  const plain = assetName(asset, parameters, naming, rule);
  if (asset.finished || identity === undefined) return plain;
  const tag = tagOf(identity);
  const suffix = naming.nameSuffix.toLowerCase();
  const whole = plain.endsWith(suffix)
    ? `${plain.slice(0, plain.length - suffix.length)}-${tag}${suffix}`
    : `${plain}-${tag}`;
  return whole.length <= rule.most ? whole : `${plain.slice(0, rule.most - tag.length - 1)}-${tag}`;
}

/**
 * Whether an object of a volume's name can be proved to be the volume's where nothing leads from it to the disk: the name is one
 * that no other volume can have, or the volume has noted the object.
 */
export const isProved = (asset: SharedDataset, name: string, note: string, row: Row): boolean =>
  identitiesOf(asset).some(identity => bearsTag(name, identity)) || asset.notes[note] === String(row.id);

/** Fields of a request that say who may do what, and a row of the server that says something else. */
export function otherAccess(request: object, row: Row, fields: readonly string[]): readonly string[] {
  const options = (row["options"] ?? {}) as Readonly<Record<string, unknown>>;
  const wanted = request as Readonly<Record<string, unknown>> & {
    readonly options?: Readonly<Record<string, unknown>>;
  };
  const text = (value: unknown): string =>
    Array.isArray(value) ? JSON.stringify(value.map(String).toSorted()) : String(value ?? "");
  const plain = (value: unknown): string => (value === false || text(value) === "[]" ? "" : text(value));
  return fields.filter(field => {
    const asked = wanted[field] ?? wanted.options?.[field];
    return plain(asked) !== plain(row[field] ?? options[field]);
  });
}

/** Throws for a share of a volume's path that lets others in than the file says: somebody made it, or the file was changed meanwhile. */
export function refuseOtherAccess(site: ShareContext, what: string, fields: readonly string[]): void {
  if (fields.length === 0) return;
  throw new CsiError(
    "failed-precondition",
    `connection "${site.connection}": ${what} exists already, and differs from the connection file in ${fields.join(", ")}; remove it, or make it equal`,
  );
}

/** Somebody else's object stands where this volume's would have to. */
export const taken = (site: ShareContext, what: string, by: string): CsiError =>
  new CsiError(
    "failed-precondition",
    `connection "${site.connection}": ${what} exists already, for ${by}; rename or remove that`,
  );

/** Throws when the account lacks a role, or the service is not running: volumes could be made, and no node could reach them. */
export async function checkService(site: ShareContext, service: string, call: Call): Promise<void> {
  await checkRoles(site.api, site.connection, site.use, call);
  const method = "service.query";
  const found = listOf<Row>(method, await site.api.call(method, [[["service", "=", service]]], call.signal));
  const state = found[0]?.["state"];
  if (state === "RUNNING") return;
  const message =
    state === undefined
      ? `has no service "${service}"`
      : `the service "${service}" is not running: start it, and let it start by itself`;
  throw new CsiError("failed-precondition", `connection "${site.connection}": ${site.api.where} ${message}`);
}
