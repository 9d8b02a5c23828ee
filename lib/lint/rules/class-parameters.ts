import { defaultFilesystem } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import { mkfsOptions, mkfsOptionsKey } from "../../core/mkfs-options.ts";
import { nameTemplateKey, nameTemplateRefusal } from "../../core/name.ts";
import {
  driverParameters,
  intendedParameter,
  isInTemplate,
  isKnownParameter,
  plainKey,
} from "../../drivers/class-parameters.ts";
import { adoptKey, deleteStrategyKey, tenancyRefusal } from "../../drivers/tenure.ts";
import type { Path } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { membersOfClass, ownClasses } from "../class-target.ts";
import type { DocumentDiagnostic } from "../document.ts";
import { factsOf, filesystemsOf, isDisk } from "../facts.ts";
import { at, type ClassObject, type ConnectionFile, listAt, mappingAt, textAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";

const rule = rulesById({
  "parameter-value": error(
    "Parameters have known values",
    "democratic-csi treats any unknown value as false or as the default.",
  ),
  "parameter-without-effect": warning(
    "Parameters suit the driver",
    "The driver of this connection does not read the parameter.",
  ),
  "unknown-parameter": error(
    "Parameters are known",
    "csimux makes no volume or snapshot with a mistyped parameter. One that resembles no known parameter is only a warning, because templates may use it.",
  ),
  "parameter-pair": error(
    "Secrets are named with their namespace",
    "external-provisioner refuses a class with one of the two.",
  ),
  "fstype-given-twice": error(
    "The file system has one parameter",
    "external-provisioner refuses a class with both names of the parameter.",
  ),
  "fstype-impossible": error("The driver can make the file system", "Every claim of the class would fail."),
  "class-without-login": warning(
    "Classes name the secret that nodes mount with",
    "Nodes log in to SMB servers, object stores and iSCSI targets that ask for CHAP with the content of this secret; most servers refuse a mount without it.",
  ),
});

/** Rules about the parameters of classes of csimux. */
export const classParameters: Theme = {
  rules: Object.values(rule),
  *check(input) {
    for (const each of ownClasses(input)) {
      const members = membersOfClass(each, input);
      yield* parameters(each, members);
      yield* secretPairs(each);
      if (each.kind === "snapshot") continue;
      yield* login(each, members);
      yield* fsType(each, members);
      yield* formatting(each, members);
      yield* claims(each, members);
    }
  },
};

const secretKinds = [
  ...["provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand"],
  ...["controller-modify", "snapshotter", "snapshotter-list"],
];

/** The start of the two parameters that name a secret; the last pair is for all kinds. */
const secretStems = [...secretKinds.map(kind => `${kind}-`), ""].map(kind => `csi.storage.k8s.io/${kind}secret-`);

/** The parameters that sidecars read or add. */
const ofSidecars = [
  ...secretStems.flatMap(stem => [`${stem}name`, `${stem}namespace`]),
  "csi.storage.k8s.io/pvc/name",
  "csi.storage.k8s.io/pvc/namespace",
  "csi.storage.k8s.io/pv/name",
  "csi.storage.k8s.io/fstype",
];

const booleans = ["detachedVolumesFromSnapshots", "detachedVolumesFromVolumes", "detachedSnapshots"];
const snapshotMethods = ["filecopy", "restic", "kopia"];

/** Parameters of an unreleased branch of democratic-csi, with other names in csimux. */
const unread: readonly string[] = ["config", "load-config-from-pvc"];

function* parameters(each: ClassObject, members: readonly ConnectionFile[]): Found {
  const { document, kind, quoted } = each;
  for (const [key, value] of Object.entries(mappingAt(each.value, "parameters"))) {
    const path = [...each.path, "parameters", key];
    const plain = plainKey(key);
    const given = quoted ? textOf(value) : value;
    if (booleans.includes(plain) && given !== "true" && given !== "false") {
      const message = 'only "true" and "false" are possible, in quotes';
      yield report(document, rule["parameter-value"], path, message, 'write "true" or "false", with the quotes');
    }
    if (kind === "snapshot" && key === "driver" && !snapshotMethods.includes(textOf(value))) {
      const near = nearest(textOf(value), snapshotMethods);
      const fix = near && meant(near);
      yield report(document, rule["parameter-value"], path, `must be one of ${snapshotMethods.join(", ")}`, fix);
    }
    const badTemplate = kind === "storage" && key === nameTemplateKey && nameTemplateRefusal(textOf(value));
    if (badTemplate) yield report(document, rule["parameter-value"], path, badTemplate, templateFix);
    // Templates may use any parameter.
    const texts = [
      ...members.map(({ document: { text } }) => text),
      textAt(each.value, "parameters", nameTemplateKey) ?? "",
    ];
    if (isInTemplate(plain, texts)) continue;
    const found = useless(each, key, plain, path, members);
    if (found) yield found;
  }
}

const templateFix =
  "write placeholders such as {{ parameters.[csi.storage.k8s.io/pvc/name] }} or {{ name }}; {{#if x}}…{{else}}…{{/if}} is possible, too";

function useless(
  { document, kind }: ClassObject,
  key: string,
  plain: string,
  path: Path,
  members: readonly ConnectionFile[],
): DocumentDiagnostic | undefined {
  if (kind === "storage" && unread.includes(plain)) {
    const fix =
      'write properties as parameters of the class, such as "zfs.volblocksize", and those of one claim into a VolumeAttributesClass';
    return report(document, rule["parameter-without-effect"], path, `csimux does not read "${key}"`, fix, "key");
  }
  if (!isKnownParameter(kind, plain, ofSidecars)) {
    const message = `unknown parameter "${key}"`;
    const near = intendedParameter(kind, plain, ofSidecars);
    if (near) return report(document, rule["unknown-parameter"], path, message, meant(near), "key");
    const fix = "only a template could use it, and no template of the connection does";
    return report(document, { ...rule["unknown-parameter"], severity: "warning" }, path, message, fix, "key");
  }
  const of = kind === "storage" ? "volume" : "snapshot";
  if (!driverParameters(of).includes(plain)) return undefined;
  const other = members.find(member => factsOf(member)?.parameters[of].includes(plain) === false);
  if (!other) return undefined;
  const message = `${other.driver} (connection "${other.name}") does not read this parameter`;
  return report(document, rule["parameter-without-effect"], path, message, "remove it", "key");
}

function* secretPairs({ document, path, value }: ClassObject): Found {
  const has = (key: string): boolean => textAt(value, "parameters", key) !== undefined;
  for (const stem of secretStems)
    for (const [one, other] of [
      ["name", "namespace"],
      ["namespace", "name"],
    ] as const) {
      if (!has(stem + one) || has(stem + other)) continue;
      const message = `the ${one} of a secret is given without its ${other}`;
      const fix = `add "${stem}${other}"`;
      yield report(document, rule["parameter-pair"], [...path, "parameters", stem + one], message, fix, "key");
    }
}

/** Why nodes need a secret for a connection, the consequence without it, and its keys; undefined if they need none. */
function secretUse(member: ConnectionFile): readonly [message: string, keys: string] | undefined {
  const { name } = member;
  const protocol = factsOf(member)?.protocol;
  if (protocol === "smb") {
    const message = `nodes log in to the SMB share of connection "${name}" without user and password`;
    return [message, "keys username and password, or mount_flags"];
  }
  if (protocol === "objectivefs") {
    const keys = "env.ACCESS_KEY, env.SECRET_KEY, env.OBJECTIVEFS_LICENSE and env.OBJECTIVEFS_PASSPHRASE";
    return [`nodes have no keys to the object store of connection "${name}"`, `keys ${keys}`];
  }
  if (protocol !== "iscsi" || !asksForChap(member)) return undefined;
  const auth = "node-db.node.session.auth";
  const message = `the targets of connection "${name}" ask for CHAP, and nodes log in without user and password`;
  return [message, `keys ${auth}.authmethod (CHAP), ${auth}.username and ${auth}.password`];
}

/** Whether new targets refuse a login without CHAP: on TrueNAS, with LIO or on DSM. */
function asksForChap({ read: { normalized } }: ConnectionFile): boolean {
  const groups = listAt(normalized, "iscsi", "targetGroups");
  const target = mappingAt(normalized, "iscsi", "targetTemplate");
  return (
    groups.some(group => /\bCHAP\b/i.test(textAt(group, "targetGroupAuthType") ?? "")) ||
    textAt(normalized, "iscsi", "shareStrategyTargetCli", "tpg", "attributes", "authentication") === "1" ||
    Number(textAt(target, "auth_type") ?? (textAt(target, "user") ? 1 : 0)) > 0
  );
}

function* login({ document, path, value, inHelm }: ClassObject, members: readonly ConnectionFile[]): Found {
  const [use] = members.flatMap(member => {
    const found = secretUse(member);
    return found ? [found] : [];
  });
  const [message, keys] = use ?? [];
  if (message === undefined || textAt(value, "parameters", "csi.storage.k8s.io/node-stage-secret-name")) return;
  // The chart has its own field for secrets and makes the parameters from it.
  if (inHelm && at(value, "secrets", "node-stage-secret") !== undefined) return;
  const fix = `add "csi.storage.k8s.io/node-stage-secret-name" and "-namespace" of a secret with the ${keys}`;
  yield report(document, rule["class-without-login"], [...path, "parameters"], message, fix, "key");
}

function* formatting({ document, path, value }: ClassObject, members: readonly ConnectionFile[]): Found {
  const given = textAt(value, "parameters", mkfsOptionsKey);
  if (given === undefined) return;
  const here = [...path, "parameters", mkfsOptionsKey];
  const other = members.find(member => !isDisk(member));
  if (other) {
    const message = `nodes do not see volumes of connection "${other.name}" as disks and make no file system on them`;
    yield report(document, rule["parameter-without-effect"], here, message, "remove it", "key");
  }
  const [type] = ["fsType", "csi.storage.k8s.io/fstype"].flatMap(key => textAt(value, "parameters", key) || []);
  const wrong = refusal(given, type ?? defaultFilesystem);
  if (wrong) yield report(document, rule["parameter-value"], here, wrong, optionsFix);
}

/** Why a class cannot keep its volumes, or have claims adopt them. */
function* claims({ document, path, value }: ClassObject, members: readonly ConnectionFile[]): Found {
  const given = Object.fromEntries(
    [adoptKey, deleteStrategyKey].map(key => [key, textAt(value, "parameters", key) ?? ""]),
  );
  const problem = (key: string, message: string, fix: string) =>
    report(document, rule["parameter-value"], [...path, "parameters", key], message, fix);
  const wrong = tenancyRefusal(given);
  const adopts = given[adoptKey] !== "";
  const key = adopts ? adoptKey : deleteStrategyKey;
  if (wrong !== undefined) {
    yield problem(wrong.includes(`${adoptKey} must`) ? adoptKey : deleteStrategyKey, wrong, "correct the value");
    return;
  }
  if (!adopts && given[deleteStrategyKey] !== "retain") return;
  for (const member of members) {
    const { claims: able } = factsOf(member) ?? {};
    const where = `connection "${member.name}" (${member.driver})`;
    if (able === undefined || (adopts && able === "keeps"))
      yield problem(
        key,
        `${where} ${able === undefined ? "does not record whose its volumes are" : "does not tell who still uses a volume"}`,
        able === undefined
          ? "remove it; the connection file can have deleteStrategy: retain for all its volumes"
          : "remove it, and bind volumes by hand (csimux volumes adopt)",
      );
    else if (adopts && !textAt(member.read.normalized, "instance_id"))
      yield problem(
        key,
        `${where} has no instance_id, without which csimux cannot distinguish the volumes of two clusters that use this storage`,
        `write an instance_id into ${member.name}.yaml; it counts for new volumes`,
      );
  }
}

const optionsFix =
  'write options of mke2fs(8), mkfs.xfs(8) or mkfs.btrfs(8) that shape the file system, such as "-m 1"';

function refusal(text: string, type: string): string | undefined {
  try {
    mkfsOptions(text, type);
    return undefined;
  } catch (error) {
    if (error instanceof CsiError) return error.message;
    throw error;
  }
}

function* fsType({ document, path, value }: ClassObject, members: readonly ConnectionFile[]): Found {
  const [key, second] = ["fsType", "csi.storage.k8s.io/fstype"].filter(
    each => textAt(value, "parameters", each) !== undefined,
  );
  if (key === undefined) return;
  const here = [...path, "parameters", second ?? key];
  if (second !== undefined) {
    const message = '"fsType" and "csi.storage.k8s.io/fstype" are two names of one parameter';
    yield report(document, rule["fstype-given-twice"], here, message, "remove one of the two", "key");
    return;
  }
  const wanted = textAt(value, "parameters", key) ?? "";
  if (wanted === "") return;
  for (const member of members) {
    const possible = filesystemsOf(member);
    if (factsOf(member)?.protocol === "hostpath") {
      const message = `volumes of connection "${member.name}" are existing folders, so "${wanted}" has no effect`;
      yield report(document, rule["parameter-without-effect"], here, message, "remove it", "key");
      return;
    }
    if (!possible || possible.includes(wanted)) continue;
    const message = `connection "${member.name}" (${member.driver}) cannot make "${wanted}"`;
    yield report(document, rule["fstype-impossible"], here, message, `possible: ${possible.join(", ")}`);
    return;
  }
}
