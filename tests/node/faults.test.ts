import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdir, readFile, rename, rmdir, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import type { Capability } from "../../lib/core/access.ts";
import { type Command, CommandError, type CommandFailure } from "../../lib/io/runner.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo, spying, writer } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const steps = (name: string, readonly: boolean): readonly ((node: NodeVolumes) => Promise<unknown>)[] => [
  node => node.stage(lab.stage(name), callOf()),
  node => node.publish(lab.publish(name, { readonly }), callOf()),
  node => node.stats({ volumeId: name, path: lab.at("pods", name, "mount") }, callOf()),
  node => node.unpublish({ volumeId: name, targetPath: lab.at("pods", name, "mount") }, callOf()),
  node => node.unstage({ volumeId: name, stagingPath: lab.at("staging", name) }, callOf()),
];

const clean = async (): Promise<void> => {
  expect(await lab.mounted()).toEqual([]);
  expect(await readdir(lab.at("records"))).toEqual([]);
};

/** Interrupts a command before it runs, or after it ran but before its caller learns the result. */
const breaking = (nth: number, after: boolean, failure: CommandFailure) =>
  spying(async (command: Command, count: number) => {
    if (count !== nth) return;
    if (after) await local.run(command, calm);
    throw new CommandError("local", command.argv[0], failure, "broken off");
  });

const breaks = (...commands: number[]): [number, boolean, CommandFailure][] =>
  commands.flatMap(nth => [
    [nth, false, "missing"],
    [nth, false, "timeout"],
    [nth, true, "timeout"],
    [nth, true, "killed"],
  ]);

describe.skipIf(!isRoot)("an interrupted volume operation", () => {
  test.each(breaks(1, 2, 3, 4, 5, 6))(
    "at command %d (done: %p, %s) is completed when a new process repeats the step",
    async (nth, after, failure) => {
      const source = await lab.source("a");
      await writeFile(`${source}/file`, "data");
      let node = lab.node(breaking(nth, after, failure));
      let broken = 0;
      for (const step of steps("a", true)) {
        const code = await codeOf(step(node));
        if (code === "ok") continue;
        broken++;
        expect(code).toBe(
          { missing: "failed-precondition", timeout: "deadline-exceeded" }[failure as string] ?? "unavailable",
        );
        node = lab.node();
        await step(node);
      }
      // The fourth command only tidies up.
      expect(broken).toBe(nth === 4 ? 0 : 1);
      await clean();
      expect(await readFile(`${source}/file`, "utf8")).toBe("data");
    },
  );

  test.each(breaks(1, 2, 3, 4))(
    "at command %d (done: %p, %s) is undone by the kubelet's cleanup in a new process",
    async (nth, after, failure) => {
      await lab.source("a");
      const node = lab.node(breaking(nth, after, failure));
      for (const step of steps("a", false)) if ((await codeOf(step(node))) !== "ok") break;
      for (const step of steps("a", false).slice(3)) await step(lab.node());
      await clean();
    },
  );

  test("between bind and protection is completed by the retry, and the mount is never writable", async () => {
    await lab.source("a");
    const half = spying(async command => {
      if (!command.argv.includes("bind,relatime,ro")) return;
      await local.run({ argv: ["mount", "--bind", command.argv[4] ?? "", command.argv[5] ?? ""] }, calm);
      throw new CommandError("local", "mount", "killed", "broken off");
    });
    const capability: Capability = { ...writer, mode: "multi-node-reader-only" };
    const stage = () => lab.stage("a", { capability });
    const publish = () => lab.publish("a", { capability });
    expect(await codeOf(lab.node(half).stage(stage(), callOf()))).toBe("unavailable");
    expect(await lab.mounted()).toEqual([]);
    await lab.node().stage(stage(), callOf());
    await local.run({ argv: ["mount", "-o", "remount,bind,rw", lab.at("staging", "a")] }, calm);
    await lab.node().stage(stage(), callOf());
    expect((await lab.mounts())[0]?.options).toContain("ro");
    await lab.node().publish(publish(), callOf());
    await local.run({ argv: ["mount", "-o", "remount,bind,rw", lab.at("pods", "a", "mount")] }, calm);
    await lab.node().publish(publish(), callOf());
    expect((await lab.mounts()).every(({ options }) => options.includes("ro"))).toBe(true);
  });

  test("leaves nothing when mount fails, and can be retried", async () => {
    await lab.source("a");
    const bad = spying();
    const refusing = { ...bad, run: (command: Command) => bad.run({ ...command, argv: ["false"] }, calm) };
    expect(await codeOf(lab.node(refusing).stage(lab.stage("a"), callOf()))).toBe("internal");
    await clean();
    await lab.node().stage(lab.stage("a"), callOf());
    expect(await codeOf(lab.node(refusing).publish(lab.publish("a"), callOf()))).toBe("internal");
    // What mount(8) says without CAP_SYS_ADMIN (util-linux 2.38, libmount/src/context_mount.c).
    const words = 'echo "mount: $1: permission denied." >&2; exit 32';
    const denied = { ...bad, run: () => bad.run({ argv: ["sh", "-c", words, "sh", lab.at("pods")] }, calm) };
    const publish = lab.node(denied).publish(lab.publish("a"), callOf());
    await expect(publish).rejects.toMatchObject({ code: "permission-denied" });
    expect(await readdir(lab.at("pods", "a"))).toEqual([]);
    expect(
      await codeOf(lab.node(refusing).unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf())),
    ).toBe("unavailable");
    for (const step of steps("a", false)) await step(lab.node());
    await clean();
  });

  test("fails when mount reports success but mounts nothing", async () => {
    await lab.source("a");
    let lies = 0;
    const lying = {
      ...local,
      run(command: Command) {
        lies++;
        return local.run({ ...command, argv: ["true"] }, calm);
      },
    };
    expect(await codeOf(lab.node(lying).stage(lab.stage("a"), callOf()))).toBe("unavailable");
    await lab.node().stage(lab.stage("a"), callOf());
    expect(
      await codeOf(lab.node(lying).unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf())),
    ).toBe("unavailable");
    expect(lies).toBe(2);
    expect(await lab.mounted()).toEqual(["staging/a"]);
  });

  test("is undone when mount shows the wrong folder", async () => {
    await lab.source("a");
    await lab.source("b");
    const astray = spying();
    const other = lab.at("base", "b");
    const run = ({ argv }: Command) => {
      const [program, ...words] = argv;
      return local.run({ argv: [program, ...words.map(word => (word === lab.at("base", "a") ? other : word))] }, calm);
    };
    expect(await codeOf(lab.node({ ...astray, run }).stage(lab.stage("a"), callOf()))).toBe("unavailable");
    expect(await lab.mounted()).toEqual([]);
  });

  test("leaves no record when the volume is deleted meanwhile", async () => {
    const source = await lab.source("a");
    expect(await codeOf(lab.node(breaking(1, false, "timeout")).stage(lab.stage("a"), callOf()))).toBe(
      "deadline-exceeded",
    );
    expect(await readdir(lab.at("records"))).toHaveLength(1);
    await rmdir(source);
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("not-found");
    await clean();
  });

  test("does not make a foreign mount read-only", async () => {
    const source = await lab.source("a");
    await lab.bind(source, lab.at("staging", "a"));
    const capability: Capability = { ...writer, mode: "multi-node-reader-only" };
    expect(await codeOf(lab.node().stage(lab.stage("a", { capability }), callOf()))).toBe("already-exists");
    expect((await lab.mounts())[0]?.options).toContain("rw");
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("ok");
  });

  test("by a client that disconnects is continued by the next call", async () => {
    await lab.source("a");
    const client = new AbortController();
    const slow = spying(async () => client.abort());
    expect(await codeOf(lab.node(slow).stage(lab.stage("a"), callOf(client.signal)))).toBe("deadline-exceeded");
    for (const step of steps("a", false)) await step(lab.node());
    await clean();
  });
});

describe.skipIf(!isRoot)("a record left by an interrupted call", () => {
  test("does not let its volume unmount another one that was staged at the same path since", async () => {
    await lab.source("a");
    await lab.source("b");
    const stagingPath = lab.at("staging", "a");
    expect(await codeOf(lab.node(breaking(1, false, "timeout")).stage(lab.stage("b", { stagingPath }), callOf()))).toBe(
      "deadline-exceeded",
    );
    await lab.node().stage(lab.stage("a"), callOf());
    expect(await codeOf(lab.node().unstage({ volumeId: "b", stagingPath }, callOf()))).toBe("failed-precondition");
    expect(await codeOf(lab.node().stats({ volumeId: "b", path: stagingPath }, callOf()))).toBe("not-found");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    await lab.node().stage(lab.stage("b"), callOf());
    await lab.node().unstage({ volumeId: "a", stagingPath }, callOf());
    await lab.node().unstage({ volumeId: "b", stagingPath: lab.at("staging", "b") }, callOf());
    await clean();
  });

  test("does not let its volume unmount another one that was published at the same target since", async () => {
    await lab.source("a");
    await lab.source("b");
    await lab.node().stage(lab.stage("a"), callOf());
    await lab.node().stage(lab.stage("b"), callOf());
    const targetPath = lab.at("pods", "a", "mount");
    const publish = lab.node(breaking(1, false, "timeout")).publish(lab.publish("b", { targetPath }), callOf());
    expect(await codeOf(publish)).toBe("deadline-exceeded");
    await lab.node().publish(lab.publish("a"), callOf());
    expect(await codeOf(lab.node().unpublish({ volumeId: "b", targetPath }, callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a", "staging/b"]);
  });

  test("does not block a volume whose folder was renamed meanwhile", async () => {
    const source = await lab.source("a");
    for (const step of steps("a", false).slice(0, 2)) await step(lab.node());
    await rename(source, `${source}-moved`);
    for (const step of steps("a", false).slice(3)) await step(lab.node());
    await clean();
  });
});

test.skipIf(!isRoot)("eight volumes at once do not disturb each other", async () => {
  const names = [..."abcdefgh"];
  for (const name of names) await lab.source(name);
  const runner = spying();
  const node = lab.node(runner);
  for (let round = 0; round < 5; round++) {
    await Promise.all(
      names.map(async name => {
        for (const step of steps(name, name > "d")) await step(node);
      }),
    );
  }
  await clean();
  expect(runner.ran).toHaveLength((4 * 4 + 4 * 6) * 5);
});

describe.skipIf(!isRoot)("a mount that may never answer", () => {
  /** The real table with the type of the lab's mounts replaced, so that csimux takes them for network mounts. */
  const asNetwork = async (): Promise<string> => {
    const lines = (await readFile(mountinfo, "utf8")).split("\n");
    const table = lines
      .map(line => (line.includes(`/${basename(lab.folder)}/`) ? line.replace(/ - \S+ /, " - nfs4 ") : line))
      .join("\n");
    await writeFile(lab.at("table"), table);
    return lab.at("table");
  };

  test("is measured by a separate program, with the same result", async () => {
    await lab.source("a");
    await lab.node().stage(lab.stage("a"), callOf());
    const placed = { volumeId: "a", path: lab.at("staging", "a") };
    const runner = spying();
    const [bytes] = (await lab.node(runner, await asNetwork()).stats(placed, callOf())).usage;
    const [expected] = (await lab.node().stats(placed, callOf())).usage;
    expect(runner.ran.map(each => each.slice(0, 7))).toEqual(["stat -f", "stat -f"]);
    expect(bytes?.total).toBe(expected?.total);
  });

  test("is measured once for concurrent calls, and a hanging program ends with the call", async () => {
    await lab.source("a");
    await lab.node().stage(lab.stage("a"), callOf());
    const placed = { volumeId: "a", path: lab.at("staging", "a") };
    const runs: Promise<unknown>[] = [];
    const hanging = {
      ...local,
      run(_: Command, signal: AbortSignal) {
        const run = local.run({ argv: ["sleep", "60"], timeoutMs: 300 }, signal);
        runs.push(run);
        return run;
      },
    };
    const node = lab.node(hanging, await asNetwork());
    const asked = await Promise.all([1, 2, 3].map(() => node.stats(placed, callOf())));
    expect(asked.map(({ failure }) => failure?.code)).toEqual(Array(3).fill("unavailable"));
    expect(asked.map(({ conditions }) => conditions[0]?.reason)).toEqual(Array(3).fill("NotAnswering"));
    expect(runs).toHaveLength(1);
    const client = new AbortController();
    const again = codeOf(node.stats(placed, callOf(client.signal)));
    client.abort();
    expect(await again).toBe("unavailable");
    await Promise.allSettled(runs);
  });

  test("is checked by a separate program before it is staged", async () => {
    await lab.source("a");
    await lab.bind(lab.at("base"), lab.at("base"));
    const runner = spying();
    const table = await asNetwork();
    expect(await codeOf(lab.node(runner, table).stage(lab.stage("missing"), callOf()))).toBe("not-found");
    expect(runner.ran).toEqual([`stat -c %F ${lab.at("base", "missing")}`]);
  });
});
