import { protocols } from "../../core/access.ts";
import type { Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isSecretVariable, isVariable, variablesOf } from "../../core/variables.ts";
import { otherFlags } from "../mount/flags.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";
import type { Attacher, AttacherPorts, AttachRequest, MountProgram } from "./attacher.ts";
import { ownSecrets } from "./context.ts";

/** A bucket, optionally a file system in it (for a pool) and a point in time ("@2026-11-22T00:00:00Z"). */
const filesystemShape =
  /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)?(?:@[A-Za-z0-9][A-Za-z0-9:_.-]*)?$/;
const storeShape = /^[A-Za-z][A-Za-z0-9-]*:\/\/$/;

/** The length of a licence in characters; the admin key may follow, which cannot be used to mount. */
const licenceLength = 24;

/** Error patterns for what the program reports about the object store. */
const patterns: MountErrorPatterns = [
  [/access ?denied|forbidden|InvalidAccessKey|SignatureDoesNotMatch/i, "permission-denied"],
  [/licen[cs]e|passphrase/i, "failed-precondition"],
];

const secretAdvice = "in the node-stage secret";
const exits: MountProgram["exits"] = {
  64: {
    code: "failed-precondition",
    text: `administrators cannot mount: OBJECTIVEFS_LICENSE ${secretAdvice} must be a plain licence`,
  },
  65: {
    code: "failed-precondition",
    text: `the file system cannot be decrypted with env.OBJECTIVEFS_PASSPHRASE ${secretAdvice}`,
  },
  78: { code: "failed-precondition", text: `env.OBJECTIVEFS_PASSPHRASE ${secretAdvice} is missing or invalid` },
  127: { code: "failed-precondition", text: "mount.objectivefs is not installed on the host" },
};

/** The environment of the program: keys `env.<NAME>` of the stage secret, overridden by those of the volume context. */
function environment({ volumeId, context }: AttachRequest, secrets: Secrets): Readonly<Record<string, string>> {
  const all = { ...variablesOf(secrets), ...variablesOf(context) };
  for (const [name, value] of Object.entries(all)) {
    if (isVariable(name) && !value.includes("\0")) continue;
    const text = `volume "${volumeId}": env.${name.slice(0, 80)} is not a variable that may be set`;
    throw new CsiError("invalid-argument", text);
  }
  const licence = all["OBJECTIVEFS_LICENSE"];
  return licence === undefined ? all : { ...all, OBJECTIVEFS_LICENSE: licence.slice(0, licenceLength) };
}

/** The file system and its object store, taken from `env.OBJECTSTORE` or from the prefix of the file system. */
function locate({ volumeId, context }: AttachRequest, given: string | undefined) {
  const invalid = (what: string) => new CsiError("invalid-argument", `volume "${volumeId}": ${what}`);
  const [, store, filesystem = ""] = /^([^/]*:\/\/)?(.*)$/s.exec(context["filesystem"] ?? "") ?? [];
  const shown = JSON.stringify((context["filesystem"] ?? "").slice(0, 200));
  if (!filesystemShape.test(filesystem)) throw invalid(`filesystem ${shown} is not a bucket or a file system in one`);
  const objectStore = given ?? store ?? "";
  if (!storeShape.test(objectStore))
    throw invalid(`env.OBJECTSTORE ${JSON.stringify(objectStore.slice(0, 80))} is not an object store such as "s3://"`);
  if (store !== undefined && store !== objectStore) throw invalid(`filesystem ${shown} is not in ${objectStore}`);
  return { objectStore, filesystem };
}

/**
 * ObjectiveFS: `filesystem` of the context; keys and passphrase from the stage secret (`env.ACCESS_KEY`,
 * `env.SECRET_KEY`, `env.OBJECTIVEFS_LICENSE`, `env.OBJECTIVEFS_PASSPHRASE`), passed to mount.objectivefs in its
 * environment only. Needs no connection.
 */
export const objectivefs = ({ hostMounts }: Pick<AttacherPorts, "hostMounts">): Attacher => ({
  access: protocols.objectivefs,
  async attach(wanted, _, call) {
    const variables = environment(wanted, ownSecrets(call.secrets, wanted.context));
    const { objectStore, filesystem } = locate(wanted, variables["OBJECTSTORE"]);
    const secret = Object.entries(variables).flatMap(([name, value]) =>
      isSecretVariable(name) && value ? [value] : [],
    );
    const argv: MountProgram["argv"] = options => {
      const list = options.length > 0 ? ["-o", options.join(",")] : [];
      return ["mount.objectivefs", ...list, filesystem];
    };
    return {
      kind: "share",
      fsType: "objectivefs",
      source: `${objectStore}${filesystem}`,
      options: otherFlags(wanted.capability.mountFlags),
      onHost: hostMounts,
      env: { ...variables, OBJECTSTORE: objectStore },
      secret,
      errorPatterns: patterns,
      program: { argv, exits },
    };
  },
});
