import { expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { failureOf, status } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import { run } from "../run.ts";
import { onSecond } from "../second.ts";
import {
  asking,
  contentOf,
  filling,
  limitMs,
  type Machine,
  make,
  nothingLeft,
  remove,
  shell,
  withCopies,
  world,
} from "./copies-rig.ts";
import { makeSnapshot } from "./zfs-pool.ts";

withCopies();

test(
  "a claim of another connection on another machine gets the content of a volume, and of a snapshot",
  async () => {
    const source = await make("near", "source");
    await shell(run, filling, "/tank/near/v/source", "64");
    const wanted = await contentOf(run, "tank/near/v/source");
    const snapshot = await makeSnapshot(world, source, "moment");
    await shell(run, "echo later >/tank/near/v/source/later; sync");
    const restored = await make("far", "restored", { snapshot });
    expect(await contentOf(onSecond, "tank/far/v/restored")).toBe(wanted);
    const now = await contentOf(run, "tank/near/v/source");
    const copy = await make("far", "copy", { volume: source });
    expect(await contentOf(onSecond, "tank/far/v/copy")).toBe(now);
    expect(now).not.toBe(wanted);
    // Repeated after the end, as after a lost answer; another source is refused.
    expect(await make("far", "copy", { volume: source })).toBe(copy);
    expect((await failureOf(asking("far", "copy", { snapshot }))).code).toBe(status.alreadyExists);
    await nothingLeft();
    await persistently(() => world.controller("deleteSnapshot", { snapshotId: snapshot }, 120_000));
    for (const id of [source, restored, copy]) await remove(id);
  },
  limitMs,
);

test(
  "two connections on one machine copy without the network",
  async () => {
    const source = await make("near", "beside");
    await shell(run, filling, "/tank/near/v/beside", "64");
    const copy = await make("also", "beside-copy", { volume: source });
    expect(await contentOf(run, "tank/also/v/beside-copy")).toBe(await contentOf(run, "tank/near/v/beside"));
    expect(await world.daemon.log()).toMatch(/zfs-send-local/);
    await nothingLeft();
    for (const id of [source, copy]) await remove(id);
  },
  limitMs,
);

test(
  "a disk is copied block by block",
  async () => {
    const source = await make("disk", "blocks", undefined, 64);
    const dump = "dd if=/dev/urandom of=/dev/zvol/tank/iscsi/v/blocks bs=1M count=48 conv=fsync 2>/dev/null";
    await shell(run, dump);
    const copy = await make("disks", "blocks-copy", { volume: source }, 96);
    const sum = (where: Machine, dataset: string) =>
      shell(where, `head -c 67108864 "/dev/zvol/$1" | sha256sum`, dataset);
    expect(await sum(onSecond, "tank/disks/v/blocks-copy")).toBe(await sum(run, "tank/iscsi/v/blocks"));
    const size = await onSecond(["zfs", "get", "-Hpo", "value", "volsize", "tank/disks/v/blocks-copy"]);
    expect(size.trim()).toBe(String(96 << 20));
    await nothingLeft();
    for (const id of [source, copy]) await remove(id);
  },
  limitMs,
);

/** OpenZFS may damage what it sends of encrypted datasets before these versions (openzfs/zfs, pull request 17340). */
const sendsEncrypted = /^zfs-(2\.2\.([89]|\d\d)|2\.3\.([3-9]|\d\d)|2\.([4-9]|\d\d)\.)/;

test(
  "encrypted content is not sent by an OpenZFS that may damage it, nor to a plain target; an encrypted target takes plain content",
  async () => {
    const secret = await make("secret", "sealed");
    await shell(run, filling, "/tank/secret/v/sealed", "8");
    const refused = await failureOf(asking("far", "plain", { volume: secret }));
    expect(refused.code).toBe(status.failedPrecondition);
    await nothingLeft();
    const version = await run(["zfs", "version"]);
    if (!sendsEncrypted.test(version))
      expect((await failureOf(asking("locked", "again", { volume: secret }))).code).toBe(status.failedPrecondition);
    const plain = await make("near", "plain");
    await shell(run, filling, "/tank/near/v/plain", "8");
    const copy = await make("locked", "encrypted", { volume: plain });
    expect(await contentOf(onSecond, "tank/locked/v/encrypted")).toBe(await contentOf(run, "tank/near/v/plain"));
    const encryption = await onSecond(["zfs", "get", "-Ho", "value", "encryption", "tank/locked/v/encrypted"]);
    expect(encryption.trim()).not.toBe("off");
    await nothingLeft();
    for (const id of [secret, plain, copy]) await remove(id);
  },
  limitMs,
);

test(
  "a target without room refuses before anything is made, and one that fills up on the way keeps what it has",
  async () => {
    const source = await make("near", "large");
    await shell(run, filling, "/tank/near/v/large", "160");
    const full = await failureOf(asking("small", "large-copy", { volume: source }));
    expect(full.code).toBe(status.resourceExhausted);
    await nothingLeft();
    await onSecond(["zfs", "set", "quota=1G", "tank/small"]);
    await asking("small", "large-copy", { volume: source }).catch(() => {});
    await onSecond(["zfs", "set", "quota=100M", "tank/small"]).catch(() => {});
    await pause(5000);
    const stuck = await failureOf(asking("small", "large-copy", { volume: source }));
    expect([status.unavailable, status.aborted] as number[]).toContain(stuck.code);
    await onSecond(["zfs", "set", "quota=1G", "tank/small"]);
    const copy = await make("small", "large-copy", { volume: source });
    expect(await contentOf(onSecond, "tank/small/v/large-copy")).toBe(await contentOf(run, "tank/near/v/large"));
    await nothingLeft();
    for (const id of [source, copy]) await remove(id);
  },
  limitMs,
);
