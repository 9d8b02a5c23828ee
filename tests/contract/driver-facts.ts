import { expect } from "bun:test";
import { type Cases, needing } from "./needs.ts";
import { callWith, snapshotsOf, volumeOf } from "./rig.ts";

/** What is known of a driver without opening it agrees with what it does. */

const call = callWith();

/** A record that keeps which keys were asked for by name. */
function watched(asked: Set<string>): Readonly<Record<string, string>> {
  return new Proxy<Record<string, string>>(
    {},
    {
      get(_, key) {
        // A parameter may also be spelled for one driver or instance: democratic-csi.org/<driver>/<key>.
        if (typeof key === "string") asked.add(key.replace(/^democratic-csi\.org\/(?:.*\/)?/, ""));
        return undefined;
      },
    },
  );
}

export const factCases: Cases = {
  "the facts of the module are those of the driver": needing()(async ({ facts, open }) => {
    const driver = open();
    expect(facts.provisions).toBe(true);
    expect([facts.protocol, facts.access]).toEqual([driver.protocol, driver.access]);
    expect(["expands", facts.expands]).toEqual(["expands", driver.expand !== undefined]);
    const claims = driver.retention?.claims ? "adopts" : driver.retention && "keeps";
    expect(["claims", facts.claims]).toEqual(["claims", claims]);
    const volume = await driver.create(volumeOf("pvc-1"), call);
    if (facts.protocol !== undefined) expect(volume.context["node_attach_driver"]).toBe(facts.protocol);
  }),

  "no parameters of a class are read but those of the facts": needing()(async ({ facts, open }) => {
    const asked = new Set<string>();
    await open().create({ ...volumeOf("pvc-1"), parameters: watched(asked) }, call);
    expect([...asked].filter(key => !facts.parameters.volume.includes(key))).toEqual([]);
  }),

  "no parameters of a snapshot class are read but those of the facts": needing("snapshots")(async ({ facts, open }) => {
    const driver = open();
    const asked = new Set<string>();
    const volume = await driver.create(volumeOf("pvc-of-some-length"), call);
    await snapshotsOf(driver).create("snap", volume.id, watched(asked), call);
    expect([...asked].filter(key => !facts.parameters.snapshot.includes(key))).toEqual([]);
  }),
};
