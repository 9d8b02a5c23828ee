import { quoted, type Step } from "../../../io/script.ts";
import { type CreationResult, type NewDataset, type PropertyQuery, untrue } from "../zfs.ts";
import { outputOf, readEntries, refusal } from "./answers.ts";
import { datasetLock, hasLock, lockText } from "./lock.ts";
import {
  mountProperties,
  mountpointText,
  options,
  type Programs,
  permissionCalls,
  readStep,
  unique,
  type ZfsCalls,
} from "./steps.ts";

// A file system that is made and finished in one script, under one lock: nothing has to be compared in between.

type Finishing = NonNullable<NewDataset["finished"]>;

/** The exit code of a step that has made the file system, and failed afterwards. */
const failedLater = 3;

/**
 * $1 to $4 are command lines: they make a file system, read it, set its owner and mode (or nothing), and finish it, where $place is its
 * mount point; $5 is its name. Prints "finished" or an empty line, and what was read. It is not finished, so that its caller has to do that,
 * where the host has no lock, where it is not mounted, and where JSON cannot have its path as it is (RFC 8259, 7).
 */
const wholeText = `make=$1 read=$2 permit=$3 finish=$4 name=$5 finished=
eval "$make" || exit
eval "rows=\\$($read)" || exit ${failedLater}
rows="
$rows"
${mountpointText}
[ -z "$permit" ] || { mountpoint && eval "$permit"; } || exit ${failedLater}
if ${hasLock} && mountpoint 2>/dev/null; then
  case $place in
    *[\\\\\\"[:cntrl:]]*) ;;
    *) eval "$finish" || exit ${failedLater}; finished=finished;;
  esac
fi
printf '%s%s\\n' "$finished" "$rows"`;

/** What stands for the mount point in values; no value has it otherwise. */
const placeholder = "/\uffff";

/** Words for a shell, in which the placeholder becomes its variable. */
const lineOf = (words: readonly string[]): string =>
  words.map(word => word.split(placeholder).map(quoted).join('"$place"')).join(" ");

/** Makes a file system and reads it, and finishes it where it can; under its lock. */
function wholeStep(
  programs: Programs,
  { name, values, permissions }: NewDataset,
  finished: Finishing,
  read: Step,
): Step {
  const { zfs } = programs;
  const lines = [
    lineOf([...zfs, "create", ...options(values), name]),
    lineOf(read.argv.map(String)),
    permissions
      ? permissionCalls(programs, permissions)
          .map(call => `${lineOf(call)} "$place"`)
          .join(" && ")
      : "",
    lineOf([...zfs, "set", ...Object.entries(finished(placeholder)).map(([key, value]) => `${key}=${value}`), name]),
  ];
  const argv = ["sh", "-c", lockText + wholeText, "sh", datasetLock(name), ...lines, name] as const;
  // Its first line is not a row, so its lines are not checked as they come.
  return { name: "make", argv, onFailure: "go-on" };
}

/** As Zfs.create, for a file system with values that finish it. */
export async function makeWhole(
  { programs, run }: Pick<ZfsCalls, "programs" | "run">,
  before: readonly Step[],
  dataset: NewDataset,
  finished: Finishing,
  asked: PropertyQuery,
): Promise<CreationResult> {
  // What is above one that was made exists.
  const query = { names: [dataset.name], properties: unique([...asked.properties, ...mountProperties]) };
  const step = wholeStep(programs, dataset, finished, readStep(programs, query));
  const outputs = await run([...before, step, { ...readStep(programs, asked), unless: "make" }]);
  const make = outputOf(outputs, "make");
  if (make.exitCode === 0) {
    const end = make.stdout.indexOf("\n");
    const answer = { ...make, stdout: make.stdout.slice(end + 1) };
    const entries = readEntries(new Map([["read", answer]]), query);
    return { made: true, finished: make.stdout.slice(0, end) === "finished", entries };
  }
  const refused = refusal(make);
  if (make.exitCode === failedLater && refused.failure === "absent") throw untrue(`made ${dataset.name}`);
  if (make.exitCode === failedLater || refused.failure !== "exists") throw refused;
  return { made: false, entries: readEntries(outputs, asked) };
}
