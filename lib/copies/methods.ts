import { CsiError } from "../core/errors.ts";
import { type CopyPolicy, type CopySettings, hasConnection } from "../core/proxy.ts";
import type { CopyAbilities, CopyMethod, CopySourceFacts, CopyTargetFacts } from "../drivers/copying.ts";
import type { Source } from "../drivers/driver.ts";

/** One end of a copy. */
export interface CopyEnd extends CopyAbilities {
  readonly name: string;
  readonly driverName: string;
  readonly labels: Readonly<Record<string, string>>;
  /** What its file says; undefined: nothing. */
  readonly copies?: CopyPolicy | undefined;
}

/** The methods from one connection to another, the cheapest first, with why no cheaper one is possible; or why there is none. */
export type MethodChoice =
  | { readonly kind: "methods"; readonly methods: readonly CopyMethod[]; readonly instead: readonly string[] }
  | { readonly kind: "refused"; readonly because: Obstacle; readonly why: string; readonly error: () => CsiError };

/**
 * Why there is no method: the source's driver cannot be a source of copies; the target's no target; copies are switched off; the source's or the
 * target's file forbids it; one holds file systems and the other block devices; no method is common to both.
 */
export type Obstacle =
  | "not-a-source"
  | "not-a-target"
  | "switched-off"
  | "source-forbids"
  | "target-forbids"
  | "content"
  | "no-method";

/**
 * The methods from one connection to another for a source of this kind. "invalid-argument" if the two kinds of storage have no method,
 * "failed-precondition" if a setting forbids it. Pure: csimux uses it for requests and for `csimux validate`.
 */
export function methodsBetween(
  from: CopyEnd,
  to: CopyEnd,
  kind: Source["kind"],
  settings: Pick<CopySettings, "enabled">,
): MethodChoice {
  const { copySource } = from;
  const { copyTarget } = to;
  const between = `from connection "${from.name}" to connection "${to.name}"`;
  const refused = (because: Obstacle, why: string): MethodChoice => ({
    ...{ kind: "refused", because, why },
    error: () => new CsiError(codes[because], `content cannot be copied ${between}: ${why}`),
  });
  if (!copySource) return refused("not-a-source", `${who(from)} cannot be the source of copies`);
  if (!copyTarget) return refused("not-a-target", `${who(to)} cannot be the target of copies`);
  const forbidden = forbids(from, to, settings);
  if (forbidden) return refused(...forbidden);
  if (copySource.content !== copyTarget.content)
    return refused(
      "content",
      `connection "${from.name}" holds ${things(copySource)}, connection "${to.name}" ${things(copyTarget)}`,
    );
  const { methods, instead } = possible(from, copySource, to, copyTarget, kind);
  return methods.length > 0 ? { kind: "methods", methods, instead } : refused("no-method", instead.join("; "));
}

/** The code of the answer. "failed-precondition" lets the claim retry, because a change of a setting can remove the obstacle. */
const codes: Readonly<Record<Obstacle, CsiError["code"]>> = {
  "not-a-source": "invalid-argument",
  "not-a-target": "invalid-argument",
  "switched-off": "failed-precondition",
  "source-forbids": "failed-precondition",
  "target-forbids": "failed-precondition",
  content: "invalid-argument",
  "no-method": "invalid-argument",
};

const who = ({ name, driverName }: CopyEnd): string => `"${name}" (driver ${driverName})`;

const things = ({ content }: Pick<CopySourceFacts, "content">): string =>
  content === "files" ? "file systems" : "block devices";

/** The settings of one end of a copy. */
type CopyPolicyEnd = Pick<CopyEnd, "name" | "labels" | "copies">;

/** The setting that forbids copies between two connections, and the sentence about it; undefined if none does. Pure. */
export function forbids(
  from: CopyPolicyEnd,
  to: CopyPolicyEnd,
  { enabled }: Pick<CopySettings, "enabled">,
): readonly [Obstacle, string] | undefined {
  if (!enabled)
    return ["switched-off", 'copies between connections are switched off ("proxy.copies.enabled" of the main file)'];
  if (!hasConnection(from.copies?.to, to.name, to.labels))
    return ["source-forbids", `"copies.to" of "${from.name}" does not include "${to.name}"`];
  if (!hasConnection(to.copies?.from, from.name, from.labels))
    return ["target-forbids", `"copies.from" of "${to.name}" does not include "${from.name}"`];
  return undefined;
}

function possible(
  from: CopyEnd,
  copySource: CopySourceFacts,
  to: CopyEnd,
  copyTarget: CopyTargetFacts,
  kind: Source["kind"],
) {
  const methods: CopyMethod[] = [];
  const instead: string[] = [];
  const stream = streamMethod(from, copySource, to, copyTarget);
  if (stream.method) methods.push(stream.method);
  if (stream.why !== undefined) instead.push(stream.why);
  // Which of the two it is depends on how the source is kept: the snapshot says so.
  const isFilled = kind === "snapshot" && copySource.fill;
  if (copyTarget.folder && copySource.tree) methods.push("rsync");
  if (copyTarget.folder && isFilled) methods.push("restore");
  if (!copyTarget.folder) instead.push(`no files: this process cannot write into volumes of "${to.name}"`);
  else if (!copySource.tree && !isFilled) instead.push(`no files: this process cannot read volumes of "${from.name}"`);
  return { methods, instead };
}

interface StreamMethod {
  readonly method: CopyMethod | undefined;
  readonly why: string | undefined;
}

function streamMethod(
  from: CopyEnd,
  copySource: CopySourceFacts,
  to: CopyEnd,
  copyTarget: CopyTargetFacts,
): StreamMethod {
  const none = (why: string): StreamMethod => ({ method: undefined, why: `no stream: ${why}` });
  if (!copySource.stream) return none(`${who(from)} cannot send one`);
  if (!copyTarget.stream) return none(`${who(to)} cannot receive one`);
  if (copySource.stream.format !== copyTarget.stream.format)
    return none(`"${from.name}" sends ${copySource.stream.format}, "${to.name}" receives ${copyTarget.stream.format}`);
  if (copySource.stream.machine === copyTarget.stream.machine) return { method: "zfs-send-local", why: undefined };
  return {
    method: "zfs-send",
    why: "not within one machine: the connections are on different machines, so data passes through csimux",
  };
}
