import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { store } from "../../scripts/nomad/place.ts";
import { stored, tidy } from "./left.ts";
import { inTask, nomad, refusal, run, running, stop } from "./nomad.ts";
import { startCentral, stopCentral } from "./plugins.ts";
import { consumer, create, unclaimed, volumeInfo } from "./volumes.ts";

beforeAll(startCentral);
afterEach(() => tidy("csimux"));
afterAll(stopCentral);

describe("the warnings of the guide", () => {
  test("a volume in use is deleted, unless the controller sees its mount", async () => {
    await create({ id: "victim", connection: "anywhere" });
    await run(consumer({ id: "use", volume: "victim", client: "n1", run: "echo kept > /data/f" }));
    await running("use");
    // The controller is a process of n1.
    expect(await refusal("volume", "delete", "victim")).toContain("mounted at");
    expect(await inTask("use", "cat /data/f")).toBe("kept\n");
    await stop("use");
    await run(consumer({ id: "far", volume: "victim", client: "n2" }));
    await running("far");
    expect(await refusal("volume", "delete", "victim")).toContain("in use");
    expect(stored(join(store, "anywhere"))).toEqual([]);
    await stop("far");
    await unclaimed("victim");
    await nomad("volume", "deregister", "victim");
  });

  test("an equal name in another namespace is the same volume", async () => {
    await nomad("namespace", "apply", "other");
    try {
      await create({ id: "mine", name: "equal", connection: "anywhere" });
      await create({ id: "theirs", name: "equal", connection: "anywhere", more: 'namespace = "other"' });
      expect((await volumeInfo("mine")).ExternalID).toBe("v:anywhere/equal");
      await nomad("volume", "delete", "-namespace=other", "theirs");
      expect(stored(join(store, "anywhere"))).toEqual([]);
    } finally {
      await nomad("volume", "deregister", "mine");
      await nomad("namespace", "delete", "other");
    }
  });
});
