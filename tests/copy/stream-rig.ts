import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StreamWork } from "../../lib/copies/zfs-send.ts";
import type {
  ReceivedState,
  SourceSnapshot,
  StreamSource,
  StreamStart,
  StreamTarget,
} from "../../lib/drivers/copying.ts";
import type { Argv } from "../../lib/io/runner.ts";
import type { StorageHost } from "../../lib/io/script.ts";
import { signal } from "../io/ssh/sshd.ts";

/** A storage whose streams are the bytes of a file, and whose token is the number of bytes that have arrived. */
export interface FileStorage {
  readonly folder: string;
  readonly snapshot: SourceSnapshot;
  readonly source: StreamSource;
  readonly target: StreamTarget;
  /** Each stream that was opened: where it started, whether basic, and what the target was given. */
  readonly opened: { start: StreamStart; basic: boolean; isLater?: boolean }[];
  /** Removes the target. */
  forget(): Promise<void>;
  /** What `stop` and `discard` were called for. */
  readonly asked: string[];
  /** The bytes of the part that has arrived. */
  partBytes(): Promise<number>;
  work(change?: Partial<StreamWork>): StreamWork;
  /** Whether the target has the content of the snapshot. */
  isCopied(): Promise<boolean>;
  remove(): Promise<void>;
}

/** The programs of a storage, if they are others than those that copy a file. */
export interface Programs {
  /** Gets the file and the offset. */
  readonly send?: (basic: boolean) => string;
  /** Gets the file that grows, the proof, and "basic" or nothing. */
  readonly receive?: string;
  readonly bytes?: number;
}

/** Sends 64 KiB at a time, so that a stream can be cut in many places. */
export const sendSlowly = (): string =>
  'at=$2 all=$(stat -c %s "$1"); while [ $at -lt $all ]; do ' +
  'dd if="$1" bs=65536 count=1 iflag=skip_bytes skip=$at status=none || exit 1; at=$((at + 65536)); done';

const send = 'tail -c +$(($2 + 1)) "$1"';

/**
 * As zfs-receive(8) with -s: one program at a time; an empty stream leaves nothing, one that ends early is kept, and the whole one is
 * checked.
 */
export const receive =
  'echo $$ >"$1.pid"; exec 9>"$1.lock"; flock -n 9 || { echo "cannot receive: dataset is busy" >&2; exit 1; }; ' +
  'echo "$2" >"$1.to"; cat >>"$1.part"; [ -s "$1.part" ] || rm "$1.part"; case $(sha256sum <"$1.part") in "$2 "*) mv "$1.part" "$1.whole";; ' +
  '*) echo "cannot receive resume stream: checksum mismatch or incomplete stream." >&2; exit 1;; esac';

export async function fileStorage(from: StorageHost, to: StorageHost, programs: Programs = {}): Promise<FileStorage> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-stream-"));
  const content = randomBytes(programs.bytes ?? 3_000_000);
  const [data, stored] = [join(folder, "data"), join(folder, "stored")];
  await writeFile(data, content);
  const proof = createHash("sha256").update(content).digest("hex");
  const snapshot: SourceSnapshot = {
    ...{ name: "tank/a@snapshot", proof, bytes: 0n, toSend: 0n, stable: true },
    traits: { encrypted: undefined, blockBytes: 0n, fixed: {} },
  };
  const text = (name: string) =>
    readFile(`${stored}.${name}`, "utf8").then(
      value => value.trim(),
      () => "",
    );
  const size = (name: string) =>
    stat(`${stored}.${name}`).then(
      ({ size: bytes }) => bytes,
      () => undefined,
    );
  const opened: FileStorage["opened"] = [];
  const asked: string[] = [];
  const shell = (script: string, ...words: string[]): Argv => ["sh", "-c", script, "sh", ...words];
  const source: StreamSource = {
    format: "zfs:filesystem",
    machine: "a",
    open(_, start, basic) {
      opened.push({ start, basic });
      const offset = start.kind === "token" ? start.token : "0";
      return { host: from, argv: shell((programs.send ?? (() => send))(basic), data, offset, basic ? "basic" : "") };
    },
    isTokenOf: async () => true,
  };
  const isBusy = (): boolean => {
    try {
      execFileSync("flock", ["-n", `${stored}.lock`, "true"]);
      return false;
    } catch {
      return true;
    }
  };
  const target: StreamTarget = {
    format: "zfs:filesystem",
    machine: "b",
    async state(): Promise<ReceivedState> {
      if (isBusy()) return { kind: "busy" };
      if ((await size("whole")) !== undefined) {
        const sum = createHash("sha256")
          .update(await readFile(`${stored}.whole`))
          .digest("hex");
        return { kind: "whole", proof: sum };
      }
      const bytes = await size("part");
      if (bytes === undefined) return { kind: "nothing" };
      return { kind: "partial", token: String(bytes), proof: await text("to") };
    },
    open(_id, _moment, isLater) {
      const last = opened.at(-1);
      if (last) last.isLater = isLater;
      return { host: to, argv: shell(programs.receive ?? receive, stored, proof, last?.basic ? "basic" : "") };
    },
    async stop() {
      asked.push("stop");
      const pid = Number(await text("pid"));
      if (pid > 0 && isBusy()) for (const each of [...childrenOf(pid), pid]) signal(each, "SIGTERM");
    },
    async discard() {
      asked.push("discard");
      await rm(`${stored}.part`, { force: true });
    },
  };
  return {
    ...{ folder, snapshot, source, target, opened, asked },
    forget: () => rm(`${stored}.whole`),
    partBytes: async () => (await size("part")) ?? 0,
    isCopied: async () => content.equals(await readFile(`${stored}.whole`).catch(() => Buffer.alloc(0))),
    work: change => ({
      ...{
        source,
        target,
        id: "pvc-1",
        snapshot,
        earlier: undefined,
        method: "zfs-send",
        basic: false,
        simplified: async () => {},
        progress: () => {},
      },
      ...change,
    }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Each process with its parent and its name. */
export const processes = (): readonly { readonly pid: number; readonly parent: number; readonly name: string }[] =>
  readdirSync("/proc")
    .filter(name => /^\d+$/.test(name))
    .flatMap(name => {
      try {
        const text = readFileSync(`/proc/${name}/stat`, "latin1");
        const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
        const comm = text.slice(text.indexOf("(") + 1, text.lastIndexOf(")"));
        return state === "Z" ? [] : [{ pid: Number(name), parent: Number(parent), name: comm }];
      } catch {
        return [];
      }
    });

/** The processes that one started, and it itself not. */
export const childrenOf = (pid: number): readonly number[] =>
  processes()
    .filter(({ parent }) => parent === pid)
    .map(each => each.pid);
