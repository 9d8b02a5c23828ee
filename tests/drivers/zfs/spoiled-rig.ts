import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import type { SpoiledRig } from "../../contract/spoiled-answers.ts";
import { harmsOfPrinted, type Printed, spoiledRunner } from "../../contract/spoiled-programs.ts";
import type { FakeSpdk } from "../../fakes/spdk.ts";
import { type FakeZfs, inProcess } from "../../fakes/zfs/pools.ts";
import { type ZfsOptions, zfsRig } from "./zfs-rig.ts";

/** What the model of a host keeps in its folder, except devices, which are as large as their volumes. */
const kept = ["state.json", "mnt", "data", "usershares", "lio", "lio-saveconfig.json", "nvmet", "saved.json"] as const;

/** Copies what the model keeps into another folder, or back. */
function copied(from: string, to: string): void {
  for (const each of kept) {
    rmSync(join(to, each), { recursive: true, force: true });
    if (existsSync(join(from, each)))
      cpSync(join(from, each), join(to, each), { recursive: true, verbatimSymlinks: true });
  }
}

/** The folders of targets and subsystems in the models, and their depths. */
const targetFolders = [
  ["lio/iscsi", 1],
  ["lio/core", 2],
  ["nvmet/subsystems", 1],
] as const;

const foldersIn = (path: string): readonly string[] =>
  existsSync(path)
    ? readdirSync(path, { withFileTypes: true }).flatMap(each => (each.isDirectory() ? [join(path, each.name)] : []))
    : [];

/** Targets and backstores by their folders. */
function targetsIn(folder: string): readonly string[] {
  return targetFolders.flatMap(([place, depth]) => {
    const first = foldersIn(join(folder, place));
    return depth === 1 ? first : first.flatMap(foldersIn);
  });
}

/** Tells a target that was removed and made again from the one that was there. */
const numberFile = ".number";

/** The targets of the kernel, each with its number, and all by which nodes reach them. */
function kernelTargets({ folder }: FakeZfs): readonly string[] {
  const named = (path: string) => path.slice(folder.length + 1).replace(/iblock_[^/]*/, "iblock");
  const numbered = targetsIn(folder).map(path => {
    const file = join(path, numberFile);
    return `${named(path)}#${existsSync(file) ? readFileSync(file, "utf8") : "new"}`;
  });
  const ways = targetsIn(folder).flatMap(path => [
    ...foldersIn(join(path, "tpgt_1/np")),
    ...foldersIn(join(path, "tpgt_1/lun")),
    ...foldersIn(join(path, "namespaces")),
  ]);
  const links = foldersIn(join(folder, "nvmet/ports")).flatMap(port => {
    const subsystems = join(port, "subsystems");
    return existsSync(subsystems) ? readdirSync(subsystems).map(each => join(subsystems, each)) : [];
  });
  const open = targetsIn(folder).flatMap(path => {
    const file = join(path, "attr_allow_any_host");
    return existsSync(file) ? [`${named(file)} ${readFileSync(file, "utf8").trim()}#`] : [];
  });
  return [...numbered, ...[...ways, ...links].map(path => `${named(path)}#`), ...open];
}

/** What SPDK has; `save` remembers it. */
class SpdkThings {
  readonly #spdk: FakeSpdk;
  readonly #numbers = new WeakMap<object, number>();
  #next = 1;

  constructor(spdk: FakeSpdk) {
    this.#spdk = spdk;
  }

  save(): () => void {
    const { bdevs, subsystems } = this.#spdk;
    const keep = <T extends object>(all: Map<string, T>) => {
      const saved = [...all].map(([name, each]) => [name, each, structuredClone(each)] as const);
      return () => {
        all.clear();
        for (const [name, each, copy] of saved) all.set(name, Object.assign(each, structuredClone(copy)));
      };
    };
    const all = [keep(bdevs), keep(subsystems)];
    return () => {
      for (const restore of all) restore();
    };
  }

  things(): readonly string[] {
    const { bdevs, subsystems } = this.#spdk;
    const named = ([name, each]: readonly [string, object]) => `${name}#${this.#numberOf(each)}`;
    return [
      ...[...bdevs].map(each => `bdev ${named(each)}`),
      ...[...subsystems].map(each => `subsystem ${named(each)}`),
      ...[...subsystems].flatMap(([nqn, { namespaces, listen_addresses }]) => [
        ...namespaces.map(({ bdev_name }) => `${nqn} shows ${bdev_name}#`),
        ...listen_addresses.map(({ traddr }) => `${nqn} listens on ${traddr}#`),
      ]),
    ];
  }

  #numberOf(each: object): number {
    const number = this.#numbers.get(each) ?? this.#next++;
    this.#numbers.set(each, number);
    return number;
  }
}

/** Datasets and snapshots with their properties and numbers; which of them are mounted, with what mode, and which are shared. */
const zfsThings = (fake: FakeZfs): readonly string[] =>
  fake.with(pools =>
    pools
      .all()
      .flatMap(each => [
        `${each.name} ${JSON.stringify(each.own)}#${each.guid}`,
        ...(each.mounted
          ? [`${each.name} mounted, mode ${(statSync(pools.place(each)).mode & 0o7777).toString(8)}#`]
          : []),
        ...(each.shared ? [`${each.name} shared#`] : []),
      ]),
  );

/** Pools of the model whose answers can be spoiled. */
export async function spoiledZfs(options: ZfsOptions): Promise<SpoiledRig<Printed>> {
  const rig = await zfsRig(options);
  const { fake } = rig;
  const spdk = rig.spdk && new SpdkThings(rig.spdk);
  const programs = inProcess(fake, localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } }));
  return {
    open: spoiler => rig.on(localHost(spoiledRunner(programs, spoiler))),
    harms: harmsOfPrinted,
    async save() {
      fake.commands();
      for (const [at, path] of targetsIn(fake.folder).entries()) writeFileSync(join(path, numberFile), String(at));
      const copy = join(fake.folder, "saved");
      copied(fake.folder, copy);
      const restored = spdk?.save();
      return async () => {
        copied(copy, fake.folder);
        restored?.();
        rmSync(join(fake.folder, "dev"), { recursive: true, force: true });
        fake.with(({ state }) => {
          state.devices = {};
        });
      };
    },
    things: async () => [...zfsThings(fake), ...kernelTargets(fake), ...(spdk?.things() ?? [])],
    close: rig.close,
  };
}
