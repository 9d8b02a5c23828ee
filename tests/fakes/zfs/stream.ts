import { Failure, type Pools, type Thing } from "./pool.ts";
import { flags } from "./show.ts";

/** The bytes of a stream after its head; the head ends with a line break, the whole with "end\n". */
const bodyBytes = 4096;
const tail = "end\n";

/** What is at the beginning of a stream: a token for content that the model keeps. */
interface Head {
  readonly from: string;
  readonly snapshot: string;
  readonly type: Thing["type"];
  readonly resumed: boolean;
}

/** zfs send [FLAGS] SNAPSHOT, or zfs send -t TOKEN: its stream, in two parts with a pause between. */
export function send(pools: Pools, argv: readonly string[]): readonly [string, string] {
  const { words, values } = flags(argv, "t");
  const token = values["t"];
  const snapshot = token === undefined ? pools.find(words[0] ?? "") : pools.byGuid(token.replace(/^1-/, ""));
  if (!snapshot)
    throw new Failure(
      token
        ? "cannot resume send: 'x' used in the initial send no longer exists"
        : `cannot open '${words[0]}': dataset does not exist`,
    );
  if (snapshot.type !== "snapshot") throw new Failure(`cannot send '${snapshot.name}': not a snapshot`);
  const dataset = pools.find(snapshot.name.split("@")[0] ?? "");
  const head: Head = {
    from: snapshot.guid,
    snapshot: snapshot.name.split("@")[1] ?? "",
    type: dataset?.type ?? "filesystem",
    resumed: token !== undefined,
  };
  return [`${JSON.stringify(head)}\n${".".repeat(bodyBytes / 2)}`, `${".".repeat(bodyBytes / 2)}${tail}`];
}

const complete = (stream: string): boolean => stream.endsWith(tail) && stream.length > bodyBytes;

/** zfs receive [-u] [-s] [-A] [-o K=V]* NAME, from a whole stream or a part of one. */
export function receive(
  pools: Pools,
  argv: readonly string[],
  stream: string,
  setProperties: (name: string, pairs: readonly string[]) => void,
): void {
  const pairs: string[] = [];
  const rest = argv.filter((word, at) => {
    if (argv[at - 1] === "-o") pairs.push(word);
    return word !== "-o" && argv[at - 1] !== "-o";
  });
  const { words, set } = flags(rest, "x");
  const [name = ""] = words;
  const existing = pools.find(name);
  if (set.has("A")) {
    if (!existing?.token) throw new Failure(`'${name}' does not have any resumable receive state to abort`);
    pools.remove(existing);
    return;
  }
  const [first = ""] = stream.split("\n");
  if (first === "") throw new Failure("cannot receive: failed to read from stream");
  const head = JSON.parse(first) as Head;
  if (existing?.token && !head.resumed)
    throw new Failure(
      `cannot receive new filesystem stream: destination ${name} contains partially-complete state from "zfs receive -s".`,
    );
  if (existing && !existing.token)
    throw new Failure(
      `cannot receive new filesystem stream: destination '${name}' exists\nmust specify -F to overwrite it`,
    );
  if (!existing && !pools.find(name.slice(0, name.lastIndexOf("/"))))
    throw new Failure(`cannot open '${name.slice(0, name.lastIndexOf("/"))}': dataset does not exist`);
  const thing = existing ?? pools.add(name, head.type);
  const source = pools.byGuid(head.from);
  if (!complete(stream) || !source) {
    if (set.has("s")) thing.token = `1-${head.from}`;
    else pools.remove(thing);
    throw new Failure("cannot receive new filesystem stream: incomplete stream");
  }
  finish(pools, thing, source, head);
  if (pairs.length > 0) setProperties(name, pairs);
  if (!set.has("u") && pools.value(thing, "canmount").value === "on") pools.mount(thing);
}

function finish(pools: Pools, thing: Thing, source: Thing, head: Head): void {
  const dataset = pools.find(source.name.split("@")[0] ?? "");
  delete thing.token;
  for (const key of ["volsize", "volblocksize", "casesensitivity"]) {
    const value = source.own[key] ?? dataset?.own[key];
    if (value) thing.own[key] = value;
  }
  pools.copyContent(source, thing);
  const made = pools.add(`${thing.name}@${head.snapshot}`, "snapshot");
  const volsize = source.own["volsize"];
  if (volsize) made.own["volsize"] = volsize;
  pools.copyContent(thing, made);
}
