import { statSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";

type Params = Readonly<Record<string, unknown>>;

interface Bdev {
  readonly name: string;
  readonly filename: string;
  block_size: number;
  num_blocks: number;
}

interface Subsystem {
  readonly nqn: string;
  readonly attributes: Params;
  readonly namespaces: { readonly nsid: number; readonly bdev_name: string }[];
  readonly listen_addresses: Record<string, string>[];
}

class Refusal extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** SPDK's JSON-RPC on a socket: block devices on files and subsystems, with SPDK's error codes. */
export class FakeSpdk {
  readonly bdevs = new Map<string, Bdev>();
  readonly subsystems = new Map<string, Subsystem>();
  /** Who is connected to a subsystem, by its name. */
  readonly controllers = new Map<string, readonly { readonly cntlid: number; readonly hostnqn: string }[]>();
  /** Methods that are refused. */
  readonly refused = new Set<string>();
  /** Methods that were called, in their order. */
  readonly log: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Listens at `path`. */
  static async start(path: string): Promise<FakeSpdk> {
    const server = createServer();
    const spdk = new FakeSpdk(server);
    server.on("connection", socket => spdk.#serve(socket));
    await new Promise<void>(resolve => server.listen(path, resolve));
    return spdk;
  }

  close(): Promise<void> {
    return new Promise(resolve => this.#server.close(() => resolve()));
  }

  #serve(socket: Socket): void {
    let text = "";
    socket.on("data", chunk => {
      text += chunk.toString();
      let request: { id: number; method: string; params?: Params };
      try {
        request = JSON.parse(text);
      } catch {
        return;
      }
      text = "";
      const head = { jsonrpc: "2.0", id: request.id };
      this.log.push(request.method);
      try {
        const result = this.#answer(request.method, request.params ?? {});
        socket.write(JSON.stringify({ ...head, result }));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        socket.write(JSON.stringify({ ...head, error: { code: error.code, message: error.message } }));
      }
    });
  }

  #answer(method: string, params: Params): unknown {
    if (this.refused.has(method)) throw new Refusal(-32601, "Method not found");
    const [, type, verb] = /^bdev_(aio|uring)_(create|delete|rescan)$/.exec(method) ?? [];
    const name = String(params["name"]);
    if (type && verb === "create") return this.#makeBdev(name, params);
    if (type && verb === "delete") return this.#removeBdev(name);
    if (type && verb === "rescan") return this.#rescan(name);
    switch (method) {
      case "bdev_get_bdevs":
        return [...this.bdevs.values()].map(({ filename, ...rest }) => ({
          ...rest,
          driver_specific: { aio: { filename } },
        }));
      case "nvmf_get_subsystems":
        return [...this.subsystems.values()].map(({ attributes, ...rest }) => ({ ...rest, ...attributes }));
      case "framework_get_subsystems":
        return ["bdev", "nvmf"].map(subsystem => ({ subsystem }));
      case "framework_get_config":
        return name === "bdev" ? this.#bdevConfig() : this.#nvmfConfig();
      default:
        return this.#nvmf(method, params);
    }
  }

  /** As SPDK 24.01 writes them: module/bdev/aio/bdev_aio.c, lib/nvmf/nvmf.c (spdk_nvmf_tgt_write_config_json). */
  #bdevConfig(): readonly object[] {
    return [...this.bdevs.values()].map(({ name, filename, block_size }) => ({
      method: "bdev_aio_create",
      params: { name, filename, block_size },
    }));
  }

  #nvmfConfig(): readonly object[] {
    return [...this.subsystems.values()].flatMap(({ nqn, namespaces, listen_addresses }) => [
      { method: "nvmf_create_subsystem", params: { nqn } },
      ...listen_addresses.map(listen_address => ({
        method: "nvmf_subsystem_add_listener",
        params: { nqn, listen_address },
      })),
      ...namespaces.map(namespace => ({ method: "nvmf_subsystem_add_ns", params: { nqn, namespace } })),
    ]);
  }

  #nvmf(method: string, params: Params): unknown {
    const nqn = String(params["nqn"]);
    const found = this.subsystems.get(nqn);
    if (method === "nvmf_create_subsystem") {
      if (found) throw new Refusal(-32603, `Unable to create subsystem ${nqn}`);
      this.subsystems.set(nqn, { nqn, attributes: params, namespaces: [], listen_addresses: [] });
      return true;
    }
    if (!found) throw new Refusal(-19, "No such device");
    // SPDK 24.01, lib/nvmf/nvmf_rpc.c, rpc_nvmf_subsystem_get_controllers: a list of them, perhaps empty.
    if (method === "nvmf_subsystem_get_controllers") return this.controllers.get(nqn) ?? [];
    if (method === "nvmf_delete_subsystem") return this.subsystems.delete(nqn);
    if (method === "nvmf_subsystem_add_ns") {
      const namespace = params["namespace"] as { nsid: number; bdev_name: string };
      if (!this.bdevs.has(namespace.bdev_name) || found.namespaces.length > 0)
        throw new Refusal(-32602, "Invalid parameters");
      found.namespaces.push(namespace);
      return namespace.nsid;
    }
    if (method === "nvmf_subsystem_add_listener") {
      const address = params["listen_address"] as Record<string, string>;
      found.listen_addresses.push({ ...address, trtype: String(address["trtype"]).toUpperCase() });
      return true;
    }
    throw new Refusal(-32601, "Method not found");
  }

  #makeBdev(name: string, params: Params): string {
    if (this.bdevs.has(name)) throw new Refusal(-17, "File exists");
    const filename = String(params["filename"]);
    const block_size = Number(params["block_size"] ?? 512);
    this.bdevs.set(name, { name, filename, block_size, num_blocks: blocks(filename, block_size) });
    return name;
  }

  #removeBdev(name: string): boolean {
    if (!this.bdevs.delete(name)) throw new Refusal(-19, "No such device");
    for (const { namespaces } of this.subsystems.values())
      for (const [at, { bdev_name }] of namespaces.entries()) if (bdev_name === name) namespaces.splice(at, 1);
    return true;
  }

  #rescan(name: string): boolean {
    const bdev = this.bdevs.get(name);
    if (!bdev) throw new Refusal(-19, "No such device");
    bdev.num_blocks = blocks(bdev.filename, bdev.block_size);
    return true;
  }
}

/** The size of the file of a zvol in blocks; a file that is not there cannot be opened. */
function blocks(path: string, size: number): number {
  try {
    return Math.floor(statSync(path).size / size);
  } catch {
    throw new Refusal(-2, "No such file or directory");
  }
}
