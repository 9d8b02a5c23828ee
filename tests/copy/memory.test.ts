import { CsiError } from "../../lib/core/errors.ts";
import { type CopyEndRig, copiesContract } from "../contract/copies/copies.ts";
import { CopyStorage, copyDriver, streamInMemory } from "../fakes/memory-copies.ts";

/** A storage in memory for the contract. */
function memoryEnd(storage: CopyStorage, machine: string): CopyEndRig {
  let failed = false;
  return {
    open: () => copyDriver(storage, machine),
    write: async (id, content) => void storage.volumes.set(id, { content, bytes: 1n << 20n }),
    read: async id => storage.volumes.get(id)?.content ?? "",
    remains: async () => storage.remains(),
    cut: at => {
      let left = at;
      const before = failed;
      failed = false;
      storage.step = what => {
        if (left === 0 || --left > 0) return;
        failed = true;
        throw new CsiError("unavailable", `the storage was cut at "${what}"`);
      };
      return before;
    },
  };
}

copiesContract("memory to memory", async () => {
  const [a, b] = [new CopyStorage(), new CopyStorage()];
  const machines = new Map([
    ["one", a],
    ["two", b],
  ]);
  return {
    source: memoryEnd(a, "one"),
    target: memoryEnd(b, "two"),
    stream: streamInMemory(machines),
    end: async () => {},
  };
});
