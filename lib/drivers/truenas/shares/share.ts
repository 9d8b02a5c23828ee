import { createHash } from "node:crypto";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { rendered, type TemplateValues } from "../../../core/template.ts";
import { findingsOf, type VolumeFindings } from "../../../health/finding.ts";
import type { Context } from "../../driver.ts";
import type { ShareProtocol, StoredVolume } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";

import type { Api } from "../api.ts";
import { type ApiRow, isMissing, isRefused, listOf } from "../api-error.ts";
import { type ApiUse, checkRoles, checkVersion } from "../requirements.ts";

/** What shares of all protocols have in common: rows of the server's tables, names, access. */

/** The system that shares volumes, and the connection that it does so for. */
export interface ShareContext {
  readonly api: Api;
  readonly connection: string;
  /** The value of `driver:`, for comments. */
  readonly driver: string;
  readonly use: ApiUse;
}

/** Notes that are ZFS properties of their own, with the prefix "democratic-csi:", which introduced them. */
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

/** The notes that belong to the volume context. */
export const noted = ({ notes }: StoredVolume, keys: readonly string[]): Context =>
  Object.fromEntries(keys.flatMap(key => (notes[key] === undefined ? [] : [[key, notes[key]]])));

/** A row of a table of the server. */
export type TableRow = ApiRow & { readonly id: number };

/** A condition on a field of a row. */
type Filter = readonly [field: string, operator: "=" | "C=", value: unknown];

/** A table of the server, such as `iscsi.target`, for one call. */
export interface Table {
  /** The rows that match all filters. */
  find(...filters: readonly Filter[]): Promise<readonly TableRow[]>;
  create(request: object): Promise<TableRow>;
  /** Deletes a row. Succeeds if the row does not exist. Throws "aborted" if another deletion of it is not complete. */
  delete(id: number, ...options: readonly unknown[]): Promise<void>;
}

/** The table with this name. */
export function tableOf({ api, connection }: ShareContext, name: string, { signal }: Call): Table {
  const find: Table["find"] = async (...filters) =>
    listOf<TableRow>(`${name}.query`, await api.call(`${name}.query`, [filters], signal));
  return {
    find,
    create: async request => (await api.call(`${name}.create`, [request], signal)) as TableRow,
    async delete(id, ...options) {
      try {
        await api.call(`${name}.delete`, [id, ...options], signal);
      } catch (error) {
        if (!isMissing(error)) throw error;
        // A target is deleted after its links and extents: where another call removes these first, they are what does not exist, and the target
        // stays (middleware, plugins/iscsi_/targets.py).
        if ((await find(["id", "=", id])).length === 0) return;
        const text = `another call is deleting row ${id} of ${name} in TrueNAS; retrying`;
        throw new CsiError("aborted", `connection "${connection}": ${text}`, { cause: error });
      }
    },
  };
}

/** A row of the server, and whether this call created it. */
interface ExistingRow {
  readonly row: TableRow;
  readonly fresh: boolean;
}

/** Creates a row, or finds it after a refusal, whatever its words. `clash` throws if a foreign row is in the way. */
export async function createdOrFound(
  create: () => Promise<TableRow>,
  find: () => Promise<TableRow | undefined>,
  clash?: () => Promise<void>,
): Promise<ExistingRow> {
  try {
    return { row: await create(), fresh: true };
  } catch (error) {
    if (!isRefused(error)) throw error;
    const row = await find();
    if (row) return { row, fresh: false };
    await clash?.();
    throw error;
  }
}

/** Findings about the volumes that nodes cannot reach, because `isShared` is false for them. */
export const unshared = (
  volumes: readonly ZfsVolume[],
  isShared: (volume: ZfsVolume) => boolean,
  reason: "ShareMissing" | "TargetMissing",
): VolumeFindings => {
  const what = reason === "ShareMissing" ? "share" : "target";
  const messageFor = ({ dataset }: ZfsVolume) => `TrueNAS has no enabled ${what} for ${dataset}`;
  return findingsOf(
    volumes.map(each => [each.id, isShared(each) ? [] : [{ reason, message: messageFor(each) }]] as const),
  );
};

/** Whether a template shows parameters of the class, which are unknown after the creation of a volume. */
export const showsParameters = (template: string | undefined): boolean => /\bparameters\b/.test(template ?? "");

/**
 * Makes the lost share or target of a finished volume again, as a repeated creation would: from the connection file, under the name that nodes
 * know. Throws "failed-precondition" for what belongs to something else, and for what is there, but not as nodes know it.
 */
export async function restored(
  context: ShareContext,
  share: Pick<ShareProtocol<ZfsVolume>, "publish" | "look">,
  volume: ZfsVolume,
  call: Call,
): Promise<void> {
  const range = { required: undefined, limit: undefined };
  const spec = { name: volume.name ?? volume.id, range, parameters: {}, source: undefined, mutable: {} };
  await share.publish?.(volume, spec, async () => volume, call);
  const [finding] = (await share.look?.([volume], call))?.get(volume.id) ?? [];
  if (!finding) return;
  const text = `${finding.message}: it is disabled, or has another name or number than nodes know; correct it in TrueNAS`;
  throw refusal(context, text);
}

/** How a target, share or subsystem is named after its volume. */
export interface ShareNaming {
  readonly nameTemplate?: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
}

/** What a server accepts as a name, in lower case. */
export interface NameRule {
  /** Matches each character that is not allowed. */
  readonly foreign: RegExp;
  readonly maxLength: number;
}

/** The values that templates of shares can use. */
export const templateValues = (volume: ZfsVolume, parameters: Context): TemplateValues => ({
  name: volume.name ?? volume.id,
  parameters,
  zfs: { datasetName: volume.dataset },
});

/**
 * The name of a volume's target, share or subsystem: from the template or the volume's id, in lower case, because some initiators accept
 * nothing else. If the server would refuse the name, it is changed, and a hash keeps it unique.
 */
export function nameOf(volume: ZfsVolume, parameters: Context, naming: ShareNaming, rule: NameRule): string {
  const { nameTemplate, namePrefix, nameSuffix } = naming;
  const middle = nameTemplate ? rendered(nameTemplate, templateValues(volume, parameters)) : volume.id;
  const asked = `${namePrefix}${middle}${nameSuffix}`;
  const whole = asked.toLowerCase();
  const plain = whole.replace(rule.foreign, "-");
  // Ids that differ only in case would get the same name.
  const isUnique = nameTemplate || middle === middle.toLowerCase();
  if (plain === whole && whole.length <= rule.maxLength && isUnique) return whole;
  const hash = createHash("sha256").update(asked).digest("hex").slice(0, 10);
  return `${plain.slice(0, rule.maxLength - hash.length - 1)}-${hash}`;
}

/** Fields of a request about access that a row of the server has with other values. */
function otherAccess(request: object, row: TableRow, fields: readonly string[]): readonly string[] {
  const options = (row["options"] ?? {}) as ApiRow;
  const wanted = request as ApiRow & { readonly options?: ApiRow };
  const text = (value: unknown): string =>
    Array.isArray(value) ? JSON.stringify(value.map(String).toSorted()) : String(value ?? "");
  const plain = (value: unknown): string => (value === false || text(value) === "[]" ? "" : text(value));
  return fields.filter(field => {
    const asked = wanted[field] ?? wanted.options?.[field];
    return plain(asked) !== plain(row[field] ?? options[field]);
  });
}

const refusal = ({ connection }: ShareContext, text: string): CsiError =>
  new CsiError("failed-precondition", `connection "${connection}": ${text}`);

/** Throws for a share of an unfinished volume that admits others than the file says. A finished one is up to its administrator. */
export function refuseOtherAccess(
  context: ShareContext,
  volume: ZfsVolume,
  what: string,
  request: object,
  row: TableRow,
  fields: readonly string[],
): void {
  const different = volume.finished ? [] : otherAccess(request, row, fields);
  if (different.length === 0) return;
  const text = `${what} exists already, and differs from the connection file in ${different.join(", ")}`;
  throw refusal(context, `${text}; remove it, or make it equal`);
}

/** The error for an asset that a person has not made reachable. */
export const unreachable = (context: ShareContext, what: string): CsiError =>
  refusal(context, `TrueNAS has ${what}; create it first`);

/** The error for an object of the volume that nodes cannot use. */
export const unusable = (context: ShareContext, text: string): CsiError => refusal(context, text);

/** The error for a foreign object in the place of this volume's. */
export const taken = (context: ShareContext, what: string, by: string): CsiError =>
  refusal(context, `${what} exists already, for ${by}; rename or remove it`);

/** Throws if the account lacks a role, or if the service does not run: volumes could be created, and no node could reach them. */
export async function checkService(context: ShareContext, service: string, call: Call): Promise<void> {
  await checkVersion(context.api, context.connection, context.use, call);
  await checkRoles(context.api, context.connection, context.use, call);
  const method = "service.query";
  const found = listOf<ApiRow>(method, await context.api.call(method, [[["service", "=", service]]], call.signal));
  const state = found[0]?.["state"];
  if (state === "RUNNING") return;
  const message =
    state === undefined
      ? `has no service "${service}"`
      : `the service "${service}" is not running: start it, and enable its automatic start`;
  throw refusal(context, `${context.api.where} ${message}`);
}
