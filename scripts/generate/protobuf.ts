import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { below } from "../check/below.ts";
import { root, spawned, tool } from "../spawned.ts";
import type { Generated } from "./generated.ts";

const folder = "lib/csi/gen";

/** lib/csi/gen, from proto/ with buf and protoc-gen-es of node_modules; needs no network. */
export async function protobufCode(): Promise<Generated> {
  const output = await mkdtemp(join(tmpdir(), "csimux-generate-"));
  try {
    const argv = [tool("buf"), "generate", "proto", "--template", "proto/buf.gen.yaml", "--output", output] as const;
    const env = { PATH: `${root}/node_modules/.bin${delimiter}${process.env["PATH"] ?? ""}` };
    const { code, stdout, stderr } = await spawned(argv, { env, timeoutMs: 60_000 });
    if (code !== 0) throw new Error(`buf failed: ${`${stdout}${stderr}`.trim()}`);
    const made = join(output, "gen");
    const names = below(made).filter(name => name.endsWith(".ts"));
    const texts = names.map(async name => [`${folder}/${name}`, await readFile(join(made, name), "utf8")] as const);
    return { files: new Map(await Promise.all(texts)), folder };
  } finally {
    await rm(output, { recursive: true, force: true });
  }
}
