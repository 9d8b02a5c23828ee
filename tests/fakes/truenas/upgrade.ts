import type { Row, State, TableName } from "./state.ts";

/**
 * What a newer version makes of rows that an older one has written (alembic/versions/25.10/2025-06-02_20-57_smb-share-new-api.py of
 * TS-25.10.6, migrate_purposes; from 26 on resolve_dataset_path).
 */

const smbOptions = [
  ...["home", "path_suffix", "hostsallow", "hostsdeny", "guestok", "recyclebin", "timemachine", "auxsmbconf"],
  ...["streams", "durablehandle", "shadowcopy", "fsrvp", "afp", "timemachine_quota", "aapl_name_mangling", "vuid"],
];
const smbRenamed = { abe: "access_based_share_enumeration", ro: "readonly" } as const;

/** The flat fields of a share become the options of a share for old clients. */
function withPurpose(row: Row): void {
  if (!("acl" in row)) return;
  const options = Object.fromEntries([...smbOptions, "acl"].map(key => [key, row[key]]));
  options["path_suffix"] ||= null;
  options["vuid"] ??= null;
  for (const key of Object.keys(options)) delete row[key];
  for (const [from, to] of Object.entries(smbRenamed)) {
    row[to] = row[from];
    delete row[from];
  }
  Object.assign(row, { purpose: "LEGACY_SHARE", options: { ...options, purpose: "LEGACY_SHARE" } });
}

const places = { nfs: "path", smb: "path", extent: "disk", nvmetNamespace: "device_path" } as const;

/** Rows without what older versions did not know: the columns have these defaults (plugins/smb.py of TS-24.10.2.4, "audit"). */
function withAudit(row: Row): void {
  row["audit"] = { enable: false, watch_list: [], ignore_list: [], ...(row["audit"] as Row | null | undefined) };
}

/** Adds the dataset and the path in it to shares. */
function placed({ tables }: State): void {
  for (const [table, field] of Object.entries(places))
    for (const row of tables[table as TableName]) {
      row["dataset"] ??= String(row[field] ?? "").replace(/^(?:\/mnt|zvol)\//, "");
      row["relative_path"] ??= "";
    }
  for (const row of tables.nfs) row["tier"] ??= null;
}

/** Brings everything to a version, such as 2510. */
export function upgraded(state: State, number: number): void {
  const { smb } = state.tables;
  if (number >= 2410) for (const row of smb) withAudit(row);
  if (number >= 2510) for (const row of smb) withPurpose(row);
  if (number >= 2600) placed(state);
}
