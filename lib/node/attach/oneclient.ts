import { CsiError } from "../../core/errors.ts";
import { protocols } from "../../core/protocols.ts";
import type { Attacher, AttacherPorts, MountProgram, Share, Wanted } from "../attacher.ts";
import { otherFlags } from "../flags.ts";
import type { MountWords } from "../mount-words.ts";
import { ownSecrets } from "../secrets.ts";
import { holdsControl, serversOf } from "./server.ts";

/** What oneclient(1) says of servers and tokens. */
const words: MountWords = [
  [/token|authenti|authoriz|certificate/i, "permission-denied"],
  [/cannot connect|connection error|timeout/i, "unavailable"],
];

const exits: MountProgram["exits"] = {
  127: { code: "failed-precondition", text: "oneclient is not installed on the host" },
};

/** The parts of a comma list. */
const parts = (text: string | undefined): readonly string[] =>
  (text ?? "")
    .split(",")
    .map(part => part.trim())
    .filter(part => part !== "");

/** The spaces that are to be seen; none named: all that the token opens. */
function spaces({ volumeId, context }: Wanted): readonly string[] {
  const names = parts(context["space_names"]);
  const ids = parts(context["space_ids"]);
  const bad = [...names, ...ids].find(each => each.startsWith("-") || holdsControl(each));
  if (bad !== undefined)
    throw new CsiError("invalid-argument", `volume "${volumeId}": ${JSON.stringify(bad.slice(0, 100))} is no space`);
  return [...names.flatMap(name => ["--space", name]), ...ids.flatMap(id => ["--space-id", id])];
}

/** Flags of the class and the node as oneclient(1) has them. One with a token would show it to everybody on the node. */
function flagsOf({ volumeId, capability }: Wanted): readonly string[] {
  const flags = otherFlags(capability.mountFlags);
  const bad = flags.find(flag => /^(?:-t|--token|-u|--unmount)/.test(flag) || holdsControl(flag));
  if (bad === undefined) return flags;
  const advice = "a token goes into the node-stage secret, key token";
  throw new CsiError(
    "invalid-argument",
    `volume "${volumeId}": a mount flag ${bad.slice(0, 9)} is not taken; ${advice}`,
  );
}

/**
 * Onedata, for volumes that people describe: `server` of the context, `space_names` or `space_ids` (comma lists). The token comes
 * from the stage secret, or else from the context, and reaches oneclient(1) in its environment alone.
 */
export const oneclient = ({ hostMounts }: Pick<AttacherPorts, "hostMounts">): Attacher => ({
  access: protocols.oneclient,
  async attach(wanted, _, call) {
    const [server = ""] = serversOf(wanted);
    const chosen = spaces(wanted);
    const flags = flagsOf(wanted);
    const token = ownSecrets(call.secrets, wanted.context)["token"] ?? wanted.context["token"];
    if (token !== undefined && holdsControl(token))
      throw new CsiError("invalid-argument", `volume "${wanted.volumeId}": the token holds a line break`);
    const argv: MountProgram["argv"] = options => {
      const list = options.length > 0 ? ["-o", options.join(",")] : [];
      return ["oneclient", "-H", server, ...flags, ...list, ...chosen];
    };
    const share: Share = {
      kind: "share",
      fsType: "oneclient",
      // So the mount table calls all of them.
      source: "oneclient",
      options: [],
      onHost: hostMounts,
      words,
      program: { argv, exits },
      ...(token && { env: { ONECLIENT_ACCESS_TOKEN: token }, secret: [token] }),
    };
    return share;
  },
});
