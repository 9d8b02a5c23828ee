import { isConnectionName } from "../../../lib/core/handle.ts";
import type { Argv } from "../../../lib/io/runner.ts";
import { UsageError, visible } from "../../terminal/terminal.ts";
import { isNamespace, isObjectName } from "./objects/objects.ts";

/** The commands of a move, in the order in which they are used. */
export const moveCommands = ["plan", "copy", "switch", "undo", "finish"] as const;

/** One of them. */
export type MoveCommand = (typeof moveCommands)[number];

/** The flags, under commander's names. */
export interface MoveFlags {
  readonly namespace?: string;
  readonly from?: string;
  readonly all?: true;
  readonly toClass?: string;
  readonly kubectl?: string;
  readonly context?: string;
  readonly kubeconfig?: string;
  readonly yes?: true;
  readonly loseWritesSinceSwitch?: true;
  readonly ownerPaused?: true;
  readonly gitopsPaused?: true;
}

/** The validated command line. */
export interface MoveOptions {
  readonly command: MoveCommand;
  /** The named claims of one namespace, or all claims on a connection, if given in one namespace only. */
  readonly what:
    | { readonly namespace: string; readonly claims: readonly string[] }
    | { readonly connection: string; readonly namespace: string | undefined };
  readonly toClass: string | undefined;
  readonly kubectl: Argv;
  readonly isSure: boolean;
  readonly losesWrites: boolean;
  readonly isOwnerPaused: boolean;
  readonly isGitopsPaused: boolean;
}

const needClass: readonly MoveCommand[] = ["plan", "copy"];

/** Validates the flags. Throws UsageError. */
export function moveOptions(command: MoveCommand, claims: readonly string[], flags: MoveFlags): MoveOptions {
  const { namespace, from, toClass } = flags;
  if (namespace !== undefined && !isNamespace(namespace))
    throw new UsageError(`--namespace must be the name of a namespace, not "${visible(namespace)}"`);
  if (toClass !== undefined && !isObjectName(toClass))
    throw new UsageError(`--to-class must be the name of a StorageClass, not "${visible(toClass)}"`);
  if (toClass === undefined && needClass.includes(command))
    throw new UsageError(`csimux move ${command} needs --to-class, the StorageClass to which the claims move`);
  const [program, ...words] = (flags.kubectl ?? "kubectl").split(/\s+/).filter(word => word !== "");
  if (program === undefined) throw new UsageError("--kubectl is empty");
  const { context, kubeconfig } = flags;
  if (context !== undefined) words.push("--context", context);
  if (kubeconfig !== undefined) words.push("--kubeconfig", kubeconfig);
  return {
    command,
    what: whatOf(claims, from, flags.all === true, namespace),
    toClass,
    kubectl: [program, ...words],
    isSure: flags.yes === true,
    losesWrites: flags.loseWritesSinceSwitch === true,
    isOwnerPaused: flags.ownerPaused === true,
    isGitopsPaused: flags.gitopsPaused === true,
  };
}

function whatOf(
  claims: readonly string[],
  from: string | undefined,
  isAll: boolean,
  namespace: string | undefined,
): MoveOptions["what"] {
  if (from === undefined && !isAll) {
    const wrong = claims.find(each => !isObjectName(each));
    if (wrong !== undefined) throw new UsageError(`"${visible(wrong)}" is not the name of a claim`);
    if (claims.length === 0) throw new UsageError("name the claims, or give --from <connection> --all");
    return { namespace: namespace ?? "default", claims: [...new Set(claims)] };
  }
  if (from === undefined || !isAll)
    throw new UsageError("--from and --all belong together: all claims of a connection");
  if (claims.length > 0) throw new UsageError("name the claims, or give --from <connection> --all, not both");
  if (!isConnectionName(from)) throw new UsageError(`--from must be the name of a connection, not "${visible(from)}"`);
  return { connection: from, namespace };
}
