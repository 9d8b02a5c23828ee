import { expect, test } from "bun:test";
import { rm, utimes, writeFile } from "node:fs/promises";
import { copyProcess } from "../../../copy/copy-world.ts";
import { commanded } from "../../../copy/pair.ts";
import { isHostRoot } from "../../../root.ts";
import { temporaryFolder } from "../directory-rig.ts";
import { abilities, connections } from "./rig.ts";

test.skipIf(!isHostRoot || !Bun.which("rsync"))(
  "a later round of a move by files copies a change that neither size nor time shows",
  async () => {
    const base = await temporaryFolder();
    const { b, from, to, origin } = await connections(base);
    expect(abilities(from).giving.content).toBe("files");
    const one = copyProcess({
      drivers: new Map([
        ["a", () => from],
        ["b", () => to],
      ]),
    });
    const write = async (text: string) => {
      await writeFile(`${origin}/db`, text);
      await utimes(`${origin}/db`, 1e9, 1e9);
    };
    await write("first");
    const bytes = 1n << 30n;
    await commanded(one, {
      command: "begin",
      source: "v:a/origin",
      name: "moved",
      bytes,
      parameters: { connection: "b" },
      capabilities: [],
      mutable: {},
    });
    for (const text of ["first", "later", "third"]) {
      await write(text);
      await commanded(one, { command: "round", target: "v:b/moved" });
    }
    await commanded(one, { command: "land", target: "v:b/moved" });
    expect(await Bun.file(`${b}/v/moved/db`).text()).toBe("third");
    await one.stop(1_000);
    await rm(base, { recursive: true, force: true });
  },
);
