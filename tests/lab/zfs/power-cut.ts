import { setTimeout as pause } from "node:timers/promises";
import { guestShell, inGuest } from "../beside.ts";
import { waitFor } from "../run.ts";

// The guest loses its power in the middle of a program that changes targets: a python3 in front of the real one counts its changes.

/** On the disk, and thus still there after the power was cut; the request to cut is not. */
const program = "/usr/local/bin/python3";
const request = "/run/csimux-cut";

/** Counts what changes configfs or the saved file: folders, links, values, and the rename that ends a change of the file. */
const counting = `#!/usr/bin/python3 -IS
import io, json, os, sys, time

loader = ["-I", "-S", "-c"]
try:
    with open("${request}") as file:
        kind, verb, count = file.read().split()
except OSError:
    os.execv("/usr/bin/python3", ["python3", *sys.argv[1:]])
if sys.argv[1:] and sys.argv[1:4] != loader:
    os.execv("/usr/bin/python3", ["python3", *sys.argv[1:]])
program = json.loads(sys.stdin.readline())
rest = sys.stdin.read()
sys.stdin = io.StringIO(rest)
left = [int(count)]
isMeant = ("class %s:" % kind) in program and json.loads(rest)["verb"] == verb


def cut():
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("b")
    time.sleep(600)


def counted(change):
    def step(*words, **more):
        if isMeant and left[0] == 0:
            cut()
        left[0] -= 1
        return change(*words, **more)

    return step


for name in ("mkdir", "rmdir", "symlink", "unlink", "rename", "write"):
    setattr(os, name, counted(getattr(os, name)))
exec(program)
`;

/** Puts the counting python3 into the guest, durably. */
export async function installCounting(): Promise<void> {
  await guestShell('printf %s "$1" >"$2" && chmod 755 "$2" && sync', counting, program);
}

/** Removes it. */
export const removeCounting = (): Promise<string> => guestShell('rm -f "$1" "$2"; sync', program, request);

/** A moment in the work of a program of csimux on the host: before a number of changes. */
export interface Moment {
  /** The class of the program: lio.py or nvmet.py. */
  readonly kind: "Lio" | "Nvmet";
  readonly verb: "make" | "remove";
  readonly changes: number;
}

/** Has the power cut at that moment of the next such program. */
export const cutAt = ({ kind, verb, changes }: Moment): Promise<string> =>
  guestShell('echo "$1" >"$2"', `${kind} ${verb} ${changes}`, request);

/** The name of the guest's current boot. */
export const bootId = (): Promise<string> => inGuest(["cat", "/proc/sys/kernel/random/boot_id"], 15_000);

/** Cuts the power now. */
export const cutNow = (): Promise<unknown> =>
  inGuest(["sh", "-c", "echo b >/proc/sysrq-trigger"], 60_000).catch(() => {});

/** Resolves when the guest has started again after the boot `last`, with its services. */
export async function started(last: string, timeoutMs = 900_000): Promise<void> {
  await waitFor(
    "the guest after its reboot",
    async () => {
      const now = await bootId().catch(() => last);
      if (now === last) await pause(1000);
      return now === last ? undefined : true;
    },
    timeoutMs,
  );
  await guestShell("systemctl is-system-running --wait || :");
}
