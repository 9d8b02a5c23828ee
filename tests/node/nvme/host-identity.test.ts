import { expect, test } from "bun:test";
import { hostIdentity } from "../../../lib/node/nvme/connections.ts";
import { FakeHost } from "./fake-host.ts";

const one = "10.0.0.1:4420";
const hostNqn = "nqn.2014-08.org.nvmexpress:uuid:";
const id1 = "11111111-2222-3333-4444-555555555555";
const id2 = "99999999-2222-3333-4444-555555555555";
/** Of the machine-id 0…0, a UUID of RFC 9562, version 4 in form: the kernel parses hostid with uuid_parse (drivers/nvme/host/fabrics.c of 6.1). */
const derived = "e632583a-1052-4fbc-8d30-71d55a82c478";

test.each([
  ["both files", { hostnqn: "nqn.own", hostid: id1 }, { nqn: "nqn.own", id: id1 }],
  ["a hostnqn with a UUID", { hostnqn: `${hostNqn}${id2}` }, { nqn: `${hostNqn}${id2}`, id: id2 }],
  [
    "a hostnqn and a hostid that differ",
    { hostnqn: `${hostNqn}${id2}`, hostid: id1 },
    { nqn: `${hostNqn}${id2}`, id: id1 },
  ],
  ["a hostid alone", { hostid: id1 }, { nqn: `${hostNqn}${id1}`, id: id1 }],
  ["neither", {}, { nqn: `${hostNqn}${derived}`, id: derived }],
  ["a hostid that is not a UUID", { hostid: "zz" }, { nqn: `${hostNqn}${derived}`, id: derived }],
])("the identity of a node with %s", async (_title, files, identity) => {
  using host = new FakeHost(one);
  host.write("etc/machine-id", `${"0".repeat(32)}\n`);
  for (const [name, text] of Object.entries(files)) host.write(`etc/nvme/${name}`, `${text}\n`);
  expect(await hostIdentity(host.root)).toEqual(identity);
});

test("the error for a node without any identity says how to get one", async () => {
  using host = new FakeHost(one);
  host.write("etc/machine-id", "uninitialized\n");
  await expect(hostIdentity(host.root)).rejects.toThrow("nvme gen-hostnqn");
});
