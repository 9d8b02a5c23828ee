import { describe, expect, test } from "bun:test";
import { open, rm, stat, writeFile } from "node:fs/promises";
import { type CopyRecord, readRecord, writeRecord } from "../../../../lib/copies/record.ts";
import { localFiles } from "../../../../lib/io/files.ts";
import { callWith } from "../../../contract/rig.ts";
import { asked, copyProcess } from "../../../copy/copy-world.ts";
import { commanded } from "../../../copy/pair.ts";
import { codeOf } from "../../../mux/world.ts";
import { isHostRoot } from "../../../root.ts";
import { systemRunner, temporaryFolder } from "../directory-rig.ts";
import { abilities, connections, needed } from "./rig.ts";

const call = callWith();
const pass = { command: "pass", target: "v:b/moved" } as const;

/** A move by files, of which a process of this name has copied a part when it was killed, or suspended. */
async function interrupted(holder: string) {
  const base = await temporaryFolder();
  const { from, to, origin } = await connections(base);
  const drivers = new Map([
    ["a", () => from],
    ["b", () => to],
  ]);
  // A busy machine does not keep the limits of `quick` while it starts programs.
  const times = { heartbeat: 30_000, leaseTimeout: 60_000, takeoverAfter: 60 };
  const process = (lockedId?: string) => copyProcess({ drivers, times, ...(lockedId && { lockedId }) });
  const { copyTarget } = abilities(to);
  const record = async () => readRecord((await copyTarget.find("moved", call))?.record ?? "", "test");
  const change = async (what: Partial<CopyRecord>) =>
    copyTarget.note("moved", writeRecord({ ...(await record()), ...what }), call);
  const folder = () => needed(copyTarget.folder)("moved", call);
  await writeFile(`${origin}/file`, "content");
  const first = process();
  const wanted = { source: "v:a/origin", name: "moved", bytes: 1n << 30n, parameters: { connection: "b" } };
  await commanded(first, { command: "begin", ...wanted, capabilities: [], mutable: {} });
  await first.stop(1_000);
  await writeFile(`${await folder()}/part`, "of an earlier attempt");
  await change({ holder, heartbeat: 5, dirty: true });
  const target = async () => (await stat(await folder())).ino;
  return { process, record, folder, target, end: () => rm(base, { recursive: true, force: true }) };
}

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy by files whose holder has not given it up", () => {
  test("starts in another folder, also if the process that found that gave it up first, because the holder may write again", async () => {
    const { process, record, folder, target, end } = await interrupted("suspended");
    const before = await target();
    // A removed folder's inode number is used again, unless something has it open.
    await using _opened = await open(await folder());
    const one = process();
    expect(await codeOf(commanded(one, { command: "freeze", volume: "v:a/origin" }))).toBe("aborted");
    await asked(() => commanded(one, { command: "freeze", volume: "v:a/origin" }));
    await one.stop(1_000);
    expect(await record()).toMatchObject({ holder: "", unfenced: true });
    const two = process();
    await commanded(two, pass);
    expect(await target()).not.toBe(before);
    expect(await Bun.file(`${await folder()}/file`).text()).toBe("content");
    expect(await record()).toMatchObject({ holder: "", state: "ready" });
    expect((await record()).unfenced).toBeUndefined();
    await two.stop(1_000);
    await end();
  });

  test("continues in the same one if the holder is proved to have ended", async () => {
    const { process, record, folder, target, end } = await interrupted("id.earlier");
    const before = await target();
    const next = process("id");
    await commanded(next, pass);
    expect(await target()).toBe(before);
    expect(await Bun.file(`${await folder()}/file`).text()).toBe("content");
    expect(await Bun.file(`${await folder()}/part`).exists()).toBe(false);
    expect((await record()).unfenced).toBeUndefined();
    await next.stop(1_000);
    await end();
  });

  test("is said to be ready only after its files are on stable storage", async () => {
    const base = await temporaryFolder();
    const steps: string[] = [];
    const { b, from, to, origin } = await connections(base, {
      runner: {
        ...systemRunner,
        run: async (command, signal) => {
          const output = await systemRunner.run(command, signal);
          if (command.argv[0] === "sync" && command.argv[1] === "-f") steps.push(command.argv.join(" "));
          return output;
        },
      },
      files: {
        ...localFiles,
        writeText: async (path, text, how) => {
          if (text.includes('state\\":\\"ready')) steps.push("ready");
          await localFiles.writeText(path, text, how);
        },
      },
    });
    await writeFile(`${origin}/file`, "content");
    const drivers = new Map([
      ["a", () => from],
      ["b", () => to],
    ]);
    const one = copyProcess({ drivers, times: { heartbeat: 30_000, leaseTimeout: 60_000 } });
    const wanted = { source: "v:a/origin", name: "moved", bytes: 1n << 30n, parameters: { connection: "b" } };
    await commanded(one, { command: "begin", ...wanted, capabilities: [], mutable: {} });
    await commanded(one, pass);
    expect(steps).toEqual([`sync -f -- ${b}/.csimux/work/c~moved`, "ready"]);
    await one.stop(1_000);
    await rm(base, { recursive: true, force: true });
  });
});
