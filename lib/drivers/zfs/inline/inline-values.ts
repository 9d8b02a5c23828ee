import { CsiError } from "../../../core/errors.ts";
import type { Context } from "../../driver.ts";
import type { ConnectionIdentity } from "../../module.ts";
import { choosable } from "../parameters.ts";
import { property, refuseUnfit } from "../user-properties.ts";
import type { NewValues } from "../values.ts";

/** `zfs.properties` of a connection file. */
export type InlineProperties = Readonly<Record<string, { readonly value: unknown; readonly allowOverride: boolean }>>;

const mark = "property.";

/** What the kubelet adds to the attributes of a pod (pkg/volume/csi, "podInfoOnMount"). */
const ofKubelet = "csi.storage.k8s.io/";

/**
 * Native properties that would give a pod more than space, or cost the whole node: a table of deduplicated blocks in its memory,
 * several copies of everything, keys, room on devices that are kept for metadata. The file may still allow them.
 */
const guarded = new Set([
  ...["devices", "exec", "setuid", "dedup", "copies", "encryption", "special_small_blocks", "volblocksize", "volmode"],
]);

const mayChoose = new Set([...choosable.filter(name => !guarded.has(name)), "refquota"]);

const units: Readonly<Record<string, bigint>> = {
  "": 1n,
  k: 1000n,
  M: 1000n ** 2n,
  G: 1000n ** 3n,
  T: 1000n ** 4n,
  Ki: 1n << 10n,
  Mi: 1n << 20n,
  Gi: 1n << 30n,
  Ti: 1n << 40n,
};

/** The bytes of a quantity of Kubernetes such as "100Mi". Throws "invalid-argument". */
function quantity(text: string): string {
  const [, number = "", unit = ""] = /^([1-9][0-9]{0,17})(k|M|G|T|Ki|Mi|Gi|Ti)?$/.exec(text) ?? [];
  if (number !== "") return String(BigInt(number) * (units[unit] ?? 1n));
  throw new CsiError("invalid-argument", `size must be a number of bytes such as 100Mi, not "${text.slice(0, 40)}"`);
}

/** What the attributes of a pod ask for. Throws "invalid-argument" for what a pod may not choose. */
function wanted(properties: InlineProperties, attributes: Context): NewValues {
  const values: Record<string, string> = {};
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "connection" || key.startsWith(ofKubelet)) continue;
    if (key === "size") {
      values["refquota"] = quantity(value);
      continue;
    }
    const name = key.slice(mark.length);
    if (!key.startsWith(mark))
      throw new CsiError(
        "invalid-argument",
        `the attribute "${key.slice(0, 80)}" is not known; there are connection, size and property.<name>`,
      );
    if (!Object.hasOwn(properties, name) && !mayChoose.has(name))
      throw new CsiError("invalid-argument", `a pod cannot choose the ZFS property "${name.slice(0, 80)}"`);
    values[name] = value;
  }
  return values;
}

/**
 * All properties of an inline volume: what the pod asks for, then what the file fixes, then those that are csimux's own, as
 * democratic-csi writes them. Throws "invalid-argument" for values that ZFS could not keep.
 */
export function inlineValues(
  properties: InlineProperties,
  attributes: Context,
  { driver, instanceId }: Pick<ConnectionIdentity, "driver" | "instanceId">,
  id: string,
): NewValues {
  const asked = wanted(properties, attributes);
  const given = Object.entries(properties).filter(([name, each]) => !each.allowOverride || !Object.hasOwn(asked, name));
  const values: NewValues = {
    ...asked,
    ...Object.fromEntries(given.map(([name, { value }]) => [name, String(value)])),
    mountpoint: "legacy",
    [property.volumeName]: id,
    [property.managed]: "true",
    [property.driver]: driver,
    ...(instanceId !== undefined && { [property.instance]: instanceId }),
    [property.success]: "true",
  };
  for (const [name, value] of Object.entries(values)) refuseUnfit(name, value);
  return values;
}
