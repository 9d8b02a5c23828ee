import { join } from "node:path";
import { maxInt64 } from "../../../core/bytes.ts";
import { isMapping, type Mapping } from "../../../core/mapping.ts";
import { type BackupTool, backupsIn, type Environment, type ToolSettings, textOf } from "./tool.ts";

/** `snapshots.kopia`. */
export interface KopiaSettings extends ToolSettings {
  /** The output of `kopia repository status -t`; undefined if the environment names a connected configuration. */
  readonly token: string | undefined;
}

/** The user and host of all snapshots, wherever the controller runs. */
const owner = ["--override-hostname", "csimux", "--override-username", "csimux"] as const;

/**
 * kopia keeps its list of what the repository has for 30 s (internal/listcache/listcache.go): what another controller has made meanwhile would
 * look deleted.
 */
const listedAgain = "--max-list-cache-duration=0s";

/**
 * The policy for volumes, on the folder above them. With each new snapshot of a volume, kopia would delete the older ones except some of its hours,
 * days, weeks and months (`defaultKeepLatest` and the others in snapshot/policy/retention_policy.go), and would leave out folders that contain CACHEDIR.TAG
 * and what files called .kopiaignore name. A pod can make such a file a link to one of others, which kopia, as root, resolves and reads
 * (fs/ignorefs/ignorefs.go): what is missing would tell the pod what that contains. A list of one's own replaces the name; no file is called ".".
 * The others are the defaults, which the policy of all folders, often made for personal files, may change: a snapshot would silently lack what
 * cannot be read, large files or subvolumes (snapshot/policy), or not be kept because it equals the last one (cli/command_snapshot_create.go).
 */
const policy = [
  ...["--keep-latest=2147483647", "--ignore-cache-dirs=false", "--add-dot-ignore=."],
  ...["--ignore-file-errors=false", "--ignore-dir-errors=false", "--one-file-system=false"],
  ...[`--max-file-size=${maxInt64}`, "--ignore-identical-snapshots=false"],
] as const;

/**
 * Without it, a file has the content of the last snapshot of its folder if time, size, mode and owner are the same, although programs set times
 * (snapshot/upload/upload.go, metadataEquals); kopia knows neither its inode nor its ctime. What is in the repository is not sent again.
 */
const readEverything = "--force-hash=100";

/** By default a restored file silently keeps the owner and mode of its creation where the server does not let root set them. */
const asSaved = "--no-ignore-permission-errors";

const list = ["snapshot", "list", "--json", "--all"] as const;

const tagged = (tags: readonly string[]): readonly string[] => tags.flatMap(tag => ["--tags", tag]);

/** kopia(1), whose configuration is in a folder of this process. */
export const kopia = ({ token, env }: KopiaSettings): BackupTool => ({
  method: "kopia",
  commandWords: 2,
  changesAtOnce: Number.POSITIVE_INFINITY,
  joint: ":",
  // Tags of kopia have a name and a value.
  tag: text => (text.includes(":") ? text : `${text}:true`),
  // The token contains the credentials of the repository, so it is passed through stdin.
  ...(token !== undefined && {
    session: {
      words: ["repository", "connect", ...owner, listedAgain, "from-config", "--token-stdin"],
      stdin: token,
      env: folder => ({ ...placesIn(folder), ...env }),
    },
  }),
  list: tags => [...list, ...tagged(tags)],
  one: () => list,
  // LoadSnapshots of snapshot/manager.go.
  unread: /unable to parse snapshot manifest/i,
  row(fields) {
    const tags = mappingIn(fields["tags"]);
    const tag = (name: string) => textOf(tags[`tag:${name}`] ?? tags[name]) || undefined;
    const failed = mappingIn(mappingIn(fields["rootEntry"])["summ"])["numFailed"];
    return {
      path: textOf(mappingIn(fields["source"])["path"]),
      time: fields["startTime"],
      tag,
      instance: tag("csi_instance_id"),
      complete: textOf(fields["incomplete"]) === "" && (failed === undefined || failed === 0),
      within: "",
    };
  },
  policy: ["policy", "set", ...policy, "."],
  take: (source, tags) => ["snapshot", "create", "--json", readEverything, ...tagged(tags), source],
  taken(context, { exitCode, stdout }) {
    const [made] = exitCode === 0 ? backupsIn(context, this, `[${stdout}]`) : [];
    return made?.complete ? made.id : undefined;
  },
  restore: (id, folder) => ["snapshot", "restore", "--write-sparse-files", asSaved, id, folder],
  forget: id => ["snapshot", "delete", "--delete", id],
  forgetMs: 90_000,
  gone: /no snapshots matched|invalid content hash|not found/i,
});

const placesIn = (folder: string): Environment => ({
  KOPIA_CONFIG_PATH: join(folder, "repository.config"),
  KOPIA_CACHE_DIRECTORY: join(folder, "cache"),
  KOPIA_LOG_DIR: join(folder, "log"),
  KOPIA_CHECK_FOR_UPDATES: "false",
});

const mappingIn = (value: unknown): Mapping => (isMapping(value) ? value : {});
