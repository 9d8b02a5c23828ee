import { basename, normalize } from "node:path";
import { omittedLine } from "../../../io/capture.ts";
import { unlimitedMs } from "../../../io/runner.ts";
import { type BackupTool, listIn, type ToolSettings, textOf } from "./tool.ts";

/** `snapshots.restic`. */
export interface ResticSettings extends ToolSettings {
  /** Free the space of a deleted backup immediately. */
  readonly prune: boolean;
}

/** The host of all backups, wherever the controller runs. */
const host = ["--host", "csimux"] as const;

/**
 * Without it, a file has the content of the last backup of its folder if size, times and inode are the same (internal/archiver/archiver.go,
 * fileChanged). They do not change with each write through a mapping, only with the first one after its page was written back (mmap(2), MAP_SHARED),
 * and a client of NFS answers from its cache what they were up to a minute ago (nfs(5), "acregmax"). What is in the repository is not sent again.
 */
const readEverything = "--force";

/** The tag of a complete backup. One without it was left by an interrupted call. */
const completeTag = "csi_complete";

/** The number of digits of an id. */
const completeDigits = 64;

/** The exit code of `restic backup` if some files could not be read (restic, "Exit status codes"). */
const someUnread = 3;

/**
 * An id as restic looks for it: without its last digit if it is complete. From 0.15 on restic does not look for a complete one, and says of
 * one that does not exist what it says of one that it cannot read (internal/restic/snapshot_find.go, FindSnapshot).
 */
const searched = (id: string): string => id.slice(0, completeDigits - 1);

const list = ["snapshots", "--json", "--no-lock"] as const;

/** restic(1), 0.14 and newer. */
export const restic = ({ env, flags, prune }: ResticSettings): BackupTool => ({
  method: "restic",
  commandWords: 1,
  // Tagging and forgetting need an exclusive lock.
  changesAtOnce: 1,
  joint: "=",
  tag: text => text,
  creation: {
    look: ["cat", "--no-lock", "config"],
    make: ["init"],
    made: /already (exists|initialized)/,
    place: JSON.stringify([env["RESTIC_REPOSITORY"], env["RESTIC_REPOSITORY_FILE"], flags]),
  },
  lock: {
    // A backup that missed files prints their names, which pods choose.
    isHeld: ({ exitCode, stderr }) =>
      exitCode !== 0 && exitCode !== someUnread && /already locked|unable to create lock/.test(stderr),
    // It removes those of processes that have ended on a host of this name, and those that are half an hour old
    // (internal/restic/lock.go, Stale).
    release: ["unlock"],
  },
  list: tags => [...list, "--tag", tags.join(",")],
  one: id => [...list, searched(id)],
  // FindFilteredSnapshots of cmd/restic/find.go; of an id that does not exist, it says something else.
  unread: /^(?:Ignoring "[^"]*"(?!: no matching IDs? )|could not load snapshot)/m,
  none: /no matching ID/,
  row(fields) {
    const tags = listIn(fields["tags"]).map(textOf);
    const tag = (name: string) => tags.find(each => each.startsWith(`${name}=`))?.slice(name.length + 1);
    const isOwn = tag("source") === "csimux";
    const path = textOf(listIn(fields["paths"])[0]);
    const whole = normalize(path);
    return {
      ...{ path, tag, time: fields["time"] },
      // democratic-csi appends it to the tag of the volume.
      instance: tags.map(each => /csi_instance_id=(.*)$/.exec(each)?.[1]).find(name => name !== undefined),
      complete: !isOwn || tags.includes(completeTag),
      within: !whole.startsWith("/") || whole === "/" ? undefined : isOwn ? basename(whole) : whole,
    };
  },
  // It runs in the parent folder, so that the permissions and owner of the volume's root are part of the backup.
  take(source, tags, local) {
    // Nothing is mounted in a sealed tree, but a subvolume of btrfs has another device number, too. A network mount may mount folders by itself.
    const within = local ? [] : ["--one-file-system"];
    const words = ["backup", "--json", readEverything, ...host, ...within, ...tags.flatMap(tag => ["--tag", tag])];
    return [...words, "--", basename(source)];
  },
  taken(_context, { exitCode, stderr, stdout }) {
    const isWhole = exitCode === 0 || (exitCode === someUnread && onlyVanished(stderr));
    const last = stdout.trim().split("\n").at(-1) ?? "";
    return isWhole ? /"snapshot_id":"([0-9a-f]{8,64})"/.exec(last)?.[1] : undefined;
  },
  mark: id => ["tag", "--add", completeTag, id],
  restore: (id, folder) => ["restore", id, "--target", folder],
  forget: id => ["forget", ...(prune ? ["--prune"] : []), searched(id)],
  forgetMs: unlimitedMs,
});

/** The last line of a backup that exits with `someUnread`, which proves that no error is missing (restic, ErrInvalidSourceData). */
const lastWarning = /^.*at least one source file could not be read.*\n$/;

/**
 * Whether restic missed only files that vanished while it read a volume in use (ENOENT). Truncated output may hide other
 * errors.
 */
export function onlyVanished(stderr: string): boolean {
  const lines = stderr.split(/(?<=\n)/);
  if (!lastWarning.test(lines.at(-1) ?? "") || omittedLine.test(stderr)) return false;
  const errors = lines.filter(line => line.includes('"message_type":"error"'));
  return errors.length > 0 && errors.every(line => /"Err":2[,}]|no such file or directory"/.test(line));
}
