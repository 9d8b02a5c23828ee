import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { below } from "../check/below.ts";
import { root, spawned, tool } from "../spawned.ts";
import { type Piece, put } from "./put.ts";
import type { Ssh } from "./ssh.ts";

/** The folder of the tests and their programs in a guest. */
export const guestHome = "/opt/csimux";

/** A test file of the lab. */
export interface LabTest {
  /** The file name without its suffix. */
  readonly name: string;
  readonly source: string;
  /** Whether it needs a second guest: `<name>.pair.lab.ts`. */
  readonly pair: boolean;
  /** Whether it runs on this machine, next to the guest: `<name>.beside.lab.ts`. */
  readonly beside: boolean;
}

/** All tests of the lab. */
export function labTests(): readonly LabTest[] {
  const folder = join(root, "tests/lab");
  return below(folder, "files only")
    .filter(file => file.endsWith(".lab.ts"))
    .map(file => {
      const name = basename(file).replace(/(\.pair|\.beside)?\.lab\.ts$/, "");
      const [pair, beside] = ["pair", "beside"].map(kind => file.endsWith(`.${kind}.lab.ts`));
      return { name, source: join(folder, file), pair: pair === true, beside: beside === true };
    });
}

const stampOf = async ({ from }: Piece): Promise<string> => {
  const { size, mtimeMs } = await stat(from);
  return `${from} ${size} ${mtimeMs}`;
};

/** Copies a file to the guest's folder unless its stamp there is current. */
async function putOnce(ssh: Ssh, piece: Required<Piece>): Promise<void> {
  const stamp = await stampOf(piece);
  const file = `${guestHome}/.stamp-${piece.name}`;
  if ((await ssh.run(["cat", file])).stdout === stamp) return;
  await put(ssh, piece, guestHome);
  await ssh.run(["sh", "-c", 'printf %s "$2" >"$1"', "stamp", file, stamp]);
}

/** Copies the executable, bun and, if it could be built, csi-sanity to a guest. */
export async function equip(ssh: Ssh, executable: string, sanity: string | undefined): Promise<void> {
  await putOnce(ssh, { from: executable, name: "csimux" });
  // node_modules/.bin/bun is a symbolic link; the stamp must be the file's.
  await putOnce(ssh, { from: join(root, "node_modules/bun/bin/bun.exe"), name: "bun" });
  if (sanity !== undefined) await putOnce(ssh, { from: sanity, name: "csi-sanity" });
}

async function bundled(source: string, bundle: string): Promise<void> {
  const argv = ["build", source, "--target=bun", "--sourcemap=inline", `--outfile=${bundle}`] as const;
  const built = await spawned([tool("bun"), ...argv]);
  if (built.code !== 0 || !existsSync(bundle)) throw new Error(`bundling ${source} failed:\n${built.stderr}`);
}

/**
 * Bundles a test and its imports into one file and copies it to the guest; returns its path there. On an emulated processor, one
 * file loads in a second; separate sources and packages take several.
 */
export async function putTest(ssh: Ssh, { name, source }: LabTest, work: string): Promise<string> {
  const bundle = join(work, `${name}.test.js`);
  await bundled(source, bundle);
  await put(ssh, { from: bundle }, `${guestHome}/tests`);
  return `${guestHome}/tests/${basename(bundle)}`;
}

/** Copies the program that lists the traces of volumes to a guest. */
export async function putTraces(ssh: Ssh, work: string): Promise<void> {
  const bundle = join(work, "traces.js");
  await bundled(join(root, "tests/lab/list-traces.ts"), bundle);
  await put(ssh, { from: bundle }, guestHome);
}
