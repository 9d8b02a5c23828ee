import type { Access } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import type { Context, Driver, InlineAbility } from "../driver.ts";
import { guarded } from "../failure.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import { ZfsCli } from "./cli/cli.ts";
import type { InlineConfig } from "./config/schema.ts";
import { isVolumeId, longestName } from "./names.ts";
import { programsOf } from "./open.ts";
import { markProperties, markValues, ownValue, property, refuseUnfit, shownValue, whyNotVolume } from "./properties.ts";
import { destroyFamily } from "./sources.ts";
import { zfsErrorMapping } from "./storage.ts";
import { choosable, type NewValues } from "./values.ts";
import { type Entry, untrue } from "./zfs.ts";

/** `zfs.properties` of a connection file. */
export type InlineProperties = Readonly<Record<string, { readonly value: unknown; readonly allowOverride: boolean }>>;

const prefix = "property.";

/** Begins the attributes that the kubelet adds to those of a pod (pkg/volume/csi, "podInfoOnMount"). */
const ofKubelet = "csi.storage.k8s.io/";

/** Native properties that give a pod more than space, or cost the whole node memory or devices. A connection file may allow them. */
const costly = new Set([
  ...["devices", "exec", "setuid", "dedup", "copies", "encryption", "special_small_blocks", "volblocksize", "volmode"],
]);

const ofPods = new Set([...choosable.filter(name => !costly.has(name)), "refquota"]);

/** The bytes of a quantity of Kubernetes such as "100Mi". Throws "invalid-argument". */
function quantity(text: string): string {
  const [, number = "", unit = ""] = /^([1-9][0-9]{0,17})([kMGT]|[KMGT]i)?$/.exec(text) ?? [];
  const exponent = BigInt(" kmgt".indexOf(unit.charAt(0).toLowerCase()));
  if (number !== "") return String(BigInt(number) * (unit.endsWith("i") ? 1024n : 1000n) ** exponent);
  throw new CsiError("invalid-argument", `size must be a number of bytes such as 100Mi, not "${text.slice(0, 40)}"`);
}

/** The properties that the attributes of a pod request. Throws "invalid-argument" for one that a pod may not choose. */
function requested(properties: InlineProperties, attributes: Context): NewValues {
  const values: Record<string, string> = {};
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "connection" || key.startsWith(ofKubelet)) continue;
    if (key === "size") {
      values["refquota"] = quantity(value);
      continue;
    }
    const name = key.slice(prefix.length);
    if (!key.startsWith(prefix))
      throw new CsiError(
        "invalid-argument",
        `the attribute "${key.slice(0, 80)}" is unknown; use connection, size and property.<name>`,
      );
    if (!Object.hasOwn(properties, name) && !ofPods.has(name))
      throw new CsiError("invalid-argument", `a pod cannot choose the ZFS property "${name.slice(0, 80)}"`);
    values[name] = value;
  }
  return values;
}

/** All properties of an inline volume: the pod's, the file's, csimux's own. Throws "invalid-argument" for unfit values. */
function inlineValues(
  properties: InlineProperties,
  attributes: Context,
  identity: Pick<ConnectionIdentity, "driver" | "instanceId">,
  id: string,
): NewValues {
  const asked = requested(properties, attributes);
  const given = Object.entries(properties).filter(([name, each]) => !each.allowOverride || !Object.hasOwn(asked, name));
  const values: NewValues = {
    ...asked,
    ...Object.fromEntries(given.map(([name, { value }]) => [name, String(value)])),
    mountpoint: "legacy",
    [property.volumeName]: id,
    [property.managed]: "true",
    ...markValues(identity),
    [property.success]: "true",
  };
  refuseUnfit(values);
  return values;
}

const ownProperties = ["type", "guid", property.managed, property.volumeName, ...markProperties];

/**
 * Opens zfs-local-ephemeral-inline: datasets of the node's own pool that live as long as their pod, made by zfs of this machine, or of
 * the node's root that is mounted at `chroot`. Pods describe them; there is no claim and no list. Does no I/O.
 */
export function openInline(
  identity: ConnectionIdentity,
  { zfs: section }: InlineConfig,
  ports: DriverPorts,
  access: Access,
): Driver {
  const { connection, driver, instanceId } = identity;
  const { datasetParentName: parent, properties = {}, chroot } = section;
  const programs = programsOf(section, undefined);
  const program = section.cli?.paths?.chroot ?? "chroot";
  const behind = chroot === undefined ? programs : { ...programs, zfs: [program, chroot, ...programs.zfs] as const };
  const zfs = new ZfsCli(ports.local, behind);
  const [pool = ""] = parent.split("/");
  const subject = { connection, explain: zfsErrorMapping };
  const refused = (code: "invalid-argument" | "failed-precondition", what: string): CsiError =>
    new CsiError(code, `connection "${connection}": ${what}`);

  const datasetOf = (id: string): string => {
    const name = `${parent}/v/${id}`;
    if (isVolumeId(id) && name.length <= longestName) return name;
    throw refused("invalid-argument", `"${id.slice(0, 160)}" cannot be the id of a volume in ${parent}`);
  };

  const isOwn = (id: string, entry: Entry): boolean =>
    whyNotVolume(id, entry, { driver, instanceId, idOf: name => name }) === undefined &&
    ownValue(entry, property.volumeName) === id;

  /** Throws "failed-precondition" for a dataset that was not made for this volume. */
  const refuseOthers = (id: string, entry: Entry): void => {
    if (isOwn(id, entry)) return;
    const text = `the dataset ${entry.name} was not made for volume "${id}"; csimux leaves it as it is`;
    throw refused("failed-precondition", text);
  };

  const inline: InlineAbility = {
    /** Only the node mounts it (mountpoint=legacy), so that it appears nowhere else. */
    make: (id, attributes, begin, call) =>
      guarded(subject, "make volume", id, call, async () => {
        const name = datasetOf(id);
        const values = inlineValues(properties, attributes, identity, id);
        await begin(name);
        const dataset = { name, volsize: undefined, values, permissions: undefined };
        const query = { names: [pool, name], properties: ownProperties };
        const entry = (await zfs.create(dataset, true, query, call.signal)).entries.get(name);
        if (!entry) throw untrue(`made ${name}`);
        refuseOthers(id, entry);
        return { fsType: "zfs", source: name, identity: shownValue(entry, "guid") ?? "" };
      }),
    identityOf: (id, source, call) =>
      guarded(subject, "find volume", id, call, async () => {
        // Also for an id that is none, nothing is asked.
        if (!isVolumeId(id) || source !== `${parent}/v/${id}`) return undefined;
        const entries = await zfs.read({ names: [pool, source], properties: ownProperties }, call.signal);
        const entry = entries.get(source);
        return entry && isOwn(id, entry) ? shownValue(entry, "guid") : undefined;
      }),
    /** Destroys its snapshots with it; a dataset below it, which csimux did not make, keeps it. */
    remove: (id, known, call) =>
      guarded(subject, "remove volume", id, call, async () => {
        const name = datasetOf(id);
        const family = await zfs.family(name, { names: [pool], properties: ownProperties }, call.signal);
        const entry = family.get(name);
        if (!entry) return;
        refuseOthers(id, entry);
        const text = `${name} is not the dataset that was made for volume "${id}"; csimux leaves it as it is`;
        if (known !== undefined && shownValue(entry, "guid") !== known) throw refused("failed-precondition", text);
        await destroyFamily(zfs, name, family, why => refused("failed-precondition", why), call);
      }),
  };

  return {
    ...{ protocol: "zfs-local", access, inline },
    async create() {
      throw refused("invalid-argument", "makes no volumes for claims; pods describe them (csi: in their volumes)");
    },
    async delete(id) {
      throw refused("failed-precondition", `volume "${id.slice(0, 128)}" is deleted with its pod, not before`);
    },
    check(call) {
      const query = { names: [pool], properties: ["type"] };
      return guarded(subject, "use the storage", "", call, async () => void (await zfs.read(query, call.signal)));
    },
  };
}
