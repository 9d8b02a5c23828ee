import { disk } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { ErrorMapping } from "../../failure.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { bearsTag, tagOf } from "../../zfs/targets/names.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { apiErrorMapping } from "../api-error.ts";
import {
  type NameRule,
  nameOf,
  noted,
  restored,
  type ShareContext,
  type ShareNaming,
  type TableRow,
  unshared,
  unusable,
} from "./share.ts";

/** How a protocol shares zvols: iSCSI or NVMe over fabrics. */
export interface DiskProtocol {
  readonly protocol: "iscsi" | "nvmeof";
  /** The note that keeps the name of a volume's target or subsystem. */
  readonly nameNote: string;
  readonly naming: ShareNaming;
  readonly rule: NameRule;
  readonly reach: Context;
  /** The keys of the volume context. */
  readonly contextKeys: readonly string[];
  /** As ShareProtocol.publish, under a name that is kept already. */
  publish(volume: ZfsVolume, name: string, spec: VolumeSpec, call: Call): Promise<Notes>;
  /** As ShareProtocol.existing. */
  existing(volume: ZfsVolume, call: Call): Promise<Notes>;
  /** As ShareProtocol.withdraw; `name` is undefined if none was kept. */
  withdraw(volume: ZfsVolume, name: string | undefined, call: Call): Promise<void>;
  /** Lists what the server exports. Answers whether a volume is among it. */
  exported(call: Call): Promise<(volume: ZfsVolume) => boolean>;
  check(call: Call): Promise<void>;
}

/** Volumes as disks, each with a target or subsystem of its own. A process may have thousands of such shares, so `kind` is called for each use. */
export class DiskShare implements ShareProtocol<ZfsVolume> {
  readonly access = disk;
  readonly growsOnNode = true;
  readonly #on: ShareContext;
  readonly #kind: () => DiskProtocol;

  constructor(on: ShareContext, kind: () => DiskProtocol) {
    this.#on = on;
    this.#kind = kind;
  }

  get protocol(): DiskProtocol["protocol"] {
    return this.#kind().protocol;
  }

  get reach(): Context {
    return this.#kind().reach;
  }

  /** Keeps the name before it creates anything: a template may use parameters that are unknown when the volume is deleted. */
  async publish(
    volume: ZfsVolume,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<ZfsVolume>,
    call: Call,
  ): Promise<Notes> {
    const kind = this.#kind();
    const kept = volume.notes[kind.nameNote];
    const name = kept ?? targetName(volume, spec.parameters, kind.naming, kind.rule);
    if (kept === undefined) await keep({ [kind.nameNote]: name });
    return { ...(await kind.publish(volume, name, spec, call)), ...this.context(volume) };
  }

  context(volume: ZfsVolume): Context {
    return noted(volume, this.#kind().contextKeys);
  }

  existing(volume: ZfsVolume, call: Call): Promise<Notes> {
    return this.#kind().existing(volume, call);
  }

  /** By device, which is the volume's alone, and by the kept name; never by a noted id alone. */
  withdraw(volume: ZfsVolume, call: Call): Promise<void> {
    const kind = this.#kind();
    return kind.withdraw(volume, volume.notes[kind.nameNote], call);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return apiErrorMapping(error);
  }

  async restore(volume: ZfsVolume, call: Call): Promise<void> {
    const why = `the target of ${volume.dataset} cannot be made again: nothing says what it was called`;
    if (volume.notes[this.#kind().nameNote] === undefined) throw unusable(this.#on, why);
    await restored(this.#on, this, volume, call);
  }

  async look(volumes: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    return unshared(volumes, await this.#kind().exported(call), "TargetMissing");
  }

  check(call: Call): Promise<void> {
    return this.#kind().check(call);
  }
}

/** The name of a volume's block device in the API. */
export const deviceOf = ({ dataset }: ZfsVolume): string => `zvol/${dataset}`;

/**
 * What a volume has in common with no other, best first: the guid of its dataset, and its name with the second of its creation, which a
 * later dataset of this name does not share. Up to 25.04 the API shows no guid, so an upgraded system has names of both kinds.
 */
const identitiesOf = ({ guid, dataset, creation }: ZfsVolume): readonly string[] => [
  ...(guid === "" ? [] : [guid]),
  ...(creation === "" ? [] : [`${dataset} ${creation}`]),
];

/** The name that was not kept: for a finished volume democratic-csi's, for a new one with the tag of its zvol before the suffix. */
function targetName(volume: ZfsVolume, parameters: Context, naming: ShareNaming, rule: NameRule): string {
  const [identity] = identitiesOf(volume);
  const plain = nameOf(volume, parameters, naming, rule);
  if (volume.finished || identity === undefined) return plain;
  const tag = tagOf(identity);
  const suffix = naming.nameSuffix.toLowerCase();
  const whole = plain.endsWith(suffix)
    ? `${plain.slice(0, plain.length - suffix.length)}-${tag}${suffix}`
    : `${plain}-${tag}`;
  return whole.length <= rule.maxLength ? whole : `${plain.slice(0, rule.maxLength - tag.length - 1)}-${tag}`;
}

/** Whether a diskless target of the volume's name is proved to be the volume's: by a name that no other can have, or the noted id. */
export const isProved = (volume: ZfsVolume, row: TableRow, note: string): boolean =>
  identitiesOf(volume).some(identity => bearsTag(String(row["name"]), identity)) ||
  volume.notes[note] === String(row.id);

/** How a connection file refers to an object of an administrator: by its id in the API, or by a word that people see. */
export type ObjectChoice = number | string;

/** The objects of one kind, and the words that identify each: comments, addresses. */
export interface ChoiceOptions {
  /** Such as "iSCSI portal". */
  readonly kind: string;
  readonly rows: readonly TableRow[];
  wordsOf(row: TableRow): readonly string[];
}

const equal = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** The object that is referred to. Throws "failed-precondition" if there is none, or several. */
export function chosen({ connection }: ShareContext, options: ChoiceOptions, choice: ObjectChoice): TableRow {
  const { kind, rows, wordsOf } = options;
  const found = rows.filter(row =>
    typeof choice === "number" ? row.id === choice : wordsOf(row).some(word => equal(word, choice)),
  );
  const [first, second] = found;
  if (first && !second) return first;
  const known = (second ? found : rows).map(row => `${row.id} (${wordsOf(row).join(", ")})`).join("; ");
  const named = typeof choice === "number" ? `with id ${choice}` : `known as "${choice}"`;
  throw new CsiError(
    "failed-precondition",
    second
      ? `connection "${connection}": several ${kind}s are ${named}: ${known}; name one of them by its id`
      : `connection "${connection}": there is no ${kind} ${named}; there are: ${known || "none"}`,
  );
}

/** The ids of the objects that are referred to. Asks the server only if the file refers to some by words. */
export async function idsOf(
  context: ShareContext,
  choices: readonly ObjectChoice[],
  all: () => Promise<ChoiceOptions>,
): Promise<readonly number[]> {
  if (choices.every(choice => typeof choice === "number")) return choices;
  const known = await all();
  return choices.map(choice => (typeof choice === "number" ? choice : chosen(context, known, choice).id));
}
