import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, type Foreign, gib, volumeOf } from "../../contract/rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import { type Dataset, type TableName, tableNames } from "../../fakes/truenas/state.ts";

/** What a person can make by hand in the places of a volume of TrueNAS. */

const call = callWith();
const theirs = "tank/theirs";

/** A foreign dataset. */
export const datasetOf = (name: string, type: Dataset["type"], guid: number): Dataset => ({
  ...{
    name,
    type,
    user: {},
    guid: String(guid),
    createtxg: guid,
    creation: 1_700_000_000,
    mode: 0o755,
    uid: 0,
    gid: 0,
  },
  native: type === "VOLUME" ? { volsize: String(gib), volblocksize: "16384" } : {},
});

/** A dataset where the driver would have its volume. */
const inPlace = (double: Double, parent: string, type: Dataset["type"]): Foreign => ({
  what: type === "VOLUME" ? "a zvol" : "a file system",
  place: "volume",
  async make({ id }) {
    const name = `${parent}/${id}`;
    double.state.datasets[name] = datasetOf(name, type, 7);
    return async () => structuredClone(double.state.datasets[name]);
  },
});

const snapshot = (double: Double, parent: string): Foreign => ({
  what: "a snapshot",
  place: "snapshot",
  async make(_, id) {
    const whole = `${parent}/${id}`;
    const [dataset = "", name = ""] = whole.split("@");
    const { native } = double.state.datasets[dataset] ?? {};
    double.state.snapshots[whole] = {
      ...{ dataset, name, user: {}, guid: "8", createtxg: 8, creation: 1_700_000_000, holds: 0, deferred: false },
      ...(native?.["volsize"] && { volsize: native["volsize"] }),
    };
    return async () => structuredClone(double.state.snapshots[whole]);
  },
});

/** Rows of these tables, with their ids. */
const rowsOf = (double: Double, tables: readonly TableName[]): unknown =>
  tables.map(table => structuredClone(double.state.tables[table]));

/**
 * All that leads to a volume, exactly as csimux makes it and under the same names, but on a foreign dataset. The next volume
 * is the same one again, guid and all, so that it would get these very names.
 */
const way = (double: Double, parent: string, open: () => Driver): Foreign => ({
  what: "a share, or a target with its extent, or a subsystem",
  place: "way",
  async make({ id }) {
    const { state } = double;
    const { txg } = state;
    const driver = open();
    const again = txg - 1;
    state.txg = again;
    await driver.create(volumeOf(id), call);
    const tables = structuredClone(state.tables);
    await driver.delete(id, call);
    state.txg = again;
    state.datasets[theirs] = datasetOf(theirs, /iscsi|nvme/.test(String(driver.protocol)) ? "VOLUME" : "FILESYSTEM", 9);
    Object.assign(state.tables, JSON.parse(JSON.stringify(tables).replaceAll(`${parent}/${id}`, theirs)));
    const ids = new Map(tableNames.map(table => [table, new Set(state.tables[table].map(row => row.id))]));
    return async () =>
      (rowsOf(double, tableNames) as { id: number }[][]).map((rows, at) =>
        rows.filter(row => ids.get(tableNames[at] as TableName)?.has(row.id)),
      );
  },
});

/** What people make by hand on a TrueNAS; its datasets are those of the double. */
export const handmade = (double: Double, parent: string, open: () => Driver): readonly Foreign[] => [
  inPlace(double, parent, "VOLUME"),
  inPlace(double, parent, "FILESYSTEM"),
  snapshot(double, parent),
  way(double, parent, open),
];
