import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mounted, tidy, unmounted } from "./left.ts";
import { eventually, inTask, nomad, run, running, stop } from "./nomad.ts";
import { startCentral, stopCentral } from "./plugins.ts";
import { consumer, create, register, registered, unclaimed } from "./volumes.ts";

beforeAll(startCentral);
afterEach(() => tidy("csimux"));
afterAll(stopCentral);

const shared = "multi-node-multi-writer";

describe("a reader and a writer of one volume", () => {
  const writer = { volume: "both", access: shared, run: "echo text > /data/f; sync" } as const;
  const reader = { volume: "both", access: shared, readOnly: true } as const;

  for (const [first, second] of [
    ["writer", "reader"],
    ["reader", "writer"],
  ] as const)
    test(`share one client, the ${first} first, and both clients`, async () => {
      await create({ id: "both", connection: "anywhere" });
      const job = { writer: { id: "writer", ...writer }, reader: { id: "reader", ...reader } };
      for (const each of [first, second]) {
        await run(consumer({ ...job[each], client: "n1" }));
        await running(each);
      }
      await eventually("the reader reads", async () => (await inTask("reader", "cat /data/f; true")) === "text\n");
      expect(await inTask("reader", "touch /data/g 2>&1; ls /data")).toContain("Read-only file system");
      expect(await mounted("n1")).toHaveLength(4);
      // Its staging is read-only, unlike that of the other reader, and the writer comes second.
      await run(consumer({ ...reader, id: "reader2", access: "multi-node-reader-only", client: "n2" }));
      await running("reader2");
      await run(consumer({ ...writer, id: "writer2", client: "n2", run: "echo more > /data/more" }));
      await running("writer2");
      await eventually(
        "the other client reads",
        async () => (await inTask("reader2", "cat /data/more; true")) === "more\n",
      );
      await stop(first);
      await eventually("half is left", async () => (await mounted("n1")).length === 2);
      expect(await inTask(second, "cat /data/f")).toBe("text\n");
      await stop(second);
      await unmounted("n1");
      expect(await inTask("reader2", "cat /data/f")).toBe("text\n");
    });

  test("that is registered under a second id shares the client with the first", async () => {
    await create({ id: "both", connection: "anywhere" });
    await register({ id: "alias", more: await registered("both") });
    await run(consumer({ ...writer, id: "writer", client: "n1" }));
    await eventually("it has written", async () => (await inTask("writer", "cat /data/f; true")) === "text\n");
    await run(consumer({ ...writer, id: "other", volume: "alias", client: "n1", run: "cat /data/f > /data/g" }));
    await running("other");
    await eventually("it has read and written", async () => (await inTask("writer", "cat /data/g; true")) === "text\n");
    await stop("writer");
    expect(await inTask("other", "cat /data/f")).toBe("text\n");
    await stop("other");
    await unclaimed("alias");
    await nomad("volume", "deregister", "alias");
  });
});
