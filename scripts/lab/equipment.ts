import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { exists } from "../exists.ts";
import { root, spawned, tool } from "../spawned.ts";
import { type Piece, put } from "./put.ts";
import type { Ssh } from "./ssh.ts";

/** Where tests and what they need lie in a guest. */
export const guestHome = "/opt/csimux";

/** A file of tests of the lab. */
export interface LabTest {
  /** What it is asked for by: the file's name without its ending. */
  readonly name: string;
  readonly source: string;
  /** It needs a second guest, as its name says: `<name>.pair.lab.ts`. */
  readonly pair: boolean;
  /** It runs on this machine, beside the guest: `<name>.beside.lab.ts`. */
  readonly beside: boolean;
}

/** All tests of the lab. */
export async function labTests(): Promise<readonly LabTest[]> {
  const folder = join(root, "tests/lab");
  const files = (await readdir(folder)).filter(file => file.endsWith(".lab.ts")).sort();
  return files.map(file => {
    const name = file.replace(/(\.pair|\.beside)?\.lab\.ts$/, "");
    const [pair, beside] = ["pair", "beside"].map(kind => file.endsWith(`.${kind}.lab.ts`));
    return { name, source: join(folder, file), pair: pair === true, beside: beside === true };
  });
}

const stampOf = async ({ from }: Piece): Promise<string> => {
  const { size, mtimeMs } = await stat(from);
  return `${from} ${size} ${mtimeMs}`;
};

/** Copies a file to the guest's folder unless it is there already, as a stamp beside it says. */
async function putOnce(ssh: Ssh, piece: Required<Piece>): Promise<void> {
  const stamp = await stampOf(piece);
  const file = `${guestHome}/.stamp-${piece.name}`;
  if ((await ssh.run(["cat", file])).stdout === stamp) return;
  await put(ssh, piece, guestHome);
  await ssh.run(["sh", "-c", 'printf %s "$2" >"$1"', "stamp", file, stamp]);
}

/** Brings the executable, the runtime of the tests and, where it could be built, csi-sanity into a guest. */
export async function equip(ssh: Ssh, executable: string, sanity: string | undefined): Promise<void> {
  await putOnce(ssh, { from: executable, name: "csimux" });
  // node_modules/.bin/bun is a link, and the stamp must follow the file.
  await putOnce(ssh, { from: join(root, "node_modules/bun/bin/bun.exe"), name: "bun" });
  if (sanity !== undefined) await putOnce(ssh, { from: sanity, name: "csi-sanity" });
}

async function bundled(source: string, bundle: string): Promise<void> {
  const argv = ["build", source, "--target=bun", "--sourcemap=inline", `--outfile=${bundle}`] as const;
  const built = await spawned([tool("bun"), ...argv]);
  if (built.code !== 0 || !(await exists(bundle))) throw new Error(`bundling ${source} failed:\n${built.stderr}`);
}

/**
 * Bundles a test with all that it imports into one file and copies it to the guest; answers its path there. One file is read
 * in a second where the processor is made in software; the sources and packages one by one take several.
 */
export async function putTest(ssh: Ssh, { name, source }: LabTest, work: string): Promise<string> {
  const bundle = join(work, `${name}.test.js`);
  await bundled(source, bundle);
  await put(ssh, { from: bundle }, `${guestHome}/tests`);
  return `${guestHome}/tests/${basename(bundle)}`;
}

/** Copies to a guest the program that lists what volumes have left there. */
export async function putTraces(ssh: Ssh, work: string): Promise<void> {
  const bundle = join(work, "traces.js");
  await bundled(join(root, "tests/lab/list-traces.ts"), bundle);
  await put(ssh, { from: bundle }, guestHome);
}
