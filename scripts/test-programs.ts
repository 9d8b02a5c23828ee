import type { Packages } from "./packages.ts";

/** A program that tests call. */
interface TestProgram {
  /** The Debian package that has it. */
  readonly package: string;
  /** Files of tests that need it for everything they do. They are skipped without it. */
  readonly files?: readonly string[];
  /** Files of tests of which some cases need it. Those cases skip themselves. */
  readonly cases?: readonly string[];
}

const disks = ["filesystems", "life", "interrupted", "never"].map(name => `tests/node/disks/${name}.test.ts`);
const situations = "tests/serve/situations.test.ts";
const ssh = [
  "tests/io/ssh/child.test.ts",
  "tests/io/ssh/faults.test.ts",
  "tests/io/ssh/script.test.ts",
  "tests/serve/zfs.test.ts",
  situations,
  "tests/copy/by-stream.test.ts",
  "tests/copy/stream-cuts.test.ts",
  "tests/serve/faults/copy-kills.test.ts",
];
const users = "tests/drivers/zfs/host/users.test.ts";
const healthMonitor = "tests/node/health-monitor.test.ts";
const certificates = [
  ...[
    "tests/io/kube.test.ts",
    "tests/io/rpc.test.ts",
    "tests/io/http.test.ts",
    "tests/drivers/truenas/abilities.test.ts",
  ],
  ...["tests/topology/cluster.test.ts", situations],
];

/** The programs that tests call beyond Debian's essential ones, Node, npm, git and make; what the lab needs is in lab/requirements.ts. */
export const testPrograms: Readonly<Record<string, TestProgram>> = {
  ps: { package: "procps", files: ssh },
  ssh: { package: "openssh-client", files: ssh },
  "ssh-keygen": { package: "openssh-client", files: ssh },
  sshd: { package: "openssh-server", files: ssh },
  openssl: { package: "openssl", files: certificates },
  rsync: {
    package: "rsync",
    cases: ["attacked", "copying/giving", "copying/interrupted"].map(name => `tests/drivers/directory/${name}.test.ts`),
  },
  busybox: { package: "busybox", cases: ["tests/drivers/zfs/targets/only-if.test.ts", users] },
  gawk: { package: "gawk", cases: [users] },
  restic: { package: "restic", cases: ["tests/drivers/directory/backups.test.ts"] },
  bindfs: { package: "bindfs", cases: ["tests/node/object-stores.test.ts"] },
  "mkfs.ext4": { package: "e2fsprogs", files: [...disks, healthMonitor] },
  "mkfs.xfs": { package: "xfsprogs", cases: [...disks, healthMonitor] },
  "mkfs.btrfs": { package: "btrfs-progs", cases: [...disks, healthMonitor] },
  "mkfs.vfat": { package: "dosfstools", cases: disks },
  "mkfs.exfat": { package: "exfatprogs", cases: disks },
  "mkfs.ntfs": { package: "ntfs-3g", cases: disks },
  cryptsetup: { package: "cryptsetup-bin", cases: disks },
  sfdisk: { package: "fdisk", cases: disks },
  strace: { package: "strace", cases: [...disks, "tests/drivers/directory/durability.test.ts"] },
  promtool: { package: "prometheus", cases: ["tests/monitoring.test.ts"] },
  prometheus: { package: "prometheus", cases: [situations] },
  tcsh: { package: "tcsh", files: ["tests/io/ssh/child.test.ts", "tests/io/ssh/script.test.ts"] },
  python3: { package: "python3", cases: ["tests/drivers/zfs/hostile.test.ts"] },
};

/** The packages by program. */
export const testPackages: Packages = Object.fromEntries(
  Object.entries(testPrograms).map(([program, each]) => [program, each.package]),
);

/** The test files that need a program which `has` does not find, each once. */
export const filesWithout = (has: (program: string) => boolean): readonly string[] => [
  ...new Set(Object.entries(testPrograms).flatMap(([program, { files = [] }]) => (has(program) ? [] : files))),
];

/** The programs that these test files call. */
export const programsOf = (wanted: readonly string[]): readonly string[] =>
  Object.entries(testPrograms)
    .filter(([, { files = [], cases = [] }]) => [...files, ...cases].some(file => wanted.includes(file)))
    .map(([program]) => program);
