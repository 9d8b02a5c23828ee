import { protocols } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import { otherFlags } from "../mount/flags.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";
import type { Attacher, AttacherPorts, AttachRequest, MountProgram } from "./attacher.ts";
import { holdsControl, ownSecrets, serversOf } from "./context.ts";

/** Error patterns of oneclient(1) for servers and tokens. */
const patterns: MountErrorPatterns = [
  [/token|authenti|authoriz|certificate/i, "permission-denied"],
  [/cannot connect|connection error|timeout/i, "unavailable"],
];

const exits: MountProgram["exits"] = {
  127: { code: "failed-precondition", text: "oneclient is not installed on the host" },
};

/** The items of a comma-separated list. */
const parts = (text: string | undefined): readonly string[] =>
  (text ?? "")
    .split(",")
    .map(part => part.trim())
    .filter(part => part !== "");

/** The options for the spaces to mount; without any, oneclient shows all that the token can access. */
function spaces({ volumeId, context }: AttachRequest): readonly string[] {
  const names = parts(context["space_names"]);
  const ids = parts(context["space_ids"]);
  const bad = [...names, ...ids].find(each => each.startsWith("-") || holdsControl(each));
  if (bad !== undefined)
    throw new CsiError("invalid-argument", `volume "${volumeId}": ${JSON.stringify(bad.slice(0, 100))} is not a space`);
  return [...names.flatMap(name => ["--space", name]), ...ids.flatMap(id => ["--space-id", id])];
}

/**
 * Options that tune oneclient, with numbers for values (onedata/oneclient, src/options/options.cc). Others name files
 * and folders of the node (--config, --log-dir), other servers, or a token, which every user of the node could see.
 * Names must be complete: the program accepts any unambiguous prefix.
 */
const tuning: ReadonlySet<string> = new Set([
  ...["-i", "--insecure", "-P", "--port", "--force-proxy-io", "--force-direct-io", "--no-buffer", "--provider-timeout"],
  ...["--storage-timeout", "--disable-read-events", "--no-fullblock-read", "--buffer-scheduler-thread-count"],
  ...["--communicator-pool-size", "--communicator-thread-count", "--scheduler-thread-count"],
  ...["--storage-helper-thread-count", "--read-buffer-min-size", "--read-buffer-max-size"],
  ...["--read-buffer-prefetch-duration", "--write-buffer-min-size", "--write-buffer-max-size"],
  ...["--read-buffers-total-size", "--write-buffers-total-size", "--write-buffer-flush-delay"],
  ...["--min-block-prefetch-size", "--seqrd-prefetch-threshold", "--rndrd-prefetch-threshold"],
  ...["--rndrd-prefetch-eval-frequency", "--rndrd-prefetch-block-threshold", "--rndrd-prefetch-cluster-window"],
  ...["--rndrd-prefetch-cluster-block-threshold", "--rndrd-prefetch-cluster-window-grow-factor"],
  ...["--metadata-cache-size", "--readdir-prefetch-size", "--dir-cache-drop-after", "--max-metadata-cache-size"],
  ...["--only-full-replicas", "--hard-link-count", "--show-space-ids", "--emulate-available-space"],
]);

const number = /^[0-9]{1,18}(?:\.[0-9]{1,9})?$/;

const isTuning = (flag: string): boolean => {
  const [name = "", ...values] = flag.split("=");
  return number.test(flag) || (tuning.has(name) && values.every(value => number.test(value)));
};

/** The mount flags as options of oneclient(1). Throws "invalid-argument" for one that is not a tuning option. */
function flagsOf({ volumeId, capability }: AttachRequest): readonly string[] {
  const flags = otherFlags(capability.mountFlags);
  const bad = flags.find(flag => !isTuning(flag));
  if (bad === undefined) return flags;
  const name = holdsControl(bad) ? "with a control character" : (bad.split("=")[0] ?? "").slice(0, 60);
  const text = `volume "${volumeId}": the mount option ${name} is not allowed for oneclient; put a token into the node-stage secret, key token`;
  throw new CsiError("invalid-argument", text);
}

/**
 * Onedata, for manually created PersistentVolumes: `server` of the context, `space_names` or `space_ids`
 * (comma-separated). The token comes from the stage secret, or else from the context, and reaches oneclient(1) in its
 * environment only.
 */
export const oneclient = ({ hostMounts }: Pick<AttacherPorts, "hostMounts">): Attacher => ({
  access: protocols.oneclient,
  async attach(wanted, _, call) {
    const [server = ""] = serversOf(wanted);
    const chosen = spaces(wanted);
    const flags = flagsOf(wanted);
    const token = ownSecrets(call.secrets, wanted.context)["token"] ?? wanted.context["token"];
    if (token !== undefined && holdsControl(token))
      throw new CsiError("invalid-argument", `volume "${wanted.volumeId}": the token contains a line break`);
    const argv: MountProgram["argv"] = options => {
      const list = options.length > 0 ? ["-o", options.join(",")] : [];
      return ["oneclient", "-H", server, ...flags, ...list, ...chosen];
    };
    return {
      kind: "share",
      fsType: "oneclient",
      // The mount table shows this source for every Onedata mount.
      source: "oneclient",
      options: [],
      onHost: hostMounts,
      errorPatterns: patterns,
      program: { argv, exits },
      ...(token && { env: { ONECLIENT_ACCESS_TOKEN: token }, secret: [token] }),
    };
  },
});
