import { expect, test } from "bun:test";
import { initiatorCases } from "./iscsi-cases.ts";
import { modelFabric, modelInitiator } from "./node-models.ts";
import { fabricCases } from "./nvme-cases.ts";

/**
 * What the models of a node answer to the cases that the lab runs on the real tools as well (tests/lab/fakes.lab.ts): open-iscsi
 * 2.1.8; Linux 6.1, drivers/scsi and drivers/nvme/host.
 */
const seen: Readonly<Record<string, readonly string[]>> = {
  "a node record is made, made again, and deleted once": [
    "0",
    "its portal",
    "manual",
    "someone",
    "0",
    "none",
    "0",
    "21",
  ],
  "a login needs a record, and a logout a session": ["21", "22"],
  "a portal is logged in to once, its record stays as long as the session": [
    "0",
    "default logged in at its portal",
    "15",
    "default logged in at its portal",
    "15",
    "its portal",
    "0",
    "22",
    "0",
  ],
  "a portal has one record, whose interface is the last one": [
    "0",
    "21",
    "0",
    "its portal",
    "other",
    "0",
    "default logged in at its portal",
    "other logged in at its portal",
    "15",
    "its portal",
    "0",
    "other logged in at its portal",
    "15",
    "0",
    "0",
  ],
  "a target that requires CHAP refuses others": [
    "24 iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)",
    "24 iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)",
    "0",
    "default logged in at its portal",
    "0",
    "0",
  ],
  "a portal at which nothing listens is given up, and leaves its record": [
    "8 iscsiadm: initiator reported error (8 - connection timed out)",
    "0",
  ],
  "a session shows the LUNs that it is scanned for, with their size when they were last read": [
    "0 before",
    "0 of an absent one",
    "known 8 MiB running",
    "1 of one",
    "known 8 MiB running",
    "known 16 MiB running",
    "gone",
    "0 after",
  ],
  "a subsystem is connected over a port once, and disconnected once": [
    "0",
    "tcp its port live",
    "1 Operation already in progress",
    "tcp its port live",
    "1 8 MiB",
    "0",
    "1 No such file or directory",
  ],
  "a connection leads to the disks of its subsystem": ["0", "1 8 MiB", "1 behind", "0"],
  "a port at which nothing listens and an unknown subsystem are refused": [
    "1 Connection refused",
    "1 Input/output error",
  ],
  "a rescan shows new namespaces and new sizes": ["1 8 MiB", "0", "1 16 MiB", "2 8 MiB", "0", "1 16 MiB"],
};

test.each(Object.entries(initiatorCases))("the model of an initiator: %s", async (title, seenOn) => {
  expect([title, await modelInitiator(seenOn)]).toEqual([title, seen[title] ?? []]);
});

test.each(Object.entries(fabricCases))("the model of an NVMe host: %s", async (title, seenOn) => {
  expect([title, await modelFabric(seenOn)]).toEqual([title, seen[title] ?? []]);
});
