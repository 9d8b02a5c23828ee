import { expect, test } from "bun:test";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { drawn, everything } from "../../sample.ts";
import { callOf, codeOf, local } from "../lab.ts";
import { Disk, hasLoops, hasProgram, leastFor, sh } from "./disk.ts";

const writes = ["pwrite64", "write", "fallocate", "fsync"];
const canTrace = hasLoops && hasProgram("strace");

/** A runner that kills mkfs at its n-th system call of a kind, as if the machine stopped; `cut` reports whether it did. */
const cutting = (call: string, count: number): CommandRunner & { cut: boolean } => {
  const runner = {
    where: "local",
    cut: false,
    run: async (command: Parameters<CommandRunner["run"]>[0], signal: AbortSignal) => {
      if (!command.argv[0].startsWith("mkfs.")) return await local.run(command, signal);
      const inject = [
        "-f",
        "-q",
        "-o",
        "/dev/null",
        "-e",
        `trace=${call}`,
        "-e",
        `inject=${call}:signal=KILL:when=${count}`,
      ];
      const output = await local
        .run({ ...command, argv: ["strace", ...inject, ...command.argv] }, signal)
        .catch(() => undefined);
      runner.cut = output?.exitCode !== 0;
      return output ?? { stdout: "", stderr: "killed", exitCode: 137 };
    },
  };
  return runner;
};

/** Call counts to test: the first few, then at growing distances. The seed draws a third. */
const counts = drawn([1, 2, 3, 4, 5, 6, 8, 11, 16, 25, 50, 100, 200, 400], 5);

for (const type of ["ext4", "xfs", "btrfs"]) {
  test.skipIf(!canTrace || !hasProgram(`mkfs.${type}`))(
    `the making of ${type} is repeated after it was cut short anywhere`,
    async () => {
      const cuts: string[] = [];
      for (const call of writes) {
        for (const count of counts) {
          using disk = new Disk(leastFor(type));
          const runner = cutting(call, count);
          const outcome = await codeOf(
            disk.filesystems(runner).prepare(disk.device, disk.wanted({ fsType: type }), callOf()),
          );
          if (!runner.cut) break;
          expect([call, count, outcome]).toEqual([call, count, "unavailable"]);
          cuts.push(`${call} ${count}`);
          const again = disk.filesystems().prepare(disk.device, disk.wanted({ fsType: type }), callOf());
          expect([call, count, await codeOf(again)]).toEqual([call, count, "ok"]);
          sh('mkdir -p "$1" && mount -t "$2" "$3" "$1" && umount "$1"', `${disk.folder}/mount`, type, disk.path);
        }
      }
      expect(cuts.length).toBeGreaterThan(everything ? 8 : 2);
    },
  );
}

test.skipIf(!canTrace).each(["-E stride=4", "-Ediscard -m 1"])(
  "an interrupted format is repeated although its class has options of which mke2fs takes the last ones only (%s)",
  async mkfsOptions => {
    using disk = new Disk();
    const wanted = disk.wanted({ fsType: "ext4", mkfsOptions });
    expect(await codeOf(disk.filesystems(cutting("pwrite64", 40)).prepare(disk.device, wanted, callOf()))).toBe(
      "unavailable",
    );
    expect(await codeOf(disk.filesystems().prepare(disk.device, wanted, callOf()))).toBe("ok");
  },
);

test.skipIf(!canTrace)("an interrupted format is refused on a node without its record", async () => {
  using disk = new Disk();
  await codeOf(disk.filesystems(cutting("pwrite64", 40)).prepare(disk.device, disk.wanted(), callOf()));
  const before = disk.hash();
  const elsewhere = disk.filesystems(local, undefined, "other-node").prepare(disk.device, disk.wanted(), callOf());
  expect(await codeOf(elsewhere)).toBe("failed-precondition");
  expect(disk.hash()).toBe(before);
});

const changes: Readonly<Record<string, string>> = {
  "the disk was formatted by hand since": 'mkfs.ext4 -q -F "$1"',
  "the disk was formatted with another type by hand since": 'mkfs.btrfs -q -f "$1"',
  "its mark is gone":
    'dd if=/dev/urandom of="$1" bs=4096 seek=$((($(blockdev --getsize64 "$1") - 524288) / 4096)) count=1',
  "it holds swap now": 'mkswap -f "$1"',
};

for (const [change, script] of Object.entries(changes)) {
  test.skipIf(!canTrace)(`an interrupted format is not repeated when ${change}`, async () => {
    using disk = new Disk(leastFor("btrfs"));
    const cut = disk.filesystems(cutting("pwrite64", 40)).prepare(disk.device, disk.wanted(), callOf());
    expect(await codeOf(cut)).toBe("unavailable");
    sh(`{ ${script}; } >/dev/null 2>&1`, disk.path);
    const before = sh('blkid -p -o export "$1" || true', disk.path);
    const runner = spiedMaking();
    const outcome = await codeOf(
      disk.filesystems(runner).prepare(disk.device, disk.wanted({ fsType: "ext4" }), callOf()),
    );
    expect(outcome).toBe(change.includes("formatted by hand") ? "ok" : "failed-precondition");
    expect(runner.made).toBe(0);
    expect(sh('blkid -p -o export "$1" || true', disk.path)).toBe(before);
  });
}

test.skipIf(!canTrace)("an interrupted format is not repeated on a copy of its disk", async () => {
  using disk = new Disk();
  await codeOf(disk.filesystems(cutting("pwrite64", 40)).prepare(disk.device, disk.wanted(), callOf()));
  using copy = new Disk();
  sh('blockdev --flushbufs "$1"; cp "$2" "$3"; blockdev --flushbufs "$4"', disk.path, disk.file, copy.file, copy.path);
  const before = copy.hash();
  expect(await codeOf(disk.filesystems().prepare(copy.device, disk.wanted(), callOf()))).toBe("failed-precondition");
  expect(copy.hash()).toBe(before);
  expect(await codeOf(disk.filesystems().prepare(disk.device, disk.wanted(), callOf()))).toBe("ok");
});

/** The process ends right after mkfs. */
const endingAfterMkfs: CommandRunner = {
  where: "local",
  run: async (command, signal) => {
    const output = await local.run(command, signal);
    if (command.argv[0].startsWith("mkfs.")) throw new Error("ended");
    return output;
  },
};

test.skipIf(!canTrace)("a finished file system is kept although its format is still recorded", async () => {
  using disk = new Disk();
  await disk
    .filesystems(endingAfterMkfs)
    .prepare(disk.device, disk.wanted(), callOf())
    .catch(() => {});
  const uuid = sh('blkid -p -o value -s UUID "$1"', disk.path);
  const runner = spiedMaking();
  await disk.filesystems(runner).prepare(disk.device, disk.wanted(), callOf());
  expect(runner.made).toBe(0);
  expect(sh('blkid -p -o value -s UUID "$1"', disk.path)).toBe(uuid);
  expect(sh('grep -c "csimux is making" "$1" || true', disk.file).trim()).toBe("0");
});

const wiped: Readonly<Record<string, string>> = {
  // What wipefs(8) erases, and reports so that it can be written back.
  ext4: 'dd if=/dev/zero of="$1" bs=1 seek=1080 count=2 conv=notrunc status=none',
  btrfs: 'dd if=/dev/zero of="$1" bs=1 seek=65600 count=8 conv=notrunc status=none',
};

for (const [type, script] of Object.entries(wiped)) {
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${type}`))(
    `a format that was cut short proves nothing once another node has used the disk (${type})`,
    async () => {
      using disk = new Disk(leastFor(type));
      const wanted = disk.wanted({ fsType: type });
      await disk
        .filesystems(endingAfterMkfs)
        .prepare(disk.device, wanted, callOf())
        .catch(() => {});
      await disk.filesystems(local, undefined, "other-node").prepare(disk.device, wanted, callOf());
      sh('echo data > "$1/file"', disk.mount(type, []));
      disk.unmount();
      sh(script, disk.path);
      const before = disk.hash();
      const outcome = await codeOf(disk.filesystems().prepare(disk.device, wanted, callOf()));
      expect([outcome, disk.hash()]).toEqual(["failed-precondition", before]);
    },
  );
}

/** A runner that counts the runs of mkfs. */
function spiedMaking() {
  const runner = {
    where: "local",
    made: 0,
    run: (command: Parameters<CommandRunner["run"]>[0], signal: AbortSignal) => {
      if (command.argv[0].startsWith("mkfs.")) runner.made++;
      return local.run(command, signal);
    },
  };
  return runner;
}
