import { CsiError } from "../core/errors.ts";
import { type CopyPolicy, type CopySettings, hasConnection } from "../core/proxy.ts";
import type { CopyAbilities, CopyWay, GivingFacts, TakingFacts } from "../drivers/copying.ts";
import type { Source } from "../drivers/driver.ts";

/** One end of a copy. */
export interface CopyEnd extends CopyAbilities {
  readonly name: string;
  readonly driverName: string;
  readonly labels: Readonly<Record<string, string>>;
  /** What its file says; undefined: nothing. */
  readonly copies?: CopyPolicy | undefined;
}

/** The ways from one connection to another, the cheapest first, with why no cheaper one is possible; or why there is none. */
export type WayChoice =
  | { readonly kind: "ways"; readonly ways: readonly CopyWay[]; readonly instead: readonly string[] }
  | { readonly kind: "refused"; readonly because: Obstacle; readonly why: string; readonly error: () => CsiError };

/**
 * Why there is no way: the source's driver cannot give content; the target's cannot take it; copies are switched off; the source's or the
 * target's file forbids it; one has files and the other disks; no way of one is one of the other.
 */
export type Obstacle =
  | "gives-nothing"
  | "takes-nothing"
  | "switched-off"
  | "source-forbids"
  | "target-forbids"
  | "content"
  | "no-way";

/**
 * The ways from one connection to another for a source of this kind. "invalid-argument" if the two kinds of storage have no way,
 * "failed-precondition" if a setting forbids it. Pure: csimux uses it for requests and for `csimux validate`.
 */
export function waysBetween(
  from: CopyEnd,
  to: CopyEnd,
  kind: Source["kind"],
  settings: Pick<CopySettings, "enabled">,
): WayChoice {
  const { giving } = from;
  const { taking } = to;
  const between = `from connection "${from.name}" to connection "${to.name}"`;
  const refused = (because: Obstacle, why: string): WayChoice => ({
    ...{ kind: "refused", because, why },
    error: () => new CsiError(codes[because], `content cannot be copied ${between}: ${why}`),
  });
  if (!giving) return refused("gives-nothing", `${who(from)} cannot give content to other connections`);
  if (!taking) return refused("takes-nothing", `${who(to)} cannot take content of other connections`);
  const forbidden = forbids(from, to, settings);
  if (forbidden) return refused(...forbidden);
  if (giving.content !== taking.content)
    return refused("content", `"${from.name}" has ${things(giving)}, "${to.name}" has ${things(taking)}`);
  const { ways, instead } = possible(from, giving, to, taking, kind);
  return ways.length > 0 ? { kind: "ways", ways, instead } : refused("no-way", instead.join("; "));
}

/** The code of the answer. "failed-precondition" lets the claim retry, because a change of a setting can remove the obstacle. */
const codes: Readonly<Record<Obstacle, CsiError["code"]>> = {
  "gives-nothing": "invalid-argument",
  "takes-nothing": "invalid-argument",
  "switched-off": "failed-precondition",
  "source-forbids": "failed-precondition",
  "target-forbids": "failed-precondition",
  content: "invalid-argument",
  "no-way": "invalid-argument",
};

const who = ({ name, driverName }: CopyEnd): string => `"${name}" (driver ${driverName})`;

const things = ({ content }: Pick<GivingFacts, "content">): string => (content === "files" ? "files" : "disks");

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

function possible(from: CopyEnd, giving: GivingFacts, to: CopyEnd, taking: TakingFacts, kind: Source["kind"]) {
  const ways: CopyWay[] = [];
  const instead: string[] = [];
  const stream = streamWay(from, giving, to, taking);
  if (stream.way) ways.push(stream.way);
  if (stream.why !== undefined) instead.push(stream.why);
  // Which of the two it is depends on how the source is kept: the moment says so.
  const isFilled = kind === "snapshot" && giving.fill;
  if (taking.folder && giving.tree) ways.push("files");
  if (taking.folder && isFilled) ways.push("fill");
  if (!taking.folder) instead.push(`no files: this process cannot write into volumes of "${to.name}"`);
  else if (!giving.tree && !isFilled) instead.push(`no files: this process cannot read volumes of "${from.name}"`);
  return { ways, instead };
}

interface StreamWay {
  readonly way: CopyWay | undefined;
  readonly why: string | undefined;
}

function streamWay(from: CopyEnd, giving: GivingFacts, to: CopyEnd, taking: TakingFacts): StreamWay {
  const none = (why: string): StreamWay => ({ way: undefined, why: `no stream: ${why}` });
  if (!giving.stream) return none(`${who(from)} cannot send one`);
  if (!taking.stream) return none(`${who(to)} cannot receive one`);
  if (giving.stream.format !== taking.stream.format)
    return none(`"${from.name}" sends ${giving.stream.format}, "${to.name}" receives ${taking.stream.format}`);
  if (giving.stream.machine === taking.stream.machine) return { way: "stream-here", why: undefined };
  return {
    way: "stream",
    why: "not within one machine: the connections are on different machines, so data passes through csimux",
  };
}
