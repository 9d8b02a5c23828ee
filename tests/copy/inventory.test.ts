import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { CopyStorage, copyDriver, streamInMemory } from "../fakes/memory-copies.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure } from "../mux/world.ts";
import { copyProcess, copyRequest } from "./copy-world.ts";

const call = testCall();

test("an inventory has the copies to a connection: while they run, when they pause, and not what cannot be read", async () => {
  const storages = new Map(["a", "b"].map(name => [name, new CopyStorage()]));
  const gate = Promise.withResolvers<void>();
  for (const storage of storages.values()) storage.gate = () => gate.promise;
  storages.get("a")?.volumes.set("v", { content: "content", bytes: 1n });
  const drivers = new Map([...storages].map(([name, storage]) => [name, () => copyDriver(storage, name)]));
  const stream = streamInMemory(storages);
  const first = copyProcess({ drivers, stream });
  expect((await failure(first.volumes.create(copyRequest("new", "b", "v:a/v"), call)))?.code).toBe("aborted");
  const [source, target] = await first.inventory(call);
  expect(source?.copies).toBeUndefined();
  const copy = { target: "v:b/new", source: "v:a/v", role: "create", method: "zfs-send", fault: "", total: 7 };
  expect(target?.copies).toMatchObject([{ ...copy, state: "copying" }]);

  const stopped = first.stop(1_000);
  gate.resolve();
  await stopped;
  const second = copyProcess({ drivers, stream });
  expect((await second.inventory(call))[1]?.copies).toMatchObject([{ ...copy, state: "paused" }]);
  // It becomes a part of JSON, which has no bigint.
  expect(JSON.stringify(await second.inventory(call))).toContain('"total":7');

  storages.get("b")?.records.set("new", "{}");
  expect((await second.inventory(call))[1]?.copies).toMatchObject([{ target: "v:b/new", state: "unreadable" }]);
  const broken = new Map(drivers);
  const copies = () => Promise.reject(new CsiError("unavailable", "no route to host"));
  broken.set("b", () => {
    const driver = drivers.get("b")?.() ?? copyDriver(new CopyStorage(), "b");
    return { ...driver, ...(driver.copyTarget && { copyTarget: { ...driver.copyTarget, copies } }) };
  });
  const third = copyProcess({ drivers: broken, stream });
  expect((await third.inventory(call))[1]).toMatchObject({
    problem: "the copies cannot be listed: no route to host",
    volumes: [],
  });
  await Promise.all([second.stop(1_000), third.stop(1_000)]);
});
