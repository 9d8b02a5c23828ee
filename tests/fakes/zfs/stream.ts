import { type Files, filesBelow, guidOf, sameContent, writeFiles } from "./content.ts";
import { Failure, type Pools, type Thing, UsageFailure } from "./pool.ts";
import { bytesOf } from "./properties.ts";
import { flags, free } from "./show.ts";

/** The bytes of a stream between its head and its content; the whole ends with "end\n". */
const bodyBytes = 4096;
const tail = "end\n";

/** What is at the beginning of a stream, and in a token. */
interface Head {
  readonly guid: string;
  /** The guid of the snapshot that an incremental stream begins at. */
  readonly from?: string | undefined;
  /** The full name of the sent snapshot. */
  readonly toname: string;
  readonly type: Thing["type"];
  readonly large: boolean;
  readonly compressed: boolean;
  readonly resumed: boolean;
  readonly bytes: number;
  readonly properties: Readonly<Record<string, string>>;
}

const tokenOf = (head: Head): string => `1-${Buffer.from(JSON.stringify(head)).toString("base64url")}`;

function headIn(token: string): Head {
  try {
    return JSON.parse(Buffer.from(token.slice(2), "base64url").toString()) as Head;
  } catch {
    throw new UsageFailure("cannot resume send: resume token is corrupt");
  }
}

/** A snapshot by the guid that it shows, of the dataset that a token names, or of another one in its pool (libzfs_dataset.c, guid_to_name). */
function byGuid(pools: Pools, guid: string, name: string): Thing | undefined {
  const [pool = ""] = name.split(/[/@]/);
  const all = pools.all().filter(each => each.type === "snapshot" && guidOf(each) === guid);
  return all.find(each => each.name === name) ?? all.find(each => each.name.startsWith(`${pool}/`));
}

/** What `zfs send -n` prints of a token before it looks for the snapshot (OpenZFS 2.1 to 2.3, libzfs_sendrecv.c, zfs_send_resume_impl_cb_impl). */
const contents = ({ guid, from, toname, large, compressed }: Head): string =>
  [
    "resume token contents:",
    "nvlist version: 0",
    ...(from === undefined ? [] : [`\tfromguid = 0x${BigInt(from).toString(16)}`]),
    "\tobject = 0x1",
    "\toffset = 0x0",
    "\tbytes = 0x800",
    `\ttoguid = 0x${BigInt(guid).toString(16)}`,
    `\ttoname = ${toname}`,
    ...(large ? ["\tlargeblockok = 1"] : []),
    ...(compressed ? ["\tcompressok = 1"] : []),
    "",
  ].join("\n");

/** What zfs send says, and writes in two parts. */
export interface Sent {
  readonly parts: readonly [string, string];
  readonly err: string;
  /** What it prints on stderr between the two parts, without having failed. */
  readonly told?: string;
}

/** zfs send [-n [-v] -P] [-v -P] [-L] [-c] [-i @BASE] SNAPSHOT, or zfs send [-n -v] [-v -P] -t TOKEN. */
export function send(pools: Pools, argv: readonly string[]): Sent {
  const { words, set, values } = flags(argv, "ti");
  const refused = [..."pRhew"].find(each => set.has(each));
  if (refused) throw new Failure(`the model sends nothing with -${refused}`);
  const token = values["t"];
  const known = token === undefined ? undefined : headIn(token);
  const shown = known && set.has("n") && set.has("v") ? contents(known) : "";
  const snapshot = known ? byGuid(pools, known.guid, known.toname) : pools.find(words[0] ?? "");
  if (!snapshot) {
    const text = known
      ? `cannot resume send: '${known.toname}' used in the initial send no longer exists\n`
      : `cannot open '${words[0]}': dataset does not exist\n`;
    return { parts: [shown, ""], err: text };
  }
  if (snapshot.type !== "snapshot") throw new Failure(`cannot send '${snapshot.name}': not a snapshot`);
  const dataset = pools.find(snapshot.name.split("@")[0] ?? "") as Thing;
  // dmu_send.c: the key of encrypted content must be loaded unless the stream is raw.
  if (dataset.locked) throw new Failure(`warning: cannot send '${snapshot.name}': source key must be loaded`);
  const head = known ? { ...known, resumed: true } : headOf(pools, snapshot, dataset, set, values["i"]);
  if (set.has("n")) {
    const kind = head.from === undefined ? "full" : `incremental\t${values["i"]}`;
    const text = `${shown}${kind}\t${snapshot.name}\t${head.bytes}\nsize\t${head.bytes}\n`;
    return { parts: [set.has("P") ? text : "", ""], err: "" };
  }
  // OpenZFS 2.2.9, lib/libzfs/libzfs_sendrecv.c, send_print_verbose and send_progress_thread.
  const estimate = `full\t${snapshot.name}\t${head.bytes}\nsize\t${head.bytes}\n`;
  const told = set.has("v") && set.has("P") ? `${estimate}12:00:01\t${bodyBytes / 2}\t${snapshot.name}\n` : "";
  const content = JSON.stringify(filesBelow(pools.place(snapshot)));
  const half = ".".repeat(bodyBytes / 2);
  return { parts: [`${JSON.stringify(head)}\n${half}`, `${half}\n${content}\n${tail}`], err: "", told };
}

function headOf(
  pools: Pools,
  snapshot: Thing,
  dataset: Thing,
  set: ReadonlySet<string>,
  base: string | undefined,
): Head {
  const from = base === undefined ? undefined : pools.find(base.startsWith("@") ? `${dataset.name}${base}` : base);
  if (base !== undefined && (!from || from.txg >= snapshot.txg))
    throw new Failure(`warning: cannot send '${snapshot.name}': incremental source (${base}) does not exist`);
  const kept = ["volsize", "volblocksize", "casesensitivity", "normalization", "utf8only"].flatMap(name => {
    const value = (snapshot.own[name] ?? dataset.own[name])?.value;
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    guid: guidOf(snapshot),
    ...(from && { from: guidOf(from) }),
    ...{ toname: snapshot.name, type: dataset.type, resumed: false },
    ...{ large: set.has("L"), compressed: set.has("c") },
    bytes: pools.bytes(snapshot),
    properties: Object.fromEntries(kept),
  };
}

const isComplete = (stream: string): boolean => stream.endsWith(tail) && stream.length > bodyBytes;

/** The properties that `-o` sets, and the words without them. */
function options(argv: readonly string[]): { readonly pairs: readonly string[]; readonly rest: readonly string[] } {
  const pairs = argv.filter((_, at) => argv[at - 1] === "-o");
  return { pairs, rest: argv.filter((word, at) => word !== "-o" && argv[at - 1] !== "-o") };
}

/** zfs receive -A NAME (OpenZFS 2.2.9, cmd/zfs/zfs_main.c, zfs_do_receive): the rest of a first stream goes with its dataset. */
function abort(pools: Pools, name: string): void {
  const thing = pools.find(name);
  if (!thing) throw new UsageFailure(`cannot open '${name}': dataset does not exist`);
  if (!thing.token) throw new Failure(`'${name}' does not have any resumable receive state to abort`);
  delete thing.token;
  if (thing.inconsistent) pools.remove(thing);
}

/** zfs receive [-u] [-s] [-F] [-A] [-o K=V]* NAME[@SNAPSHOT], from a whole stream or a part of one. */
export function receive(
  pools: Pools,
  argv: readonly string[],
  stream: string,
  setProperties: (name: string, pairs: readonly string[]) => void,
): void {
  const { pairs, rest } = options(argv);
  const { words, set } = flags(rest, "x");
  const [name = "", given] = (words[0] ?? "").split("@");
  if (set.has("A")) {
    abort(pools, name);
    return;
  }
  const [first = ""] = stream.split("\n");
  if (first === "" || !stream.includes("\n")) throw new Failure("cannot receive: failed to read from stream");
  const head = JSON.parse(first) as Head;
  const kind = head.resumed ? "resume" : head.from === undefined ? "new filesystem" : "incremental";
  const fail = (text: string) => new Failure(`cannot receive ${kind} stream: ${text}`);
  const existing = pools.find(name);
  // A running receive owns the dataset (dmu_recv.c, recv_own_dataset_partial_resume; EBUSY).
  if (pools.state.faults.receiving?.includes(name)) throw fail("dataset is busy");
  refuse(pools, name, existing, head, set, fail);
  const thing = existing ?? begun(pools, name, head);
  // The properties come right after the beginning (OpenZFS 2.2.9, module/zfs/zfs_ioctl.c, zfs_ioc_recv_impl).
  if (pairs.length > 0) setProperties(name, pairs);
  // ENOTSUP at the first record (dmu_recv.c, recv_begin_check_feature_flags_impl).
  if (pools.state.faults.oldPool && (head.large || head.compressed)) {
    if (!existing) pools.remove(thing);
    throw fail("pool must be upgraded to receive this stream.");
  }
  const isFull = head.bytes > free(pools, name);
  if (isFull || !isComplete(stream)) {
    if (set.has("s")) thing.token = tokenOf({ ...head, resumed: false });
    else if (!existing) pools.remove(thing);
    throw fail(isFull ? "out of space" : "incomplete stream");
  }
  finish(pools, thing, head, given ?? head.toname.split("@")[1] ?? "", stream);
  if (!set.has("u") && pools.value(thing, "canmount").value === "on") pools.mount(thing);
}

/** OpenZFS 2.2.9, lib/libzfs/libzfs_sendrecv.c, zfs_receive_one. */
function refuse(
  pools: Pools,
  name: string,
  existing: Thing | undefined,
  head: Head,
  set: ReadonlySet<string>,
  fail: (text: string) => Failure,
): void {
  const parent = name.slice(0, name.lastIndexOf("/"));
  if (!existing && !pools.find(parent)) throw new Failure(`cannot open '${parent}': dataset does not exist`);
  if (!existing && (head.from !== undefined || head.resumed)) throw fail(`destination '${name}' does not exist`);
  if (!existing) return;
  if (existing.token && !head.resumed)
    throw fail(`destination ${name} contains partially-complete state from "zfs receive -s".`);
  if (head.resumed) {
    // Another stream's token (dmu_recv.c, recv_resume_begin_check).
    if (!existing.token || headIn(existing.token).guid !== head.guid) throw fail("invalid backup stream");
    return;
  }
  if (head.from === undefined) throw fail(`destination '${name}' exists\nmust specify -F to overwrite it`);
  const snapshots = pools
    .below(name)
    .filter(each => each.name.startsWith(`${name}@`))
    .sort((a, b) => a.txg - b.txg);
  const base = snapshots.find(each => guidOf(each) === head.from);
  if (!base || (!set.has("F") && snapshots.at(-1) !== base))
    throw fail(`most recent snapshot of ${name} does not\nmatch incremental source`);
  if (set.has("F")) for (const each of snapshots.filter(({ txg }) => txg > base.txg)) pools.remove(each);
  else if (!sameContent(pools, existing, base))
    throw fail(`destination ${name} has been modified\nsince most recent snapshot`);
}

/** A new dataset, inconsistent until its stream ends. */
function begun(pools: Pools, name: string, head: Head): Thing {
  const thing = pools.add(name, head.type);
  thing.inconsistent = true;
  for (const [key, value] of Object.entries(head.properties)) thing.own[key] = { value, source: "local" };
  return thing;
}

function finish(pools: Pools, thing: Thing, head: Head, snapshot: string, stream: string): void {
  delete thing.token;
  delete thing.inconsistent;
  const volsize = head.properties["volsize"];
  if (volsize !== undefined) thing.own["volsize"] = { value: String(bytesOf(volsize)), source: "local" };
  writeFiles(pools.place(thing), JSON.parse(stream.trimEnd().split("\n").at(-2) ?? "{}") as Files);
  const made = pools.add(`${thing.name}@${snapshot}`, "snapshot");
  made.sent = head.guid;
  if (volsize !== undefined) made.own["volsize"] = { value: String(bytesOf(volsize)), source: "local" };
  pools.copyContent(thing, made);
}
