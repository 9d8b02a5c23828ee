import { describe, expect, test } from "bun:test";
import { link, mkdir, mkdtemp, rename, rm, utimes, writeFile } from "node:fs/promises";
import type { CopyTimes } from "../../../../lib/copies/lease.ts";
import type { CopySource } from "../../../../lib/drivers/copying.ts";
import { callWith } from "../../../contract/rig.ts";
import { copyProcess } from "../../../copy/copy-world.ts";
import { commanded } from "../../../copy/pair.ts";
import { isHostRoot } from "../../../root.ts";
import { temporaryFolder } from "../directory-rig.ts";
import { abilities, connections, needed } from "./rig.ts";

test.skipIf(!isHostRoot || !Bun.which("rsync"))(
  "a later pass of a move by files copies a change that neither size nor time shows",
  async () => {
    const base = await temporaryFolder();
    const { b, from, to, origin } = await connections(base);
    expect(abilities(from).copySource.content).toBe("files");
    const one = copyProcess({
      times: patient,
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
      await commanded(one, { command: "pass", target: "v:b/moved" });
    }
    await commanded(one, { command: "finish", target: "v:b/moved" });
    expect(await Bun.file(`${b}/v/moved/db`).text()).toBe("third");
    await one.stop(1_000);
    await rm(base, { recursive: true, force: true });
  },
);

const old = 1e9;

/** Other limits than those of `quick`, which a busy machine does not keep while it starts programs. */
const patient: Partial<CopyTimes> = { leaseTimeout: 60_000, takeoverAfter: 90_000 };

/** Begins a move by files between two connections, of which each test makes passes. */
async function moving(times: Partial<CopyTimes>) {
  // On a disk: of a file system in memory, csimux does not believe the ctime (lib/copies/rsync/unchanged-files.ts).
  const base = await mkdtemp("/var/tmp/csimux-later-passes-");
  const { b, from, to, origin } = await connections(base);
  const { copySource } = abilities(from);
  let listed = async () => {};
  let read = async () => {};
  let synced = async () => {};
  const tree: CopySource["tree"] = async (snapshot, call, copy, isStopped) => {
    const copied = await needed(copySource.tree)(
      snapshot,
      call,
      each =>
        copy({
          ...each,
          runner: {
            ...each.runner,
            run: async (command, signal) => {
              const output = await each.runner.run(command, signal);
              if (command.argv.includes("find")) await listed();
              if (command.argv.includes("--exclude-from=-")) await synced();
              return output;
            },
          },
        }),
      isStopped,
    );
    await read();
    return copied;
  };
  const drivers = new Map([
    ["a", () => ({ ...from, copySource: { ...copySource, tree } })],
    ["b", () => to],
  ]);
  const one = copyProcess({ drivers, times: { ...patient, ...times } });
  const wanted = { source: "v:a/origin", name: "moved", bytes: 1n << 30n, parameters: { connection: "b" } };
  return {
    ...{ origin, drivers },
    /** Runs after the files have been listed, after the last rsync of a pass that compares them, and after they have been read, from now on. */
    during: (change: Readonly<Partial<Record<"listed" | "synced" | "read", () => Promise<void>>>>) => {
      const nothing = async () => {};
      [listed, synced, read] = [change.listed ?? nothing, change.synced ?? nothing, change.read ?? nothing];
    },
    freeze: () => commanded(one, { command: "freeze", volume: "v:a/origin" }),
    begin: () => commanded(one, { command: "begin", ...wanted, capabilities: [], mutable: {} }),
    pass: (by = one) => commanded(by, { command: "pass", target: "v:b/moved" }),
    /** The unfinished volume. */
    copied: async (path: string) => {
      const at = await to.copyTarget?.folder?.("moved", callWith());
      return `${at}/${path}`;
    },
    landed: async () => {
      await commanded(one, { command: "finish", target: "v:b/moved" });
      return (path: string) => Bun.file(`${b}/v/moved/${path}`).text();
    },
    end: async () => {
      await one.stop(1_000);
      await rm(base, { recursive: true, force: true });
    },
  };
}

/** Writes a file whose size and mtime say nothing. */
async function put(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await utimes(path, old, old);
}

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a later pass of a move by files", () => {
  test("does not read the content of files whose ctime is that of the pass before", async () => {
    const move = await moving({ unchanged: 0 });
    await put(`${move.origin}/big`, "content");
    await move.begin();
    await move.pass();
    // Something that only a comparison of content would notice, and correct.
    await put(await move.copied("big"), "CONTENT");
    await move.pass();
    expect(await Bun.file(await move.copied("big")).text()).toBe("CONTENT");
    // A process that knows nothing of the pass before compares everything.
    const other = copyProcess({ drivers: move.drivers, times: { ...patient, unchanged: 0 } });
    await move.pass(other);
    expect(await Bun.file(await move.copied("big")).text()).toBe("content");
    // So does this one, which did not make that pass.
    await put(await move.copied("big"), "CONTENT");
    await move.pass();
    expect(await Bun.file(await move.copied("big")).text()).toBe("content");
    await other.stop(1_000);
    await move.end();
  });

  test("reads the content of files that changed less than ten minutes before the pass before", async () => {
    const move = await moving({});
    await put(`${move.origin}/big`, "content");
    await move.begin();
    await move.pass();
    await put(await move.copied("big"), "CONTENT");
    await move.pass();
    expect(await Bun.file(await move.copied("big")).text()).toBe("content");
    await move.end();
  });

  test("copies what was changed without another size or mtime: written, moved over, linked, below a folder that was replaced", async () => {
    const move = await moving({ unchanged: 0 });
    const { origin } = move;
    await mkdir(`${origin}/folder`);
    await mkdir(`${origin}/other`);
    const names = ["#written", "; moved", "linked", "folder/inside", "other/inside", "name\nof lines", "kept"];
    for (const name of names) await put(`${origin}/${name}`, "before");
    await put(`${origin}/older`, "after!");
    await put(`${origin}/other/inside`, "after!");
    await link(`${origin}/linked`, `${origin}/second name`);
    await move.begin();
    await move.pass();
    await move.pass();
    await put(`${origin}/#written`, "after!");
    await rename(`${origin}/older`, `${origin}/; moved`);
    await put(`${origin}/second name`, "after!");
    await put(`${origin}/name\nof lines`, "after!");
    await rename(`${origin}/folder`, `${origin}/away`);
    await rename(`${origin}/other`, `${origin}/folder`);
    await move.pass();
    const text = await move.landed();
    for (const name of ["#written", "; moved", "linked", "second name", "name\nof lines", "folder/inside"])
      expect([name, await text(name)]).toEqual([name, "after!"]);
    for (const name of ["away/inside", "kept"]) expect([name, await text(name)]).toEqual([name, "before"]);
    await move.end();
  });

  test.each(["listed", "read"] as const)(
    "copies what was changed while the pass before ran, after its files had been %s",
    async when => {
      const move = await moving({ unchanged: 0 });
      await put(`${move.origin}/db`, "before");
      await move.begin();
      await move.pass();
      move.during({ [when]: () => put(`${move.origin}/db`, "during") });
      await move.pass();
      move.during({});
      await move.pass();
      expect(await (await move.landed())("db")).toBe("during");
      await move.end();
    },
  );

  test("after the stop copies again what the target has lost while rsync reported no error", async () => {
    const move = await moving({});
    await put(`${move.origin}/file`, "content");
    await move.begin();
    await move.pass();
    await move.freeze();
    let isLost = false;
    const lose = async () => {
      if (!isLost) await rm(await move.copied("file"));
      isLost = true;
    };
    move.during({ synced: lose });
    await move.pass();
    expect(await (await move.landed())("file")).toBe("content");
    expect(isLost).toBe(true);
    await move.end();
  });
});
