import { readFile } from "node:fs/promises";
import { protocols } from "../../lib/core/access.ts";
import { modules } from "../../lib/drivers/index.ts";
import { root } from "../spawned.ts";
import { below } from "./below.ts";

/** Examples of rules are whole connection files; the index names the folders. */
const exempt = /^lib\/(?:lint\/rules\/|drivers\/index\.ts$)/;

const sources = (folder: string): readonly string[] =>
  below(`${root}/${folder}`, "files only")
    .filter(name => name.endsWith(".ts"))
    .map(name => `${folder}/${name}`);

/**
 * Lines in lib/ and cmd/ that name a driver outside its folder. A protocol of the same name is not a driver. One line each, with the
 * remedy.
 */
export async function checkDriverNames(): Promise<readonly string[]> {
  const names = modules.flatMap(module => module.names).filter(name => !(name in protocols));
  const word = new RegExp(`(?<![\\w-])(?:${names.join("|")})(?![\\w-])`);
  const files = [...(await sources("lib")), ...(await sources("cmd"))].filter(
    file => !/^lib\/drivers\/[^/]+\//.test(file) && !exempt.test(file),
  );
  const found = await Promise.all(
    files.map(async file => {
      const lines = (await readFile(`${root}/${file}`, "utf8")).split("\n");
      return lines.flatMap((line, index) =>
        word.test(line)
          ? [`${file}:${index + 1}: ${line.trim()}: use a fact of the module (lib/drivers/facts.ts), not the name`]
          : [],
      );
    }),
  );
  return found.flat();
}
