import type { Access } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { disk } from "../../core/protocols.ts";
import type { Argv } from "../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../io/script.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { Notes, Share } from "../store.ts";
import type { ZfsAsset } from "./asset.ts";
import { checkedName, type Naming, plainName, targetName } from "./target-names.ts";
import {
  deviceStep,
  inspectStep,
  type LioSettings,
  type LioTarget,
  makeText,
  removeText,
  targetcliStep,
} from "./targetcli.ts";

/** The note that names a volume's target; democratic-csi reads it too. */
export const iscsiNote = "iscsi_assets_name";

/** What the block `iscsi:` says. */
export interface IscsiSettings extends LioSettings {
  readonly naming: Naming;
  readonly portal: string;
  readonly portals: readonly string[];
  readonly interface: string;
  /** How targetcli is called. */
  readonly targetcli: Argv;
  /** What comes before programs that read what only root may read. */
  readonly privileged: readonly string[];
  /** Where the kernel shows its targets; /sys/kernel/config/target but in tests. */
  readonly configfs: string;
  /** Where the zvols are devices; /dev/zvol but in tests. */
  readonly devices: string;
}

const contextKeys = ["portal", "portals", "interface", "iqn", "lun"] as const;

/** Zvols as targets of LIO, one target with one LUN each, made through targetcli and proved by what the kernel shows. */
export class IscsiShare implements Share<ZfsAsset> {
  readonly protocol = "iscsi";
  readonly access: Access = disk;
  readonly growsOnNode = true;
  readonly #host: StorageHost;
  readonly #settings: IscsiSettings;

  constructor(host: StorageHost, settings: IscsiSettings) {
    this.#host = host;
    this.#settings = settings;
  }

  /** The name is kept before anything of it is made, so that whatever happens the target can be found again. */
  async publish(
    asset: ZfsAsset,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<ZfsAsset>,
    call: Call,
  ): Promise<Notes> {
    if (asset.finished) return {};
    const { naming, portal, portals } = this.#settings;
    const noted = asset.notes[iscsiNote];
    const name = noted === undefined ? targetName(naming, asset.id, spec) : checkedName(naming.basename, noted);
    if (noted === undefined) await keep({ [iscsiNote]: name.asset });
    const target: LioTarget = {
      iqn: name.whole,
      asset: name.asset,
      device: `${this.#settings.devices}/${asset.dataset}`,
    };
    await this.#host.exclusive("targetcli", call.signal, () => this.#make(target, call));
    return {
      portal,
      portals: portals.join(","),
      interface: this.#settings.interface,
      iqn: target.iqn,
      lun: "0",
    };
  }

  context(asset: ZfsAsset): Context {
    return Object.fromEntries(
      contextKeys.flatMap(key => (asset.notes[key] === undefined ? [] : [[key, asset.notes[key]]])),
    );
  }

  async withdraw(asset: ZfsAsset, call: Call): Promise<void> {
    const { naming, configfs, privileged, targetcli } = this.#settings;
    const noted = asset.notes[iscsiNote];
    const plain = plainName(naming, asset.id);
    const target: LioTarget = {
      asset: noted ?? plain.asset,
      iqn: asset.notes["iqn"] ?? (noted === undefined ? plain.whole : `${naming.basename}:${noted}`),
      device: `${this.#settings.devices}/${asset.dataset}`,
    };
    await this.#host.exclusive("targetcli", call.signal, async () => {
      const before = await this.#seen(target, call);
      if (!before.has("backstore") && !before.has("target")) return;
      this.#refuseForeign(target, before);
      const steps: readonly [Step, ...Step[]] = [
        targetcliStep("remove", removeText(target), targetcli, []),
        inspectStep("after", target, configfs, privileged),
      ];
      const after = words(await this.#host.script({ steps }, call.signal), "after");
      if (!after.has("target") && !after.has("backstore")) return;
      throw new CsiError("aborted", `targetcli did not remove the target ${target.iqn}; repeat the call`);
    });
  }

  async #make(target: LioTarget, call: Call): Promise<void> {
    const { configfs, privileged, targetcli, auth } = this.#settings;
    const secret = Object.values(auth);
    const before = await this.#host.script(
      { steps: [deviceStep(target.device), inspectStep("before", target, configfs, privileged)] },
      call.signal,
    );
    if (before.get("device")?.exitCode !== 0)
      throw new CsiError("unavailable", `the device ${target.device} does not appear; repeat the call`);
    this.#refuseForeign(target, words(before, "before"));
    const steps: readonly [Step, ...Step[]] = [
      targetcliStep("make", makeText(target, this.#settings), targetcli, secret),
      inspectStep("after", target, configfs, privileged),
    ];
    const outputs = await this.#host.script({ steps }, call.signal);
    const after = words(outputs, "after");
    const lacking = ["backstore", "target", "enabled", "portal", "lun"].filter(each => !after.has(each));
    if (lacking.length === 0) return;
    const said = `${outputs.get("make")?.stderr ?? ""}\n${outputs.get("make")?.stdout ?? ""}`;
    const line = said.split("\n").find(each => /error|not |cannot|invalid|refused/i.test(each)) ?? "";
    throw new CsiError(
      "unavailable",
      `the target ${target.iqn} lacks: ${lacking.join(", ")}; ${line.slice(0, 300) || "see targetcli ls on the host"}`,
    );
  }

  async #seen(target: LioTarget, call: Call): Promise<ReadonlySet<string>> {
    const { configfs, privileged } = this.#settings;
    return words(
      await this.#host.script({ steps: [inspectStep("seen", target, configfs, privileged)] }, call.signal),
      "seen",
    );
  }

  /** Names of targets are the whole host's: one that shows another device is somebody else's. */
  #refuseForeign({ asset, iqn, device }: LioTarget, seen: ReadonlySet<string>): void {
    const foreign = [...seen].find(each => each.startsWith("foreign "));
    if (foreign === undefined) return;
    throw new CsiError(
      "failed-precondition",
      `"${asset}" (${iqn}) is the name of another device, ${foreign.slice(8)}, not of ${device}; see namePrefix and nameSuffix`,
    );
  }
}

/** The lines of a step that must have ended well. */
function words(outputs: Outputs, step: string): ReadonlySet<string> {
  const output = outputs.get(step);
  if (output?.exitCode === 0) return new Set(output.stdout.split("\n").filter(line => line !== ""));
  const failed = [...outputs.values()].find(each => each.exitCode !== 0);
  throw new CsiError(
    "unavailable",
    `the target cannot be looked at: ${failed?.stderr.split("\n")[0] ?? "no answer"}; repeat the call`,
  );
}
