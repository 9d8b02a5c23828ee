import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Argv } from "../../lib/io/runner.ts";
import model from "./configfs.py" with { type: "text" };
import { listOf, textOf } from "./vanishing.ts";

/** The model of the kernel's configfs (configfs.py): how programs run in it, and how a person changes it. */

/** Puts a python3 into a folder of programs that runs in the model of a host. */
export function putPython(bin: string, folder: string): void {
  writeFileSync(join(bin, "configfs.py"), model);
  const path = join(bin, "python3");
  writeFileSync(path, `#!/bin/sh\nexec /usr/bin/python3 -I -S '${bin}/configfs.py' '${folder}' "$@"\n`);
  chmodSync(path, 0o755);
}

/** What a program of the model has printed, and its exit code. */
interface ModelOutput {
  readonly out: string;
  readonly err: string;
  readonly code: number;
}

/** The process that runs the programs of this one (configfs.py, serve). It ends with its input. */
function startServer() {
  const waiting = new Map<number, (output: ModelOutput) => void>();
  const server = spawn("/usr/bin/python3", ["-I", "-S", "-c", model, "--serve"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  server.unref();
  createInterface({ input: server.stdout }).on("line", line => {
    const { id, ...output } = JSON.parse(line) as ModelOutput & { readonly id: number };
    waiting.get(id)?.(output);
    waiting.delete(id);
  });
  let last = 0;
  return (request: object) =>
    new Promise<ModelOutput>(resolve => {
      waiting.set(++last, resolve);
      server.stdin.write(`${JSON.stringify({ ...request, id: last })}\n`);
    });
}

let server: ReturnType<typeof startServer> | undefined;

/** Runs python3 with these words in the model of a host, as `putPython`'s does, without the start of a process. `path`: the PATH. */
export function pythonIn(folder: string, path: string, words: readonly string[], stdin: string): Promise<ModelOutput> {
  server ??= startServer();
  return server({ folder, path, words, stdin });
}

/** A change: a word of Python's `os`, or "write" with the new value. Paths begin with lio/ or nvmet/. */
export type Change =
  | readonly ["mkdir" | "rmdir" | "unlink", path: string]
  | readonly ["write" | "symlink", path: string, value: string];

const program = `import json,os,sys
for verb, *words in json.loads(sys.argv[1]):
    if verb == "write":
        file = os.open(words[0], os.O_WRONLY)
        os.write(file, words[1].encode())
        os.close(file)
    elif verb == "symlink": os.symlink(words[1], words[0])
    else: getattr(os, verb)(words[0])
`;

/** What the kernel answers to changes: "ok", or the error of the first that it refuses. `python`: what runs a program; `at`: the whole path. */
function answerTo(python: Argv, changes: readonly Change[], at: (path: string) => string): string {
  const absolute = changes.map(([verb, path, value]) => [
    ...[verb, at(path)],
    ...(value === undefined ? [] : [verb === "symlink" ? at(value) : value]),
  ]);
  const [first, ...rest] = [...python, "-c", program, JSON.stringify(absolute)];
  const { status, stderr } = spawnSync(first ?? "", rest, { encoding: "utf8" });
  return status === 0 ? "ok" : (stderr.trim().split("\n").at(-1) ?? "");
}

/** What the model answers to changes that follow each other. */
function modelAnswer(folder: string, changes: readonly Change[]): string {
  mkdirSync(join(folder, "lio/core"), { recursive: true });
  return answerTo(["/usr/bin/python3", "-I", "-S", "-c", model, folder], changes, path => join(folder, path));
}

/** The kernel of the model, and of this machine, as a case asks them. */
export const modelKernel =
  (folder: string) =>
  (change: Change): string =>
    modelAnswer(folder, [change]);
export const realKernel = (change: Change): string =>
  answerTo(["/usr/bin/python3", "-I", "-S"], [change], path =>
    path.replace(/^lio\//, "/sys/kernel/config/target/").replace(/^nvmet\//, "/sys/kernel/config/nvmet/"),
  );

/** Changes that a person makes on the host of the model, one after another. Throws what the kernel says. */
export function changed(folder: string, changes: readonly Change[]): void {
  const answer = modelAnswer(folder, changes);
  if (answer !== "ok") throw new Error(answer);
}

/** A number that no backstore of the host has. */
export const freeNumber = (folder: string): number => 900 + listOf(join(folder, "lio/core")).length;

/** A backstore as a person makes it; `hba`: its number. */
export const backstoreChanges = (hba: number, name: string, device: string): readonly Change[] => [
  ["mkdir", `lio/core/iblock_${hba}`],
  ["mkdir", `lio/core/iblock_${hba}/${name}`],
  ["write", `lio/core/iblock_${hba}/${name}/udev_path`, device],
  ["write", `lio/core/iblock_${hba}/${name}/control`, `udev_path=${device}`],
  ["write", `lio/core/iblock_${hba}/${name}/enable`, "1"],
  ["write", `lio/core/iblock_${hba}/${name}/wwn/vpd_unit_serial`, `serial-of-${name}`],
];

/** A target on a backstore, as targetcli makes it (targetcli-fb 2.1.53, ui_target.py). */
export function targetChanges(folder: string, hba: number, name: string, iqn: string): readonly Change[] {
  const group = `lio/iscsi/${iqn}/tpgt_1`;
  return [
    ...(existsSync(join(folder, "lio/iscsi")) ? [] : [["mkdir", "lio/iscsi"] as const]),
    ["mkdir", `lio/iscsi/${iqn}`],
    ["mkdir", group],
    ["write", `${group}/enable`, "1"],
    ["write", `${group}/attrib/authentication`, "0"],
    ["mkdir", `${group}/np/0.0.0.0:3260`],
    ["mkdir", `${group}/lun/lun_0`],
    ["symlink", `${group}/lun/lun_0/0123456789`, `lio/core/iblock_${hba}/${name}`],
  ];
}

/** A subsystem with a namespace on port 1, as nvmetcli makes it. */
export const subsystemChanges = (nqn: string, device: string): readonly Change[] => [
  ["mkdir", `nvmet/subsystems/${nqn}`],
  ["mkdir", `nvmet/subsystems/${nqn}/namespaces/1`],
  ["write", `nvmet/subsystems/${nqn}/namespaces/1/device_path`, device],
  ["write", `nvmet/subsystems/${nqn}/namespaces/1/enable`, "1"],
  ["symlink", `nvmet/ports/1/subsystems/${nqn}`, `nvmet/subsystems/${nqn}`],
];

/** What `targetcli saveconfig` keeps of the kernel's targets, as far as a model needs it (rtslib-fb 2.1.75, root.py, save_to_file). */
export function savedByTargetcli(folder: string): void {
  const core = join(folder, "lio/core");
  const iscsi = join(folder, "lio/iscsi");
  const text = (path: string): string => textOf(path).trim();
  const storage_objects = listOf(core).flatMap(hba =>
    listOf(join(core, hba))
      .filter(name => existsSync(join(core, hba, name, "udev_path")))
      .map(name => ({
        dev: text(join(core, hba, name, "udev_path")),
        name,
        plugin: "block",
        wwn: text(join(core, hba, name, "wwn/vpd_unit_serial")).split(": ")[1],
      })),
  );
  const targets = listOf(iscsi)
    .filter(iqn => existsSync(join(iscsi, iqn, "tpgt_1")))
    .map(iqn => {
      const luns = listOf(join(iscsi, iqn, "tpgt_1/lun")).map(lun => ({
        index: Number(lun.replace("lun_", "")),
        storage_object: `/backstores/block/${iqn.split(":").slice(1).join(":")}`,
      }));
      return { fabric: "iscsi", tpgs: [{ luns, tag: 1 }], wwn: iqn };
    });
  const whole = { fabric_modules: [], storage_objects, targets };
  writeFileSync(join(folder, "lio-saveconfig.json"), `${JSON.stringify(whole, null, 2)}\n`);
}
