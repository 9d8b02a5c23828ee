import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { protocols } from "../../../core/protocols.ts";
import type { VolumeSpec } from "../../driver.ts";
import type { Notes, Share } from "../../store.ts";
import { explainApi } from "../meaning.ts";
import {
  assetName,
  checkService,
  dropped,
  ensured,
  kept,
  type Naming,
  nameNote,
  noted,
  noteKeys,
  type Row,
  rows,
  type Shareable,
  type Site,
  taken,
} from "./share.ts";

/** `nvmeof:` of a connection file. */
export interface NvmeofSettings extends Naming {
  readonly transport: string;
  readonly transports: readonly string[];
  readonly ports: readonly number[];
  readonly subsystemTemplate?: Readonly<Record<string, unknown>> | undefined;
  readonly namespaceTemplate?: Readonly<Record<string, unknown>> | undefined;
}

/** The first version with NVMe over fabrics. */
const first = 2510;
/** A qualified name holds 223 bytes (NVMe Base Specification, 4.7), of which the server's own part takes some 70. */
const rule = { foreign: /[^-a-z0-9._:]/g, most: 120 };

const deviceOf = ({ dataset }: Shareable): string => `zvol/${dataset}`;
const inside = (row: Row, key: string): number | undefined => (row[key] as Row | null | undefined)?.id;

/** Volumes as NVMe subsystems with one namespace. */
export class NvmeofShare implements Share<Shareable> {
  readonly protocol = "nvmeof";
  readonly access = protocols.nvmeof;
  readonly growsOnNode = true;
  readonly #site: Site;
  readonly #settings: NvmeofSettings;

  constructor(site: Site, settings: NvmeofSettings) {
    this.#site = site;
    this.#settings = settings;
  }

  /** As Share.publish; the name is kept before anything of it is made, as templates may use what deletion does not know. */
  async publish(
    asset: Shareable,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<Shareable>,
    call: Call,
  ): Promise<Notes> {
    await this.#versioned(call);
    const name = asset.notes[nameNote.nvmeof] ?? assetName(asset, spec.parameters, this.#settings, rule);
    await kept(asset, { [nameNote.nvmeof]: name }, keep);
    const subsystem = await this.#subsystem(asset, name, call);
    const namespace = await this.#namespace(asset, subsystem, call);
    for (const port of this.#settings.ports) await this.#link(port, subsystem, call);
    const ids = [subsystem, namespace].map(({ id }) => String(id));
    return {
      ...Object.fromEntries(ids.map((id, at) => [noteKeys.nvmeof[at] ?? "", id])),
      transport: this.#settings.transport,
      transports: this.#settings.transports.join(","),
      nqn: String(subsystem["subnqn"]),
      nsid: String(namespace["nsid"]),
      ...this.context(asset),
    };
  }

  context(asset: Shareable) {
    return noted(asset, ["transport", "transports", "nqn", "nsid"]);
  }

  explain(error: unknown) {
    return explainApi(error);
  }

  /** As Share.withdraw: by the device, which is the volume's alone, and by the name that was kept; never by a noted id alone. */
  async withdraw(asset: Shareable, call: Call): Promise<void> {
    await this.#versioned(call);
    const { api } = this.#site;
    const own = await rows(api, "nvmet.namespace", [["device_path", "=", deviceOf(asset)]], call);
    for (const { id } of own) await dropped(api, "nvmet.namespace.delete", [id, { remove: false }], call);
    const name = asset.notes[nameNote.nvmeof];
    const subsystem =
      name === undefined ? undefined : (await rows(api, "nvmet.subsys", [["name", "=", name]], call))[0];
    if (!subsystem || (await this.#others(asset, subsystem, call))) return;
    await dropped(api, "nvmet.subsys.delete", [subsystem.id, { force: true }], call);
  }

  async check(call: Call): Promise<void> {
    await this.#versioned(call);
    await checkService(this.#site, "nvmet", call);
    const ports = await rows(this.#site.api, "nvmet.port", [], call);
    for (const id of this.#settings.ports) {
      if (ports.some(port => port.id === id)) continue;
      const known = ports
        .map(port => `${port.id} (${String(port["addr_traddr"])}:${String(port["addr_trsvcid"])})`)
        .join(", ");
      throw new CsiError(
        "failed-precondition",
        `connection "${this.#site.connection}": there is no NVMe-oF port with id ${id}; there are: ${known || "none"}`,
      );
    }
  }

  async #versioned(call: Call): Promise<void> {
    const { number, text } = await this.#site.api.version(call.signal);
    if (number >= first) return;
    throw new CsiError(
      "failed-precondition",
      `connection "${this.#site.connection}": NVMe over fabrics needs TrueNAS 25.10 or newer, and ${this.#site.api.where} is ${text}`,
    );
  }

  /** Whether a subsystem holds another volume's namespace. */
  async #others(asset: Shareable, subsystem: Row, call: Call): Promise<boolean> {
    const all = await rows(this.#site.api, "nvmet.namespace", [["subsys.id", "=", subsystem.id]], call);
    return all.some(each => each["device_path"] !== deviceOf(asset));
  }

  async #subsystem(asset: Shareable, name: string, call: Call): Promise<Row> {
    const { api } = this.#site;
    const find = async () => (await rows(api, "nvmet.subsys", [["name", "=", name]], call))[0];
    const request = { name, allow_any_host: true, ...this.#settings.subsystemTemplate };
    const subsystem = await ensured(
      find,
      async () => (await api.call("nvmet.subsys.create", [request], call.signal)) as Row,
    );
    if (await this.#others(asset, subsystem, call))
      throw taken(this.#site, `the NVMe subsystem "${name}"`, "another volume");
    return subsystem;
  }

  async #namespace(asset: Shareable, subsystem: Row, call: Call): Promise<Row> {
    const { api } = this.#site;
    const device_path = deviceOf(asset);
    const find = async () => (await rows(api, "nvmet.namespace", [["device_path", "=", device_path]], call))[0];
    const request = { device_type: "ZVOL", device_path, subsys_id: subsystem.id, ...this.#settings.namespaceTemplate };
    const namespace = await ensured(
      find,
      async () => (await api.call("nvmet.namespace.create", [request], call.signal)) as Row,
    );
    if (inside(namespace, "subsys") !== subsystem.id)
      throw taken(this.#site, `a namespace of ${device_path}`, "another subsystem");
    return namespace;
  }

  async #link(port: number, subsystem: Row, call: Call): Promise<void> {
    const { api } = this.#site;
    const filters = [
      ["port.id", "=", port],
      ["subsys.id", "=", subsystem.id],
    ];
    const find = async () => (await rows(api, "nvmet.port_subsys", filters, call))[0];
    await ensured(
      find,
      async () =>
        (await api.call("nvmet.port_subsys.create", [{ port_id: port, subsys_id: subsystem.id }], call.signal)) as Row,
    );
  }
}
