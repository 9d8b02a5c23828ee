import type { Call } from "../../../core/call.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import { behind, type Programs } from "../cli/steps.ts";
import { awaitDevice } from "./device.ts";
import type { ExportedTarget, Note, TargetExporter } from "./exporter.ts";
import { type PlainStep, whileSame } from "./guard.ts";
import common from "./host/common.py" with { type: "text" };
import lio from "./host/lio.py" with { type: "text" };
import lioDump from "./host/lio_dump.py" with { type: "text" };
import lioParts from "./host/lio_parts.py" with { type: "text" };
import nvmet from "./host/nvmet.py" with { type: "text" };
import nvmetClosing from "./host/nvmet_closing.py" with { type: "text" };
import saved from "./host/saved.py" with { type: "text" };
import zvol from "./host/zvol.py" with { type: "text" };
import { answerOf, type HostAnswer, lackingOf, notGiven, refused } from "./host-answers.ts";
import { bearsTag, uuidOf } from "./names.ts";
import { noteSteps, refuseChanged, refuseUnnoted } from "./note.ts";

/** What every request says. */
interface HostSettings {
  /** Precedes python3: sudo, or nothing. Only root may read and change configfs. */
  readonly privileged: readonly string[];
  /** As Programs.zfs. */
  readonly zfs: Programs["zfs"];
  /** Where the kernel shows its targets. */
  readonly root: string;
  /** The lock under which they are changed. */
  readonly lock: string;
  /** Where the kernel shows its block devices, and udev keeps its record of each (a file b<major>:<minor>). */
  readonly blocks: string;
  readonly udev: string;
}

/** How the targets of LIO are made; host/lio.py reads it. */
export interface LioSettings extends HostSettings {
  readonly kind: "lio";
  /** Where rtslib saves, which differs between distributions. */
  readonly saved: readonly string[];
  /** Values of the target's portal group, of its login, and of its backstore, by their names in configfs. */
  readonly group: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly block: Readonly<Record<string, string>>;
}

/** How subsystems of the kernel's NVMe target are made; host/nvmet.py and host/nvmet_closing.py read it. */
export interface NvmetSettings extends HostSettings {
  readonly kind: "nvmet";
  /** Where nvmetcli saves. */
  readonly saved: string;
  /** A file that exists once the host has restored its configuration; undefined: nothing waits for that. */
  readonly marker: string | undefined;
  readonly attributes: Readonly<Record<string, string>>;
  /** Ports that were made beforehand. */
  readonly ports: readonly string[];
  /** Where Linux 6.11 and newer show the controllers of each subsystem. */
  readonly controllers: string;
  /** The TCP connections, by address family. */
  readonly connections: readonly string[];
  /** Where csimux keeps a note of each subsystem that it closes; empty after a start of the host. */
  readonly notes: string;
}

const programs = {
  lio: [common, zvol, saved, lioDump, lioParts, lio].join("\n\n"),
  nvmet: [common, zvol, saved, nvmetClosing, nvmet].join("\n\n"),
};

/**
 * Runs the program that is the first line of its input, as a string of JSON: neither the list of processes nor sudo's log shows it, nor
 * the secrets behind it. Without the folders of the account (-I) and of packages (-S), whose modules it does not need.
 */
const loader = "import json,sys;exec(json.loads(sys.stdin.readline()))";

type Verb = "make" | "remove" | "look" | "users";

/** How long a change waits for another one, in seconds. */
const patience = 30;

/** A run of the program on the host. `more`: the rest of the request. */
export function targetStep(verb: Verb, settings: LioSettings | NvmetSettings, more: object): PlainStep {
  const { privileged, zfs: _zfs, ...rest } = settings;
  const request = { ...rest, ...more, verb, seconds: patience };
  return {
    name: verb,
    argv: behind(privileged, "python3", "-I", "-S", "-c", loader),
    stdin: `${JSON.stringify(programs[settings.kind])}\n${JSON.stringify(request)}\n`,
    secret: settings.kind === "lio" ? Object.values(settings.auth) : [],
    onFailure: "go-on",
    maxBytes: 64 << 20,
    ...(["look", "users"].includes(verb) && { reads: true }),
  };
}

const described = ({ qualifiedName: name, backstore, dataset, device, guid, unnoted, isReceived }: ExportedTarget) => ({
  ...{ name, backstore, dataset, device, tagged: bearsTag(backstore, guid), received: isReceived === true },
  serial: guid === "" ? crypto.randomUUID() : uuidOf(guid),
  ...(unnoted && { unnoted: { name: unnoted.qualifiedName, backstore: unnoted.backstore } }),
});

/**
 * Makes targets of LIO or nvmet by a program that csimux sends to the host. It proves, changes the kernel's configfs, and changes this
 * volume's part of the saved configuration, all under one lock. The tools (targetcli, nvmetcli) are not needed, and understand it.
 */
export function hostTargets(host: StorageHost, settings: LioSettings | NvmetSettings): TargetExporter {
  async function run(step: Step, { signal }: Call, notes: readonly Step[] = []): Promise<HostAnswer> {
    const [first = step, ...rest] = [...notes, step];
    const outputs = await host.script({ steps: [first, ...rest] }, signal);
    refuseUnnoted(outputs);
    if (step.name === "make") refuseChanged(outputs, step.name);
    return answerOf(outputs, step.name);
  }

  /** Changes one after another: each that waited on the host would take the place of a command. */
  function change(verb: Verb, target: ExportedTarget, finished: boolean, call: Call, note?: Note): Promise<HostAnswer> {
    const step = targetStep(verb, settings, { target: described(target), finished });
    const proved = verb === "make" ? whileSame(settings, target, step) : step;
    return host.exclusive(settings.kind, call.signal, () => run(proved, call, noteSteps(settings, target, note)));
  }

  return {
    async make(target, finished, call, note) {
      let answer = await change("make", target, finished, call, note);
      if (answer.refused === "absent") {
        await awaitDevice(host, target, call);
        answer = await change("make", target, finished, call);
      }
      if (answer.refused !== undefined) throw refused(target, answer);
      if (answer.ignored.length > 0)
        call.log.warn("the kernel of the storage host did not take values of the connection file", {
          target: target.qualifiedName,
          values: answer.ignored.join("; ").slice(0, 300),
        });
    },
    async remove(target, call) {
      const answer = await change("remove", target, true, call);
      if (answer.refused !== undefined) throw refused(target, answer);
    },
    ...(settings.kind === "lio" && {
      async unused(target: ExportedTarget, call: Call) {
        const answer = await run(targetStep("users", settings, { target: described(target) }), call);
        if (answer.refused !== undefined) throw notGiven(target, answer);
      },
    }),
    async lacking(targets, call) {
      if (targets.length === 0) return new Map();
      return lackingOf(await run(targetStep("look", settings, { targets: targets.map(described) }), call));
    },
  };
}
