import { accessSync } from "node:fs";
import { type Files, filesOn, localFiles } from "../../../lib/io/files.ts";

/** Runs each verb that promises stable storage, below the folder of the first argument; a trace of this process shows what it asked for. */

const base = process.argv[2] ?? "";

/** A system call that marks the answer in the trace; nothing is there. */
function answered(what: string): void {
  try {
    accessSync(`${base}/answered ${what}`);
  } catch {}
}

const all: Readonly<Record<string, Files>> = { localFiles, sharedFiles: filesOn("nas") };
for (const [name, files] of Object.entries(all)) {
  for (const how of ["create", "replace", "append"] as const) {
    await files.writeText(`${base}/${name}`, how, how);
    answered(`${how} ${name}`);
  }
  await files.sync(base);
  answered(`sync ${name}`);
}
