import { type Foreign, gib } from "../../contract/rig.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import type { Lun } from "../../fakes/dsm/state.ts";

/** What a person can make by hand in the places of a volume of a DSM. */

/** The part of a target's name that tells the volume, without the tag of its LUN. */
const plainIqn = (iqn = ""): string => iqn.replace(/\.[0-9a-f]{8}$/, "");

/** A LUN, alone or behind a target of the name that democratic-csi would give it. */
const lun = (dsm: Dsm, what: string, description: string): Foreign => ({
  what,
  place: "volume",
  async make({ id, bytes }) {
    const made = dsm.state.add({
      ...{ name: `k8s-${id}-x`, size: Number(bytes), location: "/volume1", type: "BLUN", description },
      ...{ attributes: [], content: "theirs", locked: 0, hidden: 0 },
    });
    return async () => structuredClone(dsm.state.luns.get(made.uuid));
  },
});

const target = (dsm: Dsm): Foreign => ({
  what: "a target that leads to a LUN of its own",
  place: "way",
  async make({ context }) {
    const theirs = dsm.state.add({
      ...{ name: `theirs-${context["iqn"]?.length}`, size: 2 ** 30, location: "/volume1", type: "BLUN" },
      ...{ description: "", attributes: [], content: "theirs", locked: 0, hidden: 0 },
    });
    const iqn = plainIqn(context["iqn"]);
    const made = dsm.state.addTarget({ name: iqn.slice(-20), iqn, options: {} });
    made.mapped = [{ lun_uuid: theirs.uuid, mapping_index: 1 }];
    return async () => structuredClone([dsm.state.targets.get(made.id), dsm.state.luns.get(theirs.uuid)]);
  },
});

/** A snapshot that a person took is a part of its LUN: DSM gives it an id of its own, so it never has that of another one. */
export const lunsByHand = (dsm: Dsm): readonly Foreign[] => [
  lun(dsm, "a LUN", ""),
  lun(dsm, "a LUN with a description", "do not touch"),
  target(dsm),
];

/** A shared folder where the driver would have its own. */
export const foldersByHand = (dsm: Dsm): readonly Foreign[] =>
  ["", "do not touch", "csimux ok 0123456789"].map(description => ({
    what: `a shared folder described as "${description}"`,
    place: "volume",
    async make({ id }) {
      const name = `k8s-${id}`;
      dsm.state.shares.set(name, {
        ...{
          name,
          uuid: "theirs",
          location: "/volume1",
          description,
          quota: 1024,
          content: "theirs",
          hidden: 0,
          dying: undefined,
          moment: 0,
        },
        ...{ rules: [{ client: "10.9.9.9" }], permissions: ["local_user theirs"], snapshots: [] },
      });
      return async () => structuredClone(dsm.state.shares.get(name));
    },
  }));

/** A volume as democratic-csi leaves it: no mark, its target leads to it. */
export function legacyVolume(dsm: Dsm, name = "k8s-pvc-old-x", more: Partial<Lun> = {}): Lun {
  const lun = dsm.state.add({
    name,
    size: Number(gib),
    location: "/volume1",
    type: "BLUN",
    description: "democratic-csi",
    attributes: [{ dev_attrib: "can_snapshot", enable: 1 }],
    content: "old",
    locked: 0,
    hidden: 0,
    ...more,
  });
  const target = dsm.state.addTarget({ name, iqn: `iqn.2000-01.com.synology:Csi.${name}`, options: {} });
  target.mapped = [{ lun_uuid: lun.uuid, mapping_index: 1 }];
  return lun;
}
